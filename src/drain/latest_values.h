// The last values of every site of the newest plan, for queries during training. Drain thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/plan/plan.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record.h"

namespace stepwatch::drain {

class LatestValues {
 public:
  // Adds records of one step in the order of production: they replace the known values of their site, unless those are
  // of a later step. A step may be added again when more of it is known. A record without its numbers is skipped. A
  // newer plan begins a new table.
  void Add(const std::shared_ptr<const plan::Plan>& plan, const std::vector<Record>& records);
  // In the order of the plan's sites, and for one site in the order of production; each position in a step occurs once,
  // with its last value. Tags for this rank.
  std::vector<LatestValue> Of(SiteKind kind, int rank) const;

 private:
  struct SiteValues {
    std::vector<Record> records;  // all of one step
    uint64_t added = 0;           // the call of Add that added them
  };

  std::shared_ptr<const plan::Plan> plan_;
  std::vector<SiteValues> sites_;  // of plan_
  uint64_t calls_ = 0;
};

}  // namespace stepwatch::drain
