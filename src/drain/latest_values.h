// What every site of the newest plan gave last, for whoever asks in mid-training. Drain thread only.
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
  // Records of one step in the order in which they were produced: those of a site take the place of what is known of
  // it, unless that is of a later step. The same step may come again when more of it is known. A record without its
  // numbers is skipped. A newer plan begins a new table.
  void Add(const std::shared_ptr<const plan::Plan>& plan, const std::vector<Record>& records);
  // In the order of the plan's sites; of one site in the order in which they were produced, each place in a step once,
  // with the last that was seen there. Tags for this rank.
  std::vector<LatestValue> Of(SiteKind kind, int rank) const;

 private:
  struct SiteValues {
    std::vector<Record> records;  // all of one step
    uint64_t added = 0;           // by which call of Add
  };

  std::shared_ptr<const plan::Plan> plan_;
  std::vector<SiteValues> sites_;  // of plan_
  uint64_t calls_ = 0;
};

}  // namespace stepwatch::drain
