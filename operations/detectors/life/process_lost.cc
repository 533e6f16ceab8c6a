#include "operations/detectors/life/process_lost.h"

#include <algorithm>

#include "operations/detectors/life/exception_words.h"
#include "operations/detectors/life/signals.h"

namespace stepwatch::operations {
namespace {

// Waits for a better explanation: a sample of the host contains the reason, and comes later, unless the reporter of the
// end has sampled the host before.
constexpr double kPatience = 0.9;
constexpr double kPatienceLonger = 2.4;  // for a sample of the host, or a signal
constexpr double kSameMomentSeconds = 0.05;
// In which the processes of a host go that is lost. Those of a world that goes as a whole follow the first.
constexpr double kHostSeconds = 1;
// Time in which the processes of a lost host end. If the whole world is lost, they follow the first one.
constexpr double kOldSeconds = 5;
constexpr double kWithoutSeconds = 10;
constexpr size_t kFailedMax = 1 << 17;
constexpr double kFailedSeconds = 30;  // Time in which reports of processes from before a restart still arrive.
constexpr double kSignalledEndSeconds = 600;
constexpr double kPressurePercent = 40;
constexpr double kPressureSeconds = 20;

}  // namespace

void ProcessLostDetector::OnRestart() {
  gone_.clear();
  crashed_.clear();
  failed_.clear();
  asked_all_at_.reset();
  is_raised_ = false;
}

void ProcessLostDetector::OnBeat(const RunState&, const BeatFacts& beat, Findings*) {
  if (beat.advanced == 0) return;
  const auto is_back = [&](const Gone& gone) { return gone.rank == beat.rank->rank && !beat.rank->gone; };
  crashed_.erase(std::remove_if(crashed_.begin(), crashed_.end(), is_back), crashed_.end());
  gone_.erase(std::remove_if(gone_.begin(), gone_.end(), is_back), gone_.end());
  if (gone_.empty() && crashed_.empty()) is_raised_ = false;
}

void ProcessLostDetector::OnEvent(const RunState& run, const Line& line, double now, Findings* findings) {
  const Event& event = std::get<Event>(line.what);
  if (const auto* host = std::get_if<HostEvent>(&event)) {
    has_host_samples_ = true;
    sampled_at_ = now;
    if (host->psi) psi_ = now - psi_at_ < kPressureSeconds ? std::max(*host->psi, 0.7 * psi_) : *host->psi;
    if (host->psi) psi_at_ = now;
  } else if (std::holds_alternative<ProcessGoneEvent>(event)) {
    if (run.ended()) return;
    TakeGone(run, line, now);
    if (is_raised_) TakeLater(run, now, findings);
  } else if (const auto* end = std::get_if<EndEvent>(&event)) {
    TakeEnd(run, line, *end, now, findings);
  } else if (const auto* exception = std::get_if<ExceptionEvent>(&event)) {
    if (!WordsOf(*exception).are_no_fault && failed_.size() < kFailedMax) failed_[line.rank.value_or(-1)] = now;
  } else if (const auto* signal = std::get_if<SignalEvent>(&event)) {
    if (!line.rank && EndsProcess(signal->number)) asked_all_at_ = now;
    if (!IsCrash(signal->number) || !line.rank || run.ended()) return;
    const RankState* rank = run.FindRank(*line.rank);
    crashed_.push_back({*line.rank, now, rank == nullptr ? std::nullopt : rank->step, signal->number, false});
  }
}

// One more process of a host: the others are reported already.
void ProcessLostDetector::TakeLater(const RunState& run, double now, Findings* findings) {
  if (!crashed_.empty() || gone_.size() < 2 || gone_.back().at != now) return;
  const bool is_of_host = now - gone_.front().at <= kHostSeconds;
  if (is_of_host && static_cast<int64_t>(gone_.size()) < run.world() && !WereAsked(run))
    findings->Raise(Describe(run, now));
}

void ProcessLostDetector::BeforeRestart(const RunState& run, Findings* findings) {
  if (is_raised_ || run.ended() || gone_.empty() || WereAsked(run)) return;
  is_raised_ = true;
  findings->Raise(Describe(run, gone_.back().at));
}

void ProcessLostDetector::TakeGone(const RunState& run, const Line& line, double now) {
  const bool is_heard = line.rank ? run.FindRank(*line.rank) != nullptr : !run.ranks().empty();
  if (run.restarts() > 0 && !is_heard && now - run.began_at() <= kOldSeconds) return;
  Gone gone;
  gone.rank = line.rank.value_or(-1);
  gone.at = now;
  gone.is_sampled = sampled_at_ >= 0 && now - sampled_at_ <= kSameMomentSeconds;
  const auto is_same = [&](const Gone& other) { return other.rank == gone.rank && gone.rank >= 0; };
  if (std::any_of(gone_.begin(), gone_.end(), is_same)) return;
  // The remaining ranks have trained on without the others: this is another fault.
  if (is_raised_ && !gone_.empty() && run.progress_at() > gone_.back().at + kWithoutSeconds) {
    gone_.clear();
    is_raised_ = false;
  }
  if (const RankState* rank = run.FindRank(gone.rank)) {
    gone.step = rank->step;
    gone.signal = rank->signal;
  }
  gone_.push_back(gone);
}

// All of its processes were asked to end, and do: a preemption whose end was not reported.
bool ProcessLostDetector::WereAsked(const RunState& run) const {
  if (run.ranks().empty()) return false;
  if (asked_all_at_ && gone_.front().at - *asked_all_at_ < kSignalledEndSeconds) return true;
  return std::all_of(run.ranks().begin(), run.ranks().end(), [&](const auto& entry) {
    const RankState& rank = entry.second;
    return rank.signal && EndsProcess(*rank.signal) && gone_.front().at - rank.signal_at < kSignalledEndSeconds;
  });
}

void ProcessLostDetector::TakeEnd(const RunState& run, const Line& line, const EndEvent& end, double now,
                                  Findings* findings) {
  // A rank that was lost before any rank reported an end has not ended with the others: they have given up.
  const bool has_lost = end.reason == EndReason::kOk && !gone_.empty() && !WereAsked(run);
  const bool is_bad =
      has_lost || end.reason == EndReason::kError || end.reason == EndReason::kLost || !crashed_.empty();
  if (is_bad && !is_raised_) {
    if (gone_.empty() && line.rank && crashed_.empty())
      gone_.push_back({*line.rank, now, run.step(), std::nullopt, false});
    is_raised_ = true;
    Finding finding = Describe(run, now);
    finding.evidence.SetText("end", NameOf(end.reason));
    const double waited = gone_.empty() ? 0 : now - gone_.front().at;
    finding.hold_seconds = std::max(0.0, kPatience - waited);
    findings->Raise(std::move(finding));
  }
  gone_.clear();
  crashed_.clear();
}

void ProcessLostDetector::OnTick(const RunState& run, double now, Findings* findings) {
  if (is_raised_ || run.ended()) return;
  const bool has_crashed = !crashed_.empty() && now - crashed_.front().at >= kPatienceLonger;
  if (gone_.empty() && !has_crashed) return;
  if (!gone_.empty()) {
    const bool asked_some = std::any_of(gone_.begin(), gone_.end(),
                                        [](const Gone& gone) { return gone.signal && EndsProcess(*gone.signal); }) ||
                            asked_all_at_;
    const bool awaits_sample = has_host_samples_ && !gone_.front().is_sampled;
    const double patience = asked_some || awaits_sample ? kPatienceLonger : kPatience;
    if (now - gone_.front().at < patience && !has_crashed) return;
    is_raised_ = true;
    if (WereAsked(run)) return;
  }
  is_raised_ = true;
  findings->Raise(Describe(run, now));
}

// True if the first lost rank has reported an exception, which then explains the end better; for an end without a
// process, if any rank has.
bool ProcessLostDetector::HaveFailed(const std::vector<Gone>& gone, double now) const {
  return std::any_of(failed_.begin(), failed_.end(), [&](const auto& failed) {
    const bool is_same = gone.empty() || gone.front().rank < 0 || failed.first < 0 || failed.first == gone.front().rank;
    return is_same && now - failed.second <= kFailedSeconds;
  });
}

// In the order in which they were lost; those lost at the same time by number.
std::vector<int64_t> ProcessLostDetector::RanksLost(const RunState& run) const {
  std::vector<Gone> first = crashed_.empty() ? gone_ : crashed_;
  std::stable_sort(first.begin(), first.end(),
                   [](const Gone& a, const Gone& b) { return a.at < b.at || (a.at == b.at && a.rank < b.rank); });
  // Peers of a process that crashes fail with it.
  const bool is_whole = static_cast<int64_t>(first.size()) >= run.world();
  const double together = is_whole || !crashed_.empty() ? kSameMomentSeconds : kHostSeconds;
  std::vector<int64_t> ranks;
  for (const Gone& gone : first)
    if (gone.rank >= 0 && gone.at - first.front().at <= together) ranks.push_back(gone.rank);
  // If the whole job ends at one moment, no rank is at fault.
  if (ranks.size() > 1 && static_cast<int64_t>(ranks.size()) == run.world()) ranks.clear();
  return ranks;
}

Finding ProcessLostDetector::Describe(const RunState& run, double now) const {
  Finding finding;
  finding.kind = IncidentKind::kProcessLost;
  finding.since_step = run.step();
  const std::vector<Gone>& first = crashed_.empty() ? gone_ : crashed_;
  finding.is_symptom = crashed_.empty() && HaveFailed(first, now);
  if (first.empty()) return finding;
  finding.key = std::to_string(first.front().rank);
  finding.ranks = RanksLost(run);
  if (first.front().step) finding.since_step = first.front().step;
  if (first.front().signal) finding.evidence.Set("signal", *first.front().signal);
  finding.evidence.Set("processes_gone", static_cast<int64_t>(gone_.size()));
  finding.evidence.Set("processes", run.world());
  const bool is_pressed = psi_ >= kPressurePercent && first.front().at - psi_at_ < kPressureSeconds;
  if (!is_pressed || !crashed_.empty()) return finding;
  finding.kind = IncidentKind::kOutOfMemory;
  finding.evidence.SetText("where", "host");
  finding.evidence.Set("psi_percent", psi_);
  return finding;
}

}  // namespace stepwatch::operations
