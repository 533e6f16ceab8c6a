// Converts the results of captured graphs in one step to rows of one plan. Reader's thread only.
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
  GroupSet due = kAllGroups;  // the groups collected in the step
  std::vector<Record>* records = nullptr;
  uint64_t lost = 0;  // upper limit of rows lost, because they were late or their step is unknown
};

// A plan's view of observations captured under this plan or an earlier one: an observation whose site the plan does not
// watch, or not in this step, produces no row.
class GraphReader {
 public:
  // `layout` must outlive it.
  GraphReader(const RecordLayout& layout, const kernels::MeasureOptions& measure);

  // Appends a row for each observation that was replayed in the step, in the order of capture. Returns false, without
  // effect, if the step is not over on the device.
  bool Harvest(Devices* devices, const kernels::DeviceStep& step, GraphRows* rows) const;
  size_t Count(const Devices& devices, const kernels::DeviceStep& step, GroupSet due) const noexcept;

 private:
  Record RowOf(const CapturedObservation& observation, SiteId site, const Statistics& statistics,
               const Record& like) const noexcept;
  bool OtherEps(const CapturedObservation& observation, SiteId site) const noexcept;
  // nullopt: the plan does not watch it, or not in this step.
  std::optional<SiteId> SiteOf(const CapturedObservation* observation, GroupSet due) const noexcept;

  const RecordLayout& layout_;
  const kernels::MeasureOptions measure_;
  const SiteLookup sites_;
};

}  // namespace stepwatch::device
