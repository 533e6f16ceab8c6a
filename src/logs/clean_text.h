// Foreign bytes to text that is safe to search and to keep: valid UTF-8 without escape sequences and control
// characters.
#pragma once

#include <string>
#include <string_view>

namespace stepwatch::logs {

// True if CleanText would change nothing. One pass without allocation.
bool IsClean(std::string_view bytes);

// Removes escape sequences of terminals and control characters except tab and line feed, decodes #011, #012 and
// #033 of rsyslog, and replaces bytes that are not UTF-8 by U+FFFD.
std::string CleanText(std::string_view bytes);

// At most `bytes_max` bytes, never cut inside a character.
std::string_view CutUtf8(std::string_view text, size_t bytes_max);

}  // namespace stepwatch::logs
