#include "src/device/graph_reader.h"

#include <algorithm>
#include <limits>

#include "src/records/record_values.h"

namespace stepwatch::device {

GraphReader::GraphReader(const RecordLayout& layout, const kernels::MeasureOptions& measure)
    : layout_(layout), measure_(measure), sites_(layout) {}

bool GraphReader::OtherEps(const CapturedObservation& observation, SiteId site) const noexcept {
  if (observation.agreement ||
      (observation.measure.eps == measure_.eps && observation.measure.eps_mode == measure_.eps_mode))
    return false;
  const std::vector<Stat>& stats = StatsOf(layout_, site);
  return std::find(stats.begin(), stats.end(), Stat::kZeros) != stats.end();
}

std::optional<SiteId> GraphReader::SiteOf(const CapturedObservation* observation, GroupSet due) const noexcept {
  if (observation == nullptr) return std::nullopt;
  const std::optional<SiteId> site = sites_.Find(observation->site);
  return site && HasGroup(due, layout_.sites[*site].group) ? site : std::nullopt;
}

Record GraphReader::RowOf(const CapturedObservation& observation, SiteId site, const Statistics& statistics,
                          const Record& like) const noexcept {
  Record record = like;
  record.site = site;
  record.micro_step = observation.micro_step;
  record.element = observation.element;
  record.call = observation.call;
  record.dtype = observation.dtype;
  record.ndim = observation.ndim;
  record.dims = observation.dims;
  if (observation.agreement)
    records::FillAgreement(layout_, measure_, statistics.mean, &record);
  else
    records::FillValues(layout_, statistics, &record);
  return record;
}

bool GraphReader::Harvest(Devices* devices, const kernels::DeviceStep& step, GraphRows* rows) const {
  kernels::DeviceEngine* engine = devices->Made(step.device);
  const GraphTable* captured = devices->Graphs(step.device);
  rows->records->reserve(rows->records->size() + Count(*devices, step, rows->due));  // allocation may throw only here
  for (uint32_t slot = 0; slot < step.end; ++slot) {
    const CapturedObservation* observation = captured->Find(slot);
    const std::optional<SiteId> site = SiteOf(observation, rows->due);
    if (!site || !records::Fits(layout_, *site)) continue;
    Statistics statistics;
    const kernels::GraphAnswer answer = engine->HarvestGraph(slot, step.number, &statistics);
    if (answer == kernels::GraphAnswer::kNotYet) return false;  // can only happen at the first slot
    if (answer == kernels::GraphAnswer::kNone) continue;
    if (answer == kernels::GraphAnswer::kLost || slot < step.first) {
      ++rows->lost;
      continue;
    }
    if (OtherEps(*observation, *site)) {
      statistics.zeros = std::numeric_limits<double>::quiet_NaN();
      devices->NoteOtherEps(step.device);
    }
    rows->records->push_back(RowOf(*observation, *site, statistics, rows->like));
  }
  return true;
}

size_t GraphReader::Count(const Devices& devices, const kernels::DeviceStep& step, GroupSet due) const noexcept {
  size_t count = 0;
  for (uint32_t slot = 0; slot < step.end; ++slot)
    if (SiteOf(devices.Graphs(step.device)->Find(slot), due)) ++count;
  return count;
}

}  // namespace stepwatch::device
