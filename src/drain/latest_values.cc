#include "src/drain/latest_values.h"

#include <map>
#include <tuple>

#include "stepwatch/tag.h"

namespace stepwatch::drain {

void LatestValues::Add(const std::shared_ptr<const plan::Plan>& plan, const std::vector<Record>& records) {
  if (plan_ != plan) {
    if (plan_ != nullptr && plan_->layout.plan_id > plan->layout.plan_id) return;
    plan_ = plan;
    sites_.assign(plan->layout.sites.size(), {});
  }
  ++calls_;
  for (const Record& record : records) {
    if (record.pending() || record.site >= sites_.size()) continue;
    SiteValues& site = sites_[record.site];
    if (!site.records.empty() && record.step < site.records.front().step) continue;
    if (site.added != calls_) site.records.clear();
    site.added = calls_;
    site.records.push_back(record);
  }
}

std::vector<LatestValue> LatestValues::Of(SiteKind kind, int rank) const {
  std::vector<LatestValue> values;
  for (size_t id = 0; id < sites_.size(); ++id) {
    const PlannedSite& site = plan_->layout.sites[id];
    if (site.kind != kind) continue;
    std::map<std::tuple<int32_t, uint16_t, uint16_t>, size_t> places;
    for (const Record& record : sites_[id].records) {
      const auto [place, is_new] = places.try_emplace({record.micro_step, record.element, record.call}, values.size());
      if (is_new)
        values.push_back({site.name, site.chunk, record, RecordTag(plan_->layout, record, rank)});
      else
        values[place->second].record = record;
    }
  }
  return values;
}

}  // namespace stepwatch::drain
