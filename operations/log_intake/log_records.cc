#include "operations/log_intake/log_records.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "src/logs/write_record.h"

namespace stepwatch::operations {

LogRecords::LogRecords(Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      lines_({.is_monitored = callbacks_.is_monitored,
              .is_open = callbacks_.is_open,
              .known_step = callbacks_.known_step}) {}

void LogRecords::SetOutputs(std::unique_ptr<outputs::Outputs> outputs) {
  outputs_ = nullptr;  // the new ones may write the same files
  outputs_ = std::move(outputs);
  taken_before_outputs_ = taken_;
  Release();
}

void LogRecords::Take(std::vector<RunRecord> records, std::function<void()> then) {
  std::vector<Line> lines;
  for (const auto& [record, origin] : records) {
    lines_.Take(record, origin, &lines);
    events_.Add(origin.run, record, origin.rank);
    if (!outputs_ || outputs_->empty()) continue;
    const logs::RunNames names{origin.run, {}};
    outputs_->Add(record.id, [&record = record, &names](outputs::Form form) {
      return form == outputs::Form::kEcs ? logs::EcsJson(record, names) : logs::OtelJson(record, names);
    });
  }
  taken_ += static_cast<int64_t>(records.size());
  const auto waiting = std::make_shared<Waiting>(Waiting{taken_, lines.empty(), std::move(then)});
  waiting_.push_back(waiting);
  if (!lines.empty())
    callbacks_.take(std::move(lines), [this, waiting, alive = std::weak_ptr(alive_)] {
      if (alive.expired()) return;
      waiting->is_stored = true;
      Release();
    });
  Release();
}

void LogRecords::Release() {
  const bool has_outputs = outputs_ && !outputs_->empty();
  const int64_t safe = has_outputs ? taken_before_outputs_ + outputs_->safe() : std::numeric_limits<int64_t>::max();
  while (!waiting_.empty() && waiting_.front()->is_stored && waiting_.front()->taken <= safe) {
    const std::function<void()> then = std::move(waiting_.front()->then);
    waiting_.pop_front();
    if (then) then();
  }
}

void LogRecords::EndOfWriters(const std::string& run) {
  std::vector<Line> lines;
  lines_.EndOfWriters(run, now_, &lines);
  if (!lines.empty()) callbacks_.take(std::move(lines), {});
}

void LogRecords::Tick(double now, double running) {
  now_ = now;
  std::vector<Line> lines;
  lines_.Advance(now, &lines);
  if (!lines.empty()) callbacks_.take(std::move(lines), {});
  if (outputs_) outputs_->Tick(running);
  Release();
}

std::vector<http::MetricFamily> LogRecords::Families() const {
  std::vector<http::MetricFamily> families;
  if (outputs_) families = outputs_->Families();
  http::MetricFamily records{"stepwatchd_logs_records", "counter", "Records of logs that were recognised.", {}};
  records.Add(static_cast<double>(taken_), {});
  families.push_back(std::move(records));
  http::MetricFamily kept{"stepwatchd_logs_kept_bytes", "gauge", "Memory of the records that stepwatchd keeps.", {}};
  kept.Add(static_cast<double>(events_.bytes()), {});
  families.push_back(std::move(kept));
  http::MetricFamily dropped{
      "stepwatchd_logs_kept_dropped", "counter", "Records that made room for later or more severe ones.", {}};
  dropped.Add(static_cast<double>(events_.dropped()), {});
  families.push_back(std::move(dropped));
  return families;
}

}  // namespace stepwatch::operations
