#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "src/base/text.h"
#include "src/sinks/event_file.h"
#include "src/sinks/heatmap.h"
#include "src/sinks/impossible_frame.h"
#include "src/sinks/sink_makers.h"
#include "stepwatch/tag.h"

namespace stepwatch::sinks {
namespace {

double SystemSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// `id` is the value of a scalar tensor, and undefined for any other.
bool IsNumber(const Record& record, Stat stat) {
  return stat != Stat::kShape && stat != Stat::kDtype && (stat != Stat::kId || record.ndim == 0);
}

SummaryEvent EventOf(const RecordLayout& layout, const Record& record, int rank, double wall_time) {
  SummaryEvent event{wall_time, record.step, {}};
  if (record.missing()) return event;
  if (record.site >= layout.sites.size())
    throw ImpossibleFrame("a record belongs to a site that its plan does not contain");
  // Readers stop at a text that is not UTF-8.
  const std::string tag = base::ValidUtf8(RecordTag(layout, record, rank)) + "_";
  for (size_t i = 0; i < record.value_count; ++i) {
    const StatValue& value = record.values[i];
    if (!IsNumber(record, value.stat)) continue;
    const double number = value.is_integer ? static_cast<double>(value.i64) : value.f64;
    event.scalars.push_back({tag + StatName(value.stat), number});
  }
  return event;
}

SummaryEvent EventOf(Image image, int64_t step, double wall_time) {
  SummaryEvent event{wall_time, step, {}, {}};
  event.images.push_back(std::move(image));
  return event;
}

class TensorBoardSink final : public Sink {
 public:
  explicit TensorBoardSink(SinkPlace place)
      : rank_(place.rank),
        wall_clock_(place.wall_clock ? std::move(place.wall_clock) : SystemSeconds),
        file_(std::move(place.directory),
              EventFileName(static_cast<int64_t>(wall_clock_()), HostName(), static_cast<int>(::getpid())),
              place.files) {}

  WriteResult Write(const RecordLayout& layout, const StepFrame& frame) override {
    const std::pair<PlanId, int64_t> which{layout.plan_id, frame.step};
    if (written_ == which) return {Status(), 0};
    const double now = wall_clock_();
    std::vector<SummaryEvent> events;
    events.reserve(frame.count + frame.column_count);
    for (size_t i = 0; i < frame.count; ++i) {
      SummaryEvent event = EventOf(layout, frame.records[i], rank_, now);
      if (!event.scalars.empty()) events.push_back(std::move(event));
    }
    AddColumns(layout, frame);
    for (size_t i = 0; i < frame.column_count; ++i)
      events.push_back(EventOf(ImageOf(layout, frame.columns[i]), frame.step, now));
    Status appended = file_.Append(events);
    if (!appended.ok()) return {std::move(appended), 0};
    written_ = which;
    return {Status(), frame.count};
  }

  std::vector<std::string> BeginSegment(int64_t) override {
    std::string path = file_.path();
    closed_ = file_.EndFile();
    return path.empty() ? std::vector<std::string>() : std::vector<std::string>{std::move(path)};
  }

  Status Flush() override { return std::exchange(closed_, Status()); }

 private:
  std::string TagOf(const RecordLayout& layout, const HeatmapColumn& column) const {
    if (column.site >= layout.sites.size())
      throw ImpossibleFrame("a column of a heat map belongs to a site that its plan does not contain");
    return base::ValidUtf8(RecordTag(layout.sites[column.site], false, Record(), rank_));
  }

  // Once for each frame, even if its write is repeated.
  void AddColumns(const RecordLayout& layout, const StepFrame& frame) {
    const std::pair<PlanId, int64_t> which{layout.plan_id, frame.step};
    if (std::exchange(added_, which) == which) return;
    for (size_t i = 0; i < frame.column_count; ++i)
      heatmaps_[TagOf(layout, frame.columns[i])].Add(frame.columns[i].counts);
  }

  Image ImageOf(const RecordLayout& layout, const HeatmapColumn& column) {
    std::string tag = TagOf(layout, column);
    std::string png = heatmaps_[tag].Png();
    return {std::move(tag), Heatmap::kWidth, Heatmap::kHeight, std::move(png)};
  }

  const int rank_;
  const std::function<double()> wall_clock_;
  EventFile file_;  // open for one segment: TensorBoard reads one file after the other and never goes back
  Status closed_;   // not yet reported
  std::pair<PlanId, int64_t> written_{0, 0};
  std::map<std::string, Heatmap> heatmaps_;  // by tag
  std::pair<PlanId, int64_t> added_{0, 0};   // the frame whose columns were added last
};

}  // namespace

std::unique_ptr<Sink> MakeTensorBoardSink(SinkPlace place) {
  return std::make_unique<TensorBoardSink>(std::move(place));
}

}  // namespace stepwatch::sinks
