// The identity of a config text: SHA-256 of its bytes, in lower-case hex (64 characters).
#pragma once

#include <string>
#include <string_view>

namespace stepwatch::base {

std::string Sha256Hex(std::string_view bytes);

}  // namespace stepwatch::base
