// Numbers of bytes as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepwatch::base {

// "4096", "64K", "1.5G", "2 TiB": K, M, G and T are 1024 of the one before, with or without B or iB, in any case.
// nullopt if the text has another form, is negative or exceeds 2^63.
std::optional<uint64_t> ParseByteCount(std::string_view text);

// "712 B", "4.0 KiB", "1.5 GiB".
std::string ByteCountText(uint64_t bytes);

}  // namespace stepwatch::base
