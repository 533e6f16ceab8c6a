// Small text helpers for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::base {

// The work limit of nearest-word searches, in entries of their distance tables. Several searches may share a budget;
// one that is spent ends the search with the best word found so far.
struct SearchBudget {
  size_t entries = 20'000'000;  // some 50 ms
};

// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours) to `word`, if it is close
// enough to be a likely typo: at most a third of the longer length, at least 1. The first of equals; empty if none is
// close. Each table is filled only as far as it can still beat the best candidate, and words beyond 128 bytes have no
// neighbours. Never allocates. Without a budget the search gets a full one.
std::string_view NearestWord(std::string_view word, const std::vector<std::string_view>& candidates,
                             SearchBudget* budget = nullptr);

// Makes text from a file or a user safe for terminals and logs: control characters and marks that change the direction
// of writing become \xNN, and more than `length_max` bytes are cut with "…" at the end, never inside a UTF-8 character.
std::string Printable(std::string_view untrusted, size_t length_max = 80);

// Makes lines for a terminal that contain foreign text safe: of control characters only line feeds and tabs stay. The
// others, and the marks that change the direction of writing, become \uNNNN, which JSON reads as the same character; a
// byte that belongs to no UTF-8 character becomes \xNN.
std::string TerminalText(std::string_view untrusted);

// Joins the parts with `between` between each two.
std::string Joined(const std::vector<std::string>& parts, std::string_view between);

// The text with U+FFFD for every byte that does not belong to a UTF-8 character.
std::string ValidUtf8(std::string_view text);

}  // namespace stepwatch::base
