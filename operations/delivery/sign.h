// Signatures of messages.
#pragma once

#include <string>
#include <string_view>

namespace stepwatch::operations::delivery {

// The 32 bytes of HMAC-SHA256.
std::string HmacSha256(std::string_view key, std::string_view text);
std::string Base64(std::string_view bytes);
std::string Hex(std::string_view bytes);

}  // namespace stepwatch::operations::delivery
