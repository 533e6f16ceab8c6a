#include "src/plan/plan.h"

#include <algorithm>

#include "stepwatch/record_layout.h"

namespace stepwatch::plan {
namespace {

// Sharded models gather and reduce layer by layer, in every micro-batch. Up to this number, a step's calls still fit
// into the ring's room for a second step.
constexpr uint64_t kCallsInMicroBatch = 64;

uint64_t MicroBatches(int micro_batches) {
  return static_cast<uint64_t>(std::max(micro_batches, 1));
}

}  // namespace

GroupSet Plan::DueGroups(int64_t round) const noexcept {
  GroupSet due = kAllGroups;
  for (size_t i = 0; i < layout.groups.size(); ++i)
    if (layout.groups[i].every == 0 || round % layout.groups[i].every != 0) due &= ~(GroupSet{1} << (i + 1));
  return due;
}

uint64_t Plan::RowsPerStep(int micro_batches) const {
  uint64_t rows = 0;
  for (const PlannedSite& site : layout.sites) rows += RowsPerStep(site, micro_batches);
  return rows;
}

uint64_t Plan::RowsPerStep(const PlannedSite& site, int micro_batches) const {
  return HasHeatmap(site.kind) ? 0 : HasMicroStep(layout, site.kind) ? MicroBatches(micro_batches) : 1;
}

uint64_t Plan::RecordsPerStep(int micro_batches) const {
  uint64_t further = 0;
  for (const PlannedSite& site : layout.sites)
    if (TraitsOf(site.kind).repeats == Repeats::kJoin) further += kCallsInMicroBatch * MicroBatches(micro_batches) - 1;
  return RowsPerStep(micro_batches) + further;
}

}  // namespace stepwatch::plan
