#include "operations/discovery/job_reporter.h"

#include <algorithm>
#include <utility>

#include "operations/trace/parse_line.h"

namespace stepwatch::operations {
namespace {

// Interval of requests to a control socket: while its pulse changes, and while it does not.
constexpr double kAskSeconds = 1, kAskQuietSeconds = 5;
// Interval of beats made from a pulse: while it changes, and while it does not.
constexpr double kPulseSeconds = 1, kPulseQuietSeconds = 5;
// A pulse may be this far ahead of the beats of a control socket that answers.
constexpr double kBehindSecondsMax = 3;
// Each rank begins with a run id of its own, and the ranks agree on one within their first step.
constexpr double kAgreeSeconds = 3;
// A short wait for a device is normal; this many looks, a second apart, are not.
constexpr int kDeviceLooks = 3;

bool StandsStill(char state) {
  return state == 'T' || state == 't' || state == 'D' || state == 'Z';
}

}  // namespace

bool JobReporter::WantsBeats(double now) const {
  if (is_behind_) return true;
  const double waited = now - asked_at_;
  if (waited < kAskSeconds && waited >= 0) return false;
  return !look_ || look_ != asked_look_ || waited >= kAskQuietSeconds || waited < 0;
}

void JobReporter::OnAsked(double now) {
  asked_at_ = now;
  asked_since_ = since_;
  is_behind_ = false;
  asked_look_ = look_;
}

bool JobReporter::Belongs(const std::string& run, int64_t rank, int64_t world, bool has_stepped, double now,
                          Lines* lines) {
  if (run.empty()) return false;
  if (run == run_ && rank == rank_) return true;
  if (run_.empty() && world > 1 && !has_stepped && now - found_at_ < kAgreeSeconds) return false;
  // The run under its earlier id was never a separate run.
  if (!run_.empty() && !has_ended_) lines->push_back(LineOf(now, EndEvent{EndReason::kOk}));
  run_ = run;
  rank_ = rank;
  since_ = 0;
  reported_ = Reported();
  reported_at_ = now;
  signals_reported_ = 0;
  has_ended_ = has_begun_ = false;
  return true;
}

void JobReporter::Emit(Line line, double now, Lines* lines) {
  line.t = std::min(line.t, now);
  if (const auto* beat = std::get_if<Beat>(&line.what)) {
    if (beat->step) reported_.step = beat->step;
    if (beat->phase) reported_.phase = beat->phase;
  } else {
    const Event& event = std::get<Event>(line.what);
    if (std::holds_alternative<EndEvent>(event)) has_ended_ = true;
    if (std::holds_alternative<SignalEvent>(event)) ++signals_reported_;
    if (std::holds_alternative<StartEvent>(event)) has_begun_ = true;
  }
  reported_at_ = now;
  if (line.t > known_until_) lines->push_back(std::move(line));
}

void JobReporter::OnBeats(const BeatAnswer& answer, double now, Lines* lines) {
  is_socket_silent_ = false;
  const auto world_of = [](const Line& line) -> int64_t {
    const auto* event = std::get_if<Event>(&line.what);
    const auto* start = event == nullptr ? nullptr : std::get_if<StartEvent>(event);
    return start == nullptr ? 0 : start->world.value_or(0);
  };
  const auto has_step = [](const Line& line) {
    const auto* beat = std::get_if<Beat>(&line.what);
    return beat != nullptr && beat->step.value_or(-1) >= 0;
  };
  int64_t world = look_ ? look_->world : 1;
  for (const Line& line : answer.lines) world = std::max(world, world_of(line));
  const bool has_stepped =
      reported_.step.has_value() || std::any_of(answer.lines.begin(), answer.lines.end(), has_step);
  if (!Belongs(answer.run, answer.rank, world, has_stepped, now, lines)) return;
  if (asked_since_ != since_) return;  // the lines before these are of this run, too, and not reported yet
  lines_lost_ += answer.lost;
  const bool begins = !answer.lines.empty() && world_of(answer.lines.front()) > 0;
  if (!has_begun_ && !begins) {
    const double t = answer.lines.empty() ? now : answer.lines.front().t;
    Emit(LineOf(t, StartEvent{look_ ? std::optional(look_->world) : std::nullopt, host_}), now, lines);
  }
  for (const Line& line : answer.lines) Emit(line, now, lines);
  is_behind_ = answer.next > since_ && answer.next < answer.newest;
  since_ = std::max(since_, answer.next);
}

bool JobReporter::MoveDiffers() const {
  return look_->step != reported_.step || look_->phase != reported_.phase || look_->module != reported_.module;
}

void JobReporter::EmitPulse(double now, Lines* lines) {
  if (!has_begun_) Emit(LineOf(now, StartEvent{look_->world, host_}), now, lines);
  Beat beat;
  beat.step = look_->step;
  beat.phase = look_->phase;
  beat.module = reported_.module = look_->module;
  Emit(Line{now, run_, rank_, beat}, now, lines);
}

void JobReporter::OnPulse(const PulseLook& look, double now, Lines* lines) {
  if (look_ != look) look_changed_at_ = now;
  look_ = look;
  if (!Belongs(look.run, look.rank, look.world, look.step.has_value(), now, lines) || has_ended_) return;
  if (HasLeft()) return;  // see OnLeft
  const double quiet = now - reported_at_;
  const bool is_caught_up = !look.step || (reported_.step && *reported_.step >= *look.step);
  const bool waits_for_socket =
      !is_socket_silent_ && !is_caught_up && now - look_changed_at_ < kBehindSecondsMax && quiet < kBehindSecondsMax;
  if (waits_for_socket || (!is_socket_silent_ && !has_begun_ && quiet < kPulseQuietSeconds)) return;
  const bool is_due =
      is_socket_silent_ && MoveDiffers() ? true : quiet >= (MoveDiffers() ? kPulseSeconds : kPulseQuietSeconds);
  if (is_due) EmitPulse(now, lines);
}

void JobReporter::OnState(char state, double now, Lines* lines) {
  waits_for_device_ = state == 'D' ? waits_for_device_ + 1 : 0;
  if (state == 'D' && waits_for_device_ < kDeviceLooks) return;
  const char shown = StandsStill(state) ? state : 'R';
  if (shown == state_ || run_.empty()) return;
  state_ = shown;
  lines->push_back(LineOf(now, ProcessStateEvent{shown}));
}

void JobReporter::OnStacks(const std::string& text, double now, Lines* lines) {
  if (!run_.empty()) lines->push_back(LineOf(now, StacksEvent{text}));
}

void JobReporter::OnCollective(const std::optional<std::string>& operation, double now, Lines* lines) {
  if (run_.empty() || (!operation && !waits_)) return;
  waits_ = operation.has_value();
  lines->push_back(LineOf(now, CollectiveWaitEvent{operation.value_or(""), waits_}));
}

void JobReporter::OnLeft(const std::vector<LastWordLine>& words, double now, Lines* lines) {
  if (look_ && !has_ended_ && (MoveDiffers() || !has_begun_)) EmitPulse(now, lines);
  for (const LastWordLine& word : words) {
    if (word.number <= since_) continue;
    Result<Line> line = ParseLine(word.json);
    if (!line.ok()) continue;
    line.value().run = run_;
    line.value().rank = rank_;
    Emit(std::move(line).value(), now, lines);
    since_ = word.number;
  }
  if (look_ && look_->signal != 0 && look_->signals > signals_reported_)
    Emit(LineOf(now, SignalEvent{look_->signal}), now, lines);
  if (look_ && look_->end && !has_ended_) Emit(LineOf(now, EndEvent{*look_->end}), now, lines);
}

void JobReporter::OnGone(const std::vector<LastWordLine>& words, double now, Lines* lines) {
  if (run_.empty() && look_) (void)Belongs(look_->run, look_->rank, /*world=*/1, true, now, lines);
  if (run_.empty()) return;
  OnLeft(words, now, lines);
  lines->push_back(LineOf(now, ProcessGoneEvent{}));
}

}  // namespace stepwatch::operations
