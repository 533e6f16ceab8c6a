// Warnings about config names that select nothing: the first few each with a likely correction, the others as a count.
// A config of another model may hold thousands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/text.h"
#include "src/config/config.h"

namespace stepwatch::plan {

class StaleNames {
 public:
  static constexpr size_t kNamedMax = 10;

  // `key` is the config field that holds the names.
  explicit StaleNames(std::string key) : key_(std::move(key)) {}

  // True if the next name gets a warning of its own, so that searching for a correction is useful.
  bool NamesNext() const { return count_ < kNamedMax; }
  // "<text>" <problem>; it selects nothing (did you mean "<instead>"?)
  void Add(const std::string& text_untrusted, std::string_view problem, std::string_view instead_untrusted);

  // Shared by all searches for corrections of these names.
  base::SearchBudget* budget() { return &budget_; }

  std::vector<config::Warning> TakeWarnings();

 private:
  std::string key_;
  size_t count_ = 0;
  std::vector<config::Warning> warnings_;
  std::vector<std::string> examples_;  // of the names beyond kNamedMax
  base::SearchBudget budget_;
};

// "a" in double quotes, safe for terminals.
std::string Quoted(std::string_view text_untrusted);

}  // namespace stepwatch::plan
