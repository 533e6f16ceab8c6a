// Outline of the metric files of several ranks before their import: statistics, targets, steps, micro-steps.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/offline/metric_file.h"
#include "src/offline/workers.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// A position in the model whose trend is kept.
struct TrendTarget {
  std::string name;
  int64_t vpp_stage = 0;
  int64_t micro_step = 0;

  bool operator==(const TrendTarget&) const = default;
};

struct TrendTargetHash {
  size_t operator()(const TrendTarget& target) const;
};

// Statistics that have a column in the database, in its order.
const std::vector<std::string>& TrendStats();

// Rules that convert rows to trends.
struct TrendRules {
  bool micro_step = true;  // micro-steps are numbered through all steps
  std::vector<std::pair<std::string, std::string>> mapping;

  // The target's micro-step is 0 if micro-steps are numbered through.
  TrendTarget TargetOf(const MetricRow& row) const;
};

struct TrendFile {
  int rank = 0;
  MetricFileEntry entry;
};

// Outline of one file, or of several together.
struct TrendScan {
  uint64_t rows = 0;
  uint64_t rows_skipped = 0;
  std::set<std::string> stats;
  std::vector<TrendTarget> targets;            // in order of appearance, each once
  std::map<int64_t, int64_t> last_micro_step;  // of each step
  std::string note;
};

Result<TrendScan> ScanTrendFile(const TrendFile& file, const TrendRules& rules, WorkState* state);

// The first number of each step when micro-steps are numbered through: a step uses as many numbers as its last
// micro-step plus one, over all ranks and kinds. `total` is the count of all.
std::unordered_map<int64_t, int64_t> FirstMicroSteps(const std::map<int64_t, int64_t>& last_micro_step, int64_t* total);

// Names by which a target is found: every part of its name that is not a number is a "module", a part with the
// following number ("layers.0") a "layer".
struct TrendTag {
  std::string name;
  std::string category;

  bool operator<(const TrendTag& other) const {
    return std::tie(name, category) < std::tie(other.name, other.category);
  }
};
std::set<TrendTag> TagsOf(const std::string& target_name);

}  // namespace stepwatch::offline
