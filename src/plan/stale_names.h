// What is said of the names in a config that select nothing: of the first few each with a likely correction, of the
// others their count. A config of another model may hold thousands.
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

  // `key` is that of the config field which holds the names.
  explicit StaleNames(std::string key) : key_(std::move(key)) {}

  // True if the next name will be told with a sentence of its own, and so is worth a search for a correction.
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
  std::vector<std::string> examples_;  // of those beyond kNamedMax
  base::SearchBudget budget_;
};

// "a" in double quotes, safe for terminals.
std::string Quoted(std::string_view text_untrusted);

}  // namespace stepwatch::plan
