#include "controller/control_socket/beat_log.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::control_socket {
namespace {

using step::ReportEntry;

// Maximum count of numbers of one step; more are dropped.
constexpr size_t kBeatNumbersMax = 256;
// Maximum count of future steps with pending numbers.
constexpr size_t kStepsAheadMax = 256;
constexpr size_t kTypeBytesMax = 200, kMessageBytesMax = 1000, kStackBytesMax = 6000;
// Maximum size of a line in the pulse, as its readers accept it.
constexpr size_t kLastWordBytesMax = 8000;
constexpr size_t kAroundEventBytesMax = 300;  // size of the fields time, run and rank

int64_t MonotonicNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t WallOffsetNs() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count() - MonotonicNs();
}

double Seconds(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

constexpr std::array<std::string_view, 3> kInnerParts = {"forward_seconds", "backward_seconds",
                                                         "communication_seconds"};

// The rest of a step is known only if both of its other parts are; the inner parts are parts of it. Times of several
// threads may contradict each other; such a step has no parts.
void PutParts(const step::PartTimes& parts, int64_t step_ns, Json* beat) {
  const bool has_data = parts.data_ns >= 0, has_optimizer = parts.optimizer_ns >= 0;
  const int64_t rest_ns = step_ns - std::max<int64_t>(0, parts.data_ns) - std::max<int64_t>(0, parts.optimizer_ns);
  const std::array<int64_t, kInnerParts.size()> inner_ns = {parts.forward_ns, parts.backward_ns,
                                                            parts.communication_ns};
  int64_t outside_ns = rest_ns;
  for (const int64_t ns : inner_ns) outside_ns -= std::max<int64_t>(0, ns);
  if (outside_ns < 0) return;
  if (has_data) (*beat)["data_seconds"] = Seconds(parts.data_ns);
  if (has_optimizer) (*beat)["optimizer_seconds"] = Seconds(parts.optimizer_ns);
  if (has_data && has_optimizer) (*beat)["compute_seconds"] = Seconds(rest_ns);
  for (size_t i = 0; i < kInnerParts.size(); ++i)
    if (inner_ns[i] >= 0) (*beat)[std::string(kInnerParts[i])] = Seconds(inner_ns[i]);
}

std::string Cut(const std::string& text, size_t bytes_max) {
  return base::ValidUtf8(text.substr(0, bytes_max));
}

std::string LastPart(const std::string& text, size_t bytes_max) {
  return base::ValidUtf8(text.size() <= bytes_max ? text : text.substr(text.size() - bytes_max));
}

// False: the step has too many numbers.
bool Put(const std::string& name, double value, std::vector<std::pair<std::string, double>>* numbers) {
  for (auto& [known, old] : *numbers)
    if (known == name) {
      old = value;
      return true;
    }
  if (numbers->size() == kBeatNumbersMax) return false;
  numbers->emplace_back(name, value);
  return true;
}

}  // namespace

BeatLog::BeatLog(Who who, step::PulseWriter* pulse)
    : pulse_(pulse), who_(std::move(who)), wall_offset_ns_(WallOffsetNs()) {
  const base::MutexLock lock(&mutex_);
  Json start = {{"kind", "start"}, {"world", who_.world}, {"host", who_.host}};
  if (!who_.job.owner.empty()) start["owner"] = who_.job.owner;
  if (!who_.job.partition.empty()) start["partition"] = who_.job.partition;
  (void)AddEvent(MonotonicNs(), start);
}

void BeatLog::SetRunId(const std::string& run_id) noexcept try {
  const base::MutexLock lock(&mutex_);
  if (run_id == who_.run_id) return;
  who_.run_id = run_id;
  pulse_->SetRunId(run_id);
} catch (const std::bad_alloc&) {
}

void BeatLog::Take() noexcept {
  const base::MutexLock lock(&mutex_);
  try {
    TakeAll();
  } catch (const std::exception&) {  // no memory
    ++dropped_;
  }
}

// Takes at most as many entries as the queue holds: the step thread may be faster than this one.
void BeatLog::TakeAll() {
  wall_offset_ns_ = WallOffsetNs();
  pulse_->SetWallOffset(std::chrono::nanoseconds(wall_offset_ns_));
  ReportEntry entry;
  for (size_t i = 0; i < step::PulseWriter::kQueuePlaces && pulse_->Pop(&entry); ++i) OnEntry(entry);
  AddLateBeat();
}

