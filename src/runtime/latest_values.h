// The last record of every site of the newest plan, for whoever asks in mid-training. Drain thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "src/plan/plan.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record.h"

namespace stepwatch::runtime {

class LatestValues {
 public:
  // Records in the order in which they were produced; one that is known already changes nothing, one without its
  // numbers is passed over. A record of another plan begins a new table.
  void Add(const std::shared_ptr<const plan::Plan>& plan, const std::vector<Record>& records);
  // In the order of the plan's sites.
  std::vector<LatestValue> Of(SiteKind kind) const;

 private:
  std::shared_ptr<const plan::Plan> plan_;
  std::map<uint64_t, Record> records_;  // by site, element and call
};

}  // namespace stepwatch::runtime
