// Layout of the rows of one plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stepwatch/site.h"
#include "stepwatch/statistics.h"

namespace stepwatch {

using PlanId = uint32_t;  // 1, 2, 3 ... for the life of a run; 0: no plan

// Output of the rows of one plan: the config's `format`.
enum class OutputFormat : uint8_t {
  kCsv,
  kTensorBoard,
  kApi,  // no files: only Monitor::Latest and alarms
};
inline constexpr int kOutputFormatCount = 3;

struct OutputFormatTraits {
  OutputFormat format;
  const char* name;           // as in the config
  const char* where_rows_go;  // in Markdown, for docs/use/config.md and the schema
};

// One row per format, in their order. A new format needs a row here; CONTRIBUTING.md names the other places.
inline constexpr OutputFormatTraits kOutputFormats[] = {
    {OutputFormat::kCsv, "csv", "CSV files"},
    {OutputFormat::kTensorBoard, "tensorboard", "TensorBoard's [event files](../formats/tensorboard.md)"},
    {OutputFormat::kApi, "api",
     "with `\"api\"` nowhere: no file, no directory, no manifest; the program can read the latest values, and alarms "
     "are raised"},
};

constexpr bool EveryOutputFormatHasItsRow() {
  for (int i = 0; i < kOutputFormatCount; ++i)
    if (kOutputFormats[i].format != static_cast<OutputFormat>(i)) return false;
  return sizeof(kOutputFormats) / sizeof(kOutputFormats[0]) == kOutputFormatCount;
}
static_assert(EveryOutputFormatHasItsRow(), "kOutputFormats is in the order of OutputFormat");

// Layout of one group of sites: an entry of "stepwatch": {"sites": ...}.
struct GroupLayout {
  int64_t every = 1;          // interval in collected steps, counted from the start of the window; 0: never collected
  std::vector<Stat> stats{};  // like RecordLayout::stats; empty: the same as there
};

// Immutable; shared by the step thread, the drain and the sinks.
struct RecordLayout {
  PlanId plan_id = 0;
  std::vector<PlannedSite> sites;
  std::vector<Stat> stats;                    // `ops` in column order, shape and dtype included
  int ndigits = -1;                           // decimal places; -1: shortest text that reads back to the same double
  int64_t step_count_per_record = 1;          // steps per file
  bool micro_step_in_grad_unreduced = false;  // monitor_mbs_grad
  OutputFormat format = OutputFormat::kCsv;
  bool plan_id_column = false;  // "stepwatch": {"columns": ["plan_id"]}
  std::vector<GroupLayout> groups{};
  // By the kind of a file: its columns, if groups add columns to `stats`; empty: `stats`.
  std::array<std::vector<Stat>, kSiteKindCount> columns{};
};

// Returns whether records of this kind have a micro-batch.
inline bool HasMicroStep(const RecordLayout& layout, SiteKind kind) {
  const MicroSteps micro_steps = TraitsOf(kind).micro_steps;
  return micro_steps == MicroSteps::kAlways ||
         (micro_steps == MicroSteps::kWithMbsGrad && layout.micro_step_in_grad_unreduced);
}

// Columns of the files of this kind: a feature's own, or those of `ops` and of groups, shape and dtype included. Valid
// as long as the layout.
struct Columns {
  const Stat* stats = nullptr;
  size_t count = 0;

  const Stat* begin() const { return stats; }
  const Stat* end() const { return stats + count; }
};
inline Columns ColumnsOf(const RecordLayout& layout, SiteKind kind) {
  const SiteKindTraits& traits = TraitsOf(kind);
  if (IsFeature(kind)) return {traits.columns, traits.column_count};
  const std::vector<Stat>& of_kind = layout.columns[static_cast<size_t>(FileKind(kind))];
  const std::vector<Stat>& stats = of_kind.empty() ? layout.stats : of_kind;
  return {stats.data(), stats.size()};
}

// Statistics of the records of one site, shape and dtype included; not for features. Other columns of its rows are
// empty cells.
inline const std::vector<Stat>& StatsOf(const RecordLayout& layout, SiteId site) {
  const size_t group = site < layout.sites.size() ? layout.sites[site].group : 0;
  if (group == 0 || group > layout.groups.size() || layout.groups[group - 1].stats.empty()) return layout.stats;
  return layout.groups[group - 1].stats;
}

// A set of groups as a bit mask; bit 0 stands for the sites without a group.
using GroupSet = uint64_t;
inline constexpr GroupSet kAllGroups = ~GroupSet{0};
inline bool HasGroup(GroupSet set, uint8_t group) {
  return (set >> group & 1) != 0;
}

}  // namespace stepwatch
