// What the watcher of `stepwatch top` has chosen.
#pragma once

#include <cstddef>
#include <string>

namespace stepwatch::cli {

// In the place of a kind of sites: what measuring takes of a collected step, a row for each kind.
inline constexpr const char* kCostKind = "cost";

struct TopChoice {
  std::string sort{};      // a statistic; empty: the order of the plan
  bool ascending = false;  // the smallest first
  std::string filter{};    // only names that contain it
  bool is_typing = false;  // the filter
  size_t first = 0;        // row at the top
};

}  // namespace stepwatch::cli
