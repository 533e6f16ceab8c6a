#include "src/drain/status_board.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace stepwatch::drain {
namespace {

constexpr size_t kAlarmSentencesMax = 10000;

bool IsOfFile(const BoardEntry& entry) {
  return std::holds_alternative<AnomalyFileFailed>(entry) || std::holds_alternative<AnomalyFileRecovered>(entry);
}
bool IsHealth(const BoardEntry& entry) {
  return std::holds_alternative<SinkFailed>(entry) || std::holds_alternative<SinkRecovered>(entry) || IsOfFile(entry);
}

}  // namespace

StatusBoard::StatusBoard(std::function<void()> wake) : wake_(std::move(wake)) {
  entries_.reserve(kPlanEntriesMax + kAlarmEntriesMax + kHealthEntriesMax);
  diagnostics_.reserve(kDiagnosticsMax);
  measured_.reserve(kMeasuredMax);
}

// For a sink that alternates between failure and recovery, only the newest state counts.
bool StatusBoard::TakesPlaceOfLast(BoardEntry* entry) {
  if (health_entries_ < kHealthEntriesMax) return false;
  const auto last = std::find_if(entries_.rbegin(), entries_.rend(), [&](const BoardEntry& each) {
    return IsHealth(each) && IsOfFile(each) == IsOfFile(*entry);
  });
  if (last == entries_.rend()) return false;
  *last = std::move(*entry);
  ++left_out_.health_changes;
  return true;
}

void StatusBoard::Post(BoardEntry entry) noexcept {
  try {
    const base::MutexLock lock(&mutex_);
    const bool is_health = IsHealth(entry);
    if (!is_health || !TakesPlaceOfLast(&entry)) {
      health_entries_ += is_health ? 1 : 0;
      entries_.push_back(std::move(entry));
    }
  } catch (const std::bad_alloc&) {  // more plans than the loop can have published
  }
  Wake();
}

void StatusBoard::Post(AlarmsRaised alarms) noexcept {
  {
    const base::MutexLock lock(&mutex_);
    if (alarm_sentences_ + alarms.sentences.size() > kAlarmSentencesMax) {
      alarms.further += alarms.sentences.size();
      alarms.sentences.clear();
    }
    if (alarm_entries_ == kAlarmEntriesMax || entries_.size() == entries_.capacity()) {
      left_out_.alarms += alarms.sentences.size() + alarms.further;
      ++left_out_.alarm_steps;
    } else {
      alarm_sentences_ += alarms.sentences.size();
      ++alarm_entries_;
      entries_.emplace_back(std::move(alarms));
    }
  }
  Wake();
}

void StatusBoard::Post(const StepsMeasured& measured, bool wakes) noexcept {
  {
    const base::MutexLock lock(&mutex_);
    cost_so_far_.Add(measured.cost);
    device_ns_so_far_ += measured.device_ns;
    kind_costs_.Add(measured.plan_id, measured.cost);
    if (!wakes) return;
    const bool full = measured_.size() == kMeasuredMax;
    if (full && measured_.back().plan_id == measured.plan_id) {
      measured_.back().cost.Add(measured.cost);
      measured_.back().device_ns += measured.device_ns;
    } else {
      if (full) measured_.erase(measured_.begin());
      measured_.push_back(measured);
    }
  }
  Wake();
}

std::vector<StepsMeasured> StatusBoard::TakeMeasured() {
  std::vector<StepsMeasured> taken;
  const base::MutexLock lock(&mutex_);
  taken = measured_;
  measured_.clear();
  return taken;
}

step::StepCost StatusBoard::cost_so_far() const {
  const base::MutexLock lock(&mutex_);
  return cost_so_far_;
}

uint64_t StatusBoard::device_ns_so_far() const {
  const base::MutexLock lock(&mutex_);
  return device_ns_so_far_;
}

std::array<double, step::kCostCount> StatusBoard::cost_per_collected_step() const {
  const base::MutexLock lock(&mutex_);
  return kind_costs_.PerCollectedStep();
}

void StatusBoard::PostDiagnostics(std::vector<std::string> sentences) noexcept {
  if (sentences.empty()) return;
  {
    const base::MutexLock lock(&mutex_);
    const size_t taken = std::min(sentences.size(), kDiagnosticsMax - diagnostics_.size());
    std::move(sentences.begin(), sentences.begin() + static_cast<std::ptrdiff_t>(taken),
              std::back_inserter(diagnostics_));
    left_out_.diagnostics += sentences.size() - taken;
  }
  Wake();
}

void StatusBoard::Remind() noexcept {
  {
    const base::MutexLock lock(&mutex_);
    if (entries_.empty() && diagnostics_.empty() && measured_.empty() && left_out_ == LeftOut{}) return;
  }
  Wake();
}

void StatusBoard::Wake() noexcept {
  {
    const base::MutexLock lock(&mutex_);
    if (std::exchange(woken_, true)) return;
  }
  try {
    wake_();
  } catch (...) {  // out of memory to schedule it: the next post, or Remind, tries again
    Woken();
  }
}

void StatusBoard::Woken() noexcept {
  const base::MutexLock lock(&mutex_);
  woken_ = false;
}

// The board keeps its memory.
std::vector<BoardEntry> StatusBoard::Take() {
  std::vector<BoardEntry> taken;
  const base::MutexLock lock(&mutex_);
  taken.reserve(entries_.size());
  std::move(entries_.begin(), entries_.end(), std::back_inserter(taken));
  entries_.clear();
  alarm_sentences_ = alarm_entries_ = health_entries_ = 0;
  return taken;
}

std::vector<std::string> StatusBoard::TakeDiagnostics() {
  std::vector<std::string> taken;
  const base::MutexLock lock(&mutex_);
  taken.reserve(diagnostics_.size() + 1);
  std::string text = left_out_ == LeftOut{} ? "" : TextOf(left_out_);
  std::move(diagnostics_.begin(), diagnostics_.end(), std::back_inserter(taken));
  if (!text.empty()) taken.push_back(std::move(text));
  diagnostics_.clear();
  left_out_ = {};
  return taken;
}

std::string StatusBoard::TextOf(const LeftOut& left_out) {
  std::string text = "the loop thread was far behind the drain thread; not reported:";
  const char* separator = " ";
  const auto add = [&](uint64_t count, const std::string& what) {
    if (count > 0) text.append(separator).append(std::to_string(count)).append(what);
    if (count > 0) separator = ", ";
  };
  add(left_out.alarms, " alarms of " + std::to_string(left_out.alarm_steps) + " steps");
  add(left_out.health_changes, " changes of a sink or of anomaly.json between failing and working");
  add(left_out.diagnostics, " further messages");
  return text;
}

}  // namespace stepwatch::drain
