// JSON as some programs write it, made such that a parser takes it.
#pragma once

#include <string>
#include <string_view>

namespace stepwatch::operations {

// NaN and Infinity as Python's json.dumps writes them become texts; halves of surrogate pairs that stand alone, and
// bytes that are no UTF-8, become U+FFFD. All else stays as it is.
std::string MendJson(std::string_view text_untrusted);

}  // namespace stepwatch::operations
