#include "operations/logs/log_events.h"

#include <algorithm>
#include <utility>

#include "src/logs/clean_text.h"
#include "src/logs/record_filter.h"
#include "src/logs/write_record.h"

namespace stepwatch::operations {
namespace {

// Longer texts are cut: a run keeps some fifty records at least.
constexpr size_t kTextBytesMax = size_t{16} << 10;

bool IsWorthKeeping(const logs::Record& record) {
  return record.exception || !record.anomalies.empty() || record.level >= logs::Level::kWarning;
}

void Cut(std::string* text, logs::Record* record) {
  if (text->size() <= kTextBytesMax) return;
  text->resize(logs::CutUtf8(*text, kTextBytesMax).size());
  text->shrink_to_fit();
  record->is_truncated = true;
}

size_t BytesOf(const std::vector<std::pair<std::string, std::string>>& pairs) {
  size_t bytes = 0;
  for (const auto& [key, value] : pairs) bytes += sizeof(key) + sizeof(value) + key.size() + value.size();
  return bytes;
}

size_t BytesOf(const logs::Record& record) {
  size_t bytes = sizeof record + 64 + record.id.size() + record.source.size() + record.host.size() +
                 record.component.size() + record.message.size() + BytesOf(record.attributes);
  if (record.exception)
    bytes += record.exception->type.size() + record.exception->message.size() + record.exception->stack.size();
  for (const logs::Anomaly& each : record.anomalies) bytes += sizeof each + BytesOf(each.facts);
  if (record.progress)
    for (const auto& [key, value] : record.progress->numbers) bytes += sizeof(key) + sizeof(value) + key.size();
  return bytes;
}

}  // namespace

size_t LogEvents::SeverityOf(const logs::Record& record) {
  const bool is_cause = record.exception || record.level == logs::Level::kFatal ||
                        std::any_of(record.anomalies.begin(), record.anomalies.end(),
                                    [](const logs::Anomaly& each) { return each.role == logs::Role::kRoot; });
  if (is_cause) return 2;
  return logs::EffectiveLevel(record) >= logs::Level::kError ? 1 : 0;
}

void LogEvents::Add(const std::string& run_name, const logs::Record& record_in, std::optional<int64_t> rank) {
  if (!IsWorthKeeping(record_in)) return;
  auto found = runs_.find(run_name);
  if (found != runs_.end() && !record_in.id.empty() && found->second.ids.contains(record_in.id)) return;
  if (found == runs_.end()) {
    MakeRoomForRun();
    found = runs_.try_emplace(run_name).first;
  }
  auto record = std::make_shared<logs::Record>(record_in);
  if (!record->rank) record->rank = rank;
  Cut(&record->message, record.get());
  if (record->exception) {
    Cut(&record->exception->message, record.get());
    Cut(&record->exception->stack, record.get());
  }
  const size_t bytes = BytesOf(*record);
  Run& run = found->second;
  Severity& severity = run.severities[SeverityOf(*record)];
  if (!record->id.empty()) run.ids.insert(record->id);
  run.last_t = std::max(run.last_t, logs::TimeOf(*record));
  severity.events.push_back({std::move(record), bytes});
  severity.bytes += bytes;
  run.bytes += bytes;
  bytes_ += bytes;
  while (run.bytes > limits_.run_bytes) DropOne(&run);
  // The run that has most pays: a run with a few records loses none to one with many.
  while (bytes_ > limits_.bytes)
    DropOne(&std::max_element(runs_.begin(), runs_.end(), [](const auto& a, const auto& b) {
               return a.second.bytes < b.second.bytes;
             })->second);
}

void LogEvents::DropOne(Run* run) {
  const size_t share = run->bytes / (kSeverities + 1);
  const auto severity = std::find_if(run->severities.begin(), run->severities.end(),
                                     [share](const Severity& each) { return each.bytes > share; });
  const Kept kept = std::move(severity->events.front());
  severity->events.pop_front();
  severity->bytes -= kept.bytes;
  run->bytes -= kept.bytes;
  run->ids.erase(kept.record->id);
  bytes_ -= kept.bytes;
  ++dropped_;
}

void LogEvents::MakeRoomForRun() {
  if (runs_.size() < limits_.runs) return;
  const auto oldest = std::min_element(runs_.begin(), runs_.end(),
                                       [](const auto& a, const auto& b) { return a.second.last_t < b.second.last_t; });
  for (const Severity& each : oldest->second.severities) dropped_ += static_cast<int64_t>(each.events.size());
  Remove(oldest);
}

void LogEvents::Remove(Runs::iterator run) {
  if (run == runs_.end()) return;
  bytes_ -= run->second.bytes;
  runs_.erase(run);
}

LogEvents::Events LogEvents::Of(std::string_view run) const {
  Events events;
  const auto found = runs_.find(run);
  if (found == runs_.end()) return events;
  for (const Severity& severity : found->second.severities)
    for (const Kept& each : severity.events) events.push_back(each.record);
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return logs::TimeOf(*a) < logs::TimeOf(*b); });
  return events;
}

}  // namespace stepwatch::operations
