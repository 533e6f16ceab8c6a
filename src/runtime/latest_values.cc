#include "src/runtime/latest_values.h"

namespace stepwatch::runtime {

void LatestValues::Add(const std::shared_ptr<const plan::Plan>& plan, const std::vector<Record>& records) {
  if (plan_ != plan) {
    if (plan_ != nullptr && plan_->layout.plan_id > plan->layout.plan_id) return;
    plan_ = plan;
    records_.clear();
  }
  for (const Record& record : records) {
    if (record.pending()) continue;
    const uint64_t key = uint64_t{record.site} << 32 | uint64_t{record.element} << 16 | record.call;
    const auto [slot, is_new] = records_.try_emplace(key, record);
    if (!is_new && record.step >= slot->second.step) slot->second = record;
  }
}

std::vector<LatestValue> LatestValues::Of(SiteKind kind) const {
  std::vector<LatestValue> values;
  for (const auto& [key, record] : records_) {
    const PlannedSite& site = plan_->layout.sites[record.site];
    if (site.kind == kind) values.push_back({site.name, site.chunk, record});
  }
  return values;
}

}  // namespace stepwatch::runtime