void BeatLog::OnEntry(const ReportEntry& entry) {
  const bool is_number = entry.kind == ReportEntry::Kind::kNumber || entry.kind == ReportEntry::Kind::kMeasured;
  const bool continues_late = late_ && is_number && entry.step == late_->step && entry.at_ns == late_->at_ns;
  if (!continues_late) AddLateBeat();
  switch (entry.kind) {
    case ReportEntry::Kind::kStepEnd: return OnStepEnd(entry);
    case ReportEntry::Kind::kNumber:
    case ReportEntry::Kind::kMeasured: return OnNumber(entry);
    case ReportEntry::Kind::kPhase: return OnPhase(entry);
    case ReportEntry::Kind::kCheckpoint:
      (void)AddEvent(entry.at_ns, {{"kind", "checkpoint"}, {"step", entry.step}});
      return;
    case ReportEntry::Kind::kSignal:
      (void)AddEvent(entry.at_ns, {{"kind", "signal"}, {"number", static_cast<int>(entry.value)}});
      return;
  }
}

void BeatLog::OnNumber(const ReportEntry& entry) {
  const std::string name = base::ValidUtf8(entry.name.data());
  const auto inner = static_cast<size_t>(std::find(kInnerParts.begin(), kInnerParts.end(), name) - kInnerParts.begin());
  if (inner < kInnerParts.size()) {
    if (entry.kind == ReportEntry::Kind::kNumber)
      own_parts_[inner] = true;
    else if (own_parts_[inner])
      return;
  }
  const bool is_over = last_end_ && entry.step <= last_end_->first;
  if (!is_over && numbers_.size() == kStepsAheadMax && numbers_.count(entry.step) == 0) {
    ++dropped_;
    return;
  }
  if (is_over && !late_) late_ = Late{entry.step, entry.at_ns, entry.phase, {}};
  if (!Put(name, entry.value, is_over ? &late_->numbers : &numbers_[entry.step])) ++dropped_;
}

void BeatLog::AddLateBeat() {
  if (!late_) return;
  Json beat = {{"step", late_->step}, {"phase", PhaseName(late_->phase)}};
  for (const auto& [name, value] : late_->numbers) beat[name] = json::Number(value);
  const int64_t at_ns = late_->at_ns;
  late_.reset();
  (void)AddBeat(at_ns, beat);
}

// Time outside training does not count as step time.
void BeatLog::CountPhase(int64_t until_ns) {
  const int64_t since = last_end_ ? std::max(phase_since_ns_, last_end_->second) : phase_since_ns_;
  if (IsTraining(phase_)) return;
  const int64_t ns = std::max<int64_t>(0, until_ns - since);
  not_training_ns_ += ns;
  if (phase_ == Phase::kCheckpoint) checkpoint_ns_ = checkpoint_ns_.value_or(0) + ns;
}

void BeatLog::OnStepEnd(const ReportEntry& entry) {
  CountPhase(entry.at_ns);
  Json beat = {{"step", entry.step}, {"phase", PhaseName(entry.phase)}};
  if (last_end_ && entry.step == last_end_->first + 1) {
    const int64_t step_ns = std::max<int64_t>(0, entry.at_ns - last_end_->second - not_training_ns_);
    beat["step_seconds"] = Seconds(step_ns);
    PutParts(entry.parts, step_ns, &beat);
    if (checkpoint_ns_) beat["checkpoint_seconds"] = Seconds(*checkpoint_ns_);
  }
  // Numbers of skipped steps are dropped.
  while (!numbers_.empty() && numbers_.begin()->first <= entry.step) {
    if (numbers_.begin()->first == entry.step)
      for (const auto& [name, value] : numbers_.begin()->second) {
        if (name == "data_seconds" || name == "optimizer_seconds") beat.erase("compute_seconds");
        beat[name] = json::Number(value);
      }
    else
      dropped_ += numbers_.begin()->second.size();
    numbers_.erase(numbers_.begin());
  }
  last_end_ = {entry.step, entry.at_ns};
  not_training_ns_ = 0;
  checkpoint_ns_.reset();
  (void)AddBeat(entry.at_ns, beat);
}

