// From what captured graphs left on a device in one step to the rows of one plan. Reader's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/device_engine.h"
#include "kernels/kernels.h"
#include "src/device/devices.h"
#include "src/device/site_lookup.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"

namespace stepwatch::device {

struct GraphRows {
  Record like;                // step, plan and flags of the rows
  GroupSet due = kAllGroups;  // the groups that the step collects
  std::vector<Record>* records = nullptr;
  uint64_t lost = 0;  // there may have been so many more, which came too late or under a step that is not known
};

// A plan's view of what was captured under this plan or an earlier one: an observation whose site the plan does not
// watch, or not in this step, gives no row.
class GraphReader {
 public:
  // `layout` outlives it.
  GraphReader(const RecordLayout& layout, const kernels::MeasureOptions& measure);

  // Appends a row for each observation that was replayed in the step, in the order in which they were captured. False:
  // the device is not through with the step, and nothing was done.
  bool Harvest(Devices* devices, const kernels::DeviceStep& step, GraphRows* rows) const;
  size_t Count(const Devices& devices, const kernels::DeviceStep& step, GroupSet due) const noexcept;

 private:
  Record RowOf(const CapturedObservation& observation, SiteId site, const Statistics& statistics,
               const Record& like) const noexcept;
  bool OtherEps(const CapturedObservation& observation, SiteId site) const noexcept;
  // Nothing: the plan does not watch it, or not in this step.
  std::optional<SiteId> SiteOf(const CapturedObservation* observation, GroupSet due) const noexcept;

  const RecordLayout& layout_;
  const kernels::MeasureOptions measure_;
  const SiteLookup sites_;
};

}  // namespace stepwatch::device
