// The token of a TCP door in tests: as long as a token must be.
#pragma once

#include <string>

namespace stepwatch::door {

inline const std::string kToken = "0123456789abcdef0123456789abcdef";

}  // namespace stepwatch::door
