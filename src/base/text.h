// Small text helpers for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::base {

// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours) to `word`, if it is close
// enough to be a likely typo: at most a third of the longer length, at least 1. Empty if none is.
std::string_view NearestWord(std::string_view word, const std::vector<std::string_view>& candidates);

// Text from a file or a user made safe for terminals and logs: control characters and marks that turn the direction of
// writing become \xNN, and more than
// `length_max` bytes are cut with "…" at the end, never inside a UTF-8 character.
std::string Printable(std::string_view untrusted, size_t length_max = 80);

// The text with U+FFFD for every byte that does not belong to a UTF-8 character.
std::string ValidUtf8(std::string_view text);

}  // namespace stepwatch::base