void BeatLog::OnPhase(const ReportEntry& entry) {
  CountPhase(entry.at_ns);
  if (phase_ == Phase::kPaused && entry.phase != Phase::kPaused) (void)AddEvent(entry.at_ns, {{"kind", "resume"}});
  phase_ = entry.phase;
  phase_since_ns_ = entry.at_ns;
  if (entry.phase == Phase::kPaused) (void)AddEvent(entry.at_ns, {{"kind", "pause"}, {"expires_seconds", entry.value}});
  (void)AddBeat(entry.at_ns, {{"step", entry.step}, {"phase", PhaseName(entry.phase)}});
}

// Escaped characters take more bytes in JSON than in the text.
Json BeatLog::ExceptionJson(const ExceptionReport& exception) const {
  Json event = {{"kind", "exception"},
                {"type", Cut(exception.type, kTypeBytesMax)},
                {"message", Cut(exception.message, kMessageBytesMax)}};
  if (!exception.fingerprint.empty()) event["fingerprint"] = Cut(exception.fingerprint, kTypeBytesMax);
  if (last_end_) event["step"] = last_end_->first;
  for (size_t bytes = kStackBytesMax; bytes > 0; bytes /= 2) {
    event["stack"] = LastPart(exception.stack, bytes);
    if (json::Dump(event).size() < kLastWordBytesMax - kAroundEventBytesMax) break;
  }
  return event;
}

void BeatLog::Note(const ExceptionReport& exception) noexcept {
  const base::MutexLock lock(&mutex_);
  try {
    TakeAll();
    AddLastWord(AddEvent(MonotonicNs(), ExceptionJson(exception)), false);
  } catch (const std::exception&) {
    ++dropped_;
  }
}

void BeatLog::NoteEnd(RunEnd end) noexcept {
  const base::MutexLock lock(&mutex_);
  if (has_ended_) return;
  has_ended_ = true;
  pulse_->SetEnd(end == RunEnd::kOk      ? vocabulary::PulseEnd::kOk
                 : end == RunEnd::kError ? vocabulary::PulseEnd::kError
                                         : vocabulary::PulseEnd::kSignal);
  try {
    TakeAll();
    AddLastWord(AddEvent(MonotonicNs(), {{"kind", "end"}, {"reason", RunEndName(end)}}), true);
  } catch (const std::exception&) {
    ++dropped_;
  }
}

uint64_t BeatLog::AddBeat(int64_t at_ns, const Json& beat) {
  return Add(at_ns, false, json::Dump(beat));
}

uint64_t BeatLog::AddEvent(int64_t at_ns, const Json& event) {
  return Add(at_ns, true, json::Dump(event));
}

uint64_t BeatLog::Add(int64_t at_ns, bool is_event, std::string body) {
  ++newest_;  // a line that finds no memory leaves its number unused
  bytes_ += body.size();
  lines_.push_back({newest_, static_cast<double>(at_ns + wall_offset_ns_) * 1e-9, is_event, std::move(body)});
  while (lines_.size() > kLinesMax || (bytes_ > kBytesMax && lines_.size() > 1)) {
    bytes_ -= lines_.front().body.size();
    lines_.pop_front();
  }
  return newest_;
}

void BeatLog::AddLastWord(uint64_t number, bool is_end) {
  const std::string text = TextOf(lines_.back());
  if (text.size() <= kLastWordBytesMax) (void)pulse_->AddLastWord(number, text, is_end);
}

std::string BeatLog::TextOf(const Line& line) const {
  std::string text = "{\"t\":" + Json(line.t).dump() + ",\"run\":" + json::Dump(Json(who_.run_id)) +
                     ",\"rank\":" + std::to_string(who_.rank);
  return text + (line.is_event ? ",\"event\":" : ",\"beat\":") + line.body + "}";
}

BeatPage BeatLog::After(uint64_t number, size_t count) {
  Take();
  BeatPage page;
  const base::MutexLock lock(&mutex_);
  page.run_id = who_.run_id;
  page.rank = who_.rank;
  page.newest = newest_;
  page.dropped = dropped_ + pulse_->dropped();
  if (number > newest_) number = 0;
  page.next = number;
  auto next = std::upper_bound(lines_.begin(), lines_.end(), number,
                               [](uint64_t wanted, const Line& each) { return wanted < each.number; });
  if (next != lines_.end()) page.lost = next->number - number - 1;
  size_t bytes = 0;
  for (; next != lines_.end() && page.lines.size() < count && bytes < kPageBytesMax; ++next) {
    page.lines.push_back(TextOf(*next));
    bytes += page.lines.back().size();
    page.next = next->number;
  }
  return page;
}

}  // namespace stepwatch::control_socket
