// The token of a TCP control socket in tests: as long as a token must be.
#pragma once

#include <string>

namespace stepwatch::sockets {

inline const std::string kToken = "0123456789abcdef0123456789abcdef";

}  // namespace stepwatch::sockets
