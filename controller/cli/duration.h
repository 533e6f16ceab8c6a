// Lengths of time as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepwatch::cli {

// Seconds in "30d", "12h", "90m", "45s", "2w". Nothing: it is none of these.
std::optional<int64_t> ParseTimespan(std::string_view text);

// "59 s", "1 m 05 s", "1 h 02 m", "3 d 04 h".
std::string DurationText(double seconds);

// Likewise, with the digits that tell short times apart: "350 us", "350.0 ms", "2.35 s".
std::string ShortDurationText(double seconds);

}  // namespace stepwatch::cli
