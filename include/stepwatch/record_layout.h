// How the records of one plan become rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stepwatch/site.h"
#include "stepwatch/statistics.h"

namespace stepwatch {

using PlanId = uint32_t;  // 1, 2, 3 ... for the life of a run; 0: no plan

// Where the rows of one plan go: the config's `format`.
enum class OutputFormat : uint8_t {
  kCsv,
  kTensorBoard,
  kApi,  // nowhere: there is Monitor::Latest, and there are alarms
};
inline constexpr int kOutputFormatCount = 3;

struct OutputFormatTraits {
  OutputFormat format;
  const char* name;           // in the config
  const char* where_rows_go;  // in Markdown, for docs/config.md and the schema
};

// One row for each format, in their order. Adding one adds a row here; CONTRIBUTING.md names the other places.
inline constexpr OutputFormatTraits kOutputFormats[] = {
    {OutputFormat::kCsv, "csv", "CSV files"},
    {OutputFormat::kTensorBoard, "tensorboard", "TensorBoard's [event files](tensorboard.md)"},
    {OutputFormat::kApi, "api",
     "with `\"api\"` nowhere: no file, no directory, no manifest; the latest values can be asked for in the program, "
     "and "
     "alarms are raised"},
};

constexpr bool EveryOutputFormatHasItsRow() {
  for (int i = 0; i < kOutputFormatCount; ++i)
    if (kOutputFormats[i].format != static_cast<OutputFormat>(i)) return false;
  return sizeof(kOutputFormats) / sizeof(kOutputFormats[0]) == kOutputFormatCount;
}
static_assert(EveryOutputFormatHasItsRow(), "kOutputFormats is in the order of OutputFormat");

// Immutable, shared by the step thread, the drain and the sinks.
struct RecordLayout {
  PlanId plan_id = 0;
  std::vector<PlannedSite> sites;
  std::vector<Stat> stats;                    // `ops` in column order, shape and dtype included
  int ndigits = -1;                           // decimal places; -1: shortest text that reads back to the same double
  int64_t step_count_per_record = 1;          // steps in one file
  bool micro_step_in_grad_unreduced = false;  // monitor_mbs_grad
  OutputFormat format = OutputFormat::kCsv;
  bool plan_id_column = false;  // "stepwatch": {"columns": ["plan_id"]}
};

// Whether records of this kind say in which micro-batch they were seen.
inline bool HasMicroStep(const RecordLayout& layout, SiteKind kind) {
  const MicroSteps micro_steps = TraitsOf(kind).micro_steps;
  return micro_steps == MicroSteps::kAlways ||
         (micro_steps == MicroSteps::kWithMbsGrad && layout.micro_step_in_grad_unreduced);
}

// The statistics of records of this kind, in the order of columns: a feature's own, or those of `ops`, shape and dtype
// included. Valid as long as the layout.
struct Columns {
  const Stat* stats = nullptr;
  size_t count = 0;

  const Stat* begin() const { return stats; }
  const Stat* end() const { return stats + count; }
};
inline Columns ColumnsOf(const RecordLayout& layout, SiteKind kind) {
  const SiteKindTraits& traits = TraitsOf(kind);
  if (IsFeature(kind)) return {traits.columns, traits.column_count};
  return {layout.stats.data(), layout.stats.size()};
}

}  // namespace stepwatch
