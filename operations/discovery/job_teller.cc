#include "operations/discovery/job_teller.h"

#include <algorithm>
#include <utility>

#include "operations/trace/parse_line.h"

namespace stepwatch::operations {
namespace {

// Between two questions to a control socket: while it has something to say, and while it has not.
constexpr double kAskSeconds = 1, kAskQuietSeconds = 5;
// Between two beats made of a pulse: while it moves, and while it does not.
constexpr double kPulseSeconds = 1, kPulseQuietSeconds = 5;
// So long a pulse may be ahead of the beats of a control socket that answers.
constexpr double kBehindSecondsMax = 3;
// Ranks begin with a run id each of their own, and agree on one within their first step.
constexpr double kAgreeSeconds = 3;
// A short wait for a device is everyday; so many looks, a second apart, are not.
constexpr int kDeviceLooks = 3;

bool StandsStill(char state) {
  return state == 'T' || state == 't' || state == 'D' || state == 'Z';
}

}  // namespace

bool JobTeller::WantsBeats(double now) const {
  if (is_behind_) return true;
  const double waited = now - asked_at_;
  if (waited < kAskSeconds && waited >= 0) return false;
  return !look_ || look_ != asked_look_ || waited >= kAskQuietSeconds || waited < 0;
}

void JobTeller::OnAsked(double now) {
  asked_at_ = now;
  asked_since_ = since_;
  is_behind_ = false;
  asked_look_ = look_;
}

bool JobTeller::Belongs(const std::string& run, int64_t rank, int64_t world, bool has_stepped, double now,
                        Lines* lines) {
  if (run.empty()) return false;
  if (run == run_ && rank == rank_) return true;
  if (run_.empty() && world > 1 && !has_stepped && now - found_at_ < kAgreeSeconds) return false;
  // The run under its earlier id was never one of its own.
  if (!run_.empty() && !has_ended_) lines->push_back(LineOf(now, EndEvent{EndReason::kOk}));
  run_ = run;
  rank_ = rank;
  since_ = 0;
  told_ = Told();
  told_at_ = now;
  signals_told_ = 0;
  has_ended_ = has_begun_ = false;
  return true;
}

void JobTeller::Tell(Line line, double now, Lines* lines) {
  line.t = std::min(line.t, now);
  if (const auto* beat = std::get_if<Beat>(&line.what)) {
    if (beat->step) told_.step = beat->step;
    if (beat->phase) told_.phase = beat->phase;
  } else {
    const Event& event = std::get<Event>(line.what);
    if (std::holds_alternative<EndEvent>(event)) has_ended_ = true;
    if (std::holds_alternative<SignalEvent>(event)) ++signals_told_;
    if (std::holds_alternative<StartEvent>(event)) has_begun_ = true;
  }
  told_at_ = now;
  if (line.t > known_until_) lines->push_back(std::move(line));
}

void JobTeller::OnBeats(const BeatAnswer& answer, double now, Lines* lines) {
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
  const bool has_stepped = told_.step.has_value() || std::any_of(answer.lines.begin(), answer.lines.end(), has_step);
  if (!Belongs(answer.run, answer.rank, world, has_stepped, now, lines)) return;
  if (asked_since_ != since_) return;  // the lines before these are of this run, too, and not told yet
  lines_lost_ += answer.lost;
  const bool begins = !answer.lines.empty() && world_of(answer.lines.front()) > 0;
  if (!has_begun_ && !begins) {
    const double t = answer.lines.empty() ? now : answer.lines.front().t;
    Tell(LineOf(t, StartEvent{look_ ? std::optional(look_->world) : std::nullopt, host_}), now, lines);
  }
  for (const Line& line : answer.lines) Tell(line, now, lines);
  is_behind_ = answer.next > since_ && answer.next < answer.newest;
  since_ = std::max(since_, answer.next);
}

bool JobTeller::MoveDiffers() const {
  return look_->step != told_.step || look_->phase != told_.phase || look_->module != told_.module;
}

void JobTeller::TellPulse(double now, Lines* lines) {
  if (!has_begun_) Tell(LineOf(now, StartEvent{look_->world, host_}), now, lines);
  Beat beat;
  beat.step = look_->step;
  beat.phase = look_->phase;
  beat.module = told_.module = look_->module;
  Tell(Line{now, run_, rank_, beat}, now, lines);
}

void JobTeller::OnPulse(const PulseLook& look, double now, Lines* lines) {
  if (look_ != look) look_changed_at_ = now;
  look_ = look;
  if (!Belongs(look.run, look.rank, look.world, look.step.has_value(), now, lines) || has_ended_) return;
  if (HasLeft()) return;  // see OnLeft
  const double quiet = now - told_at_;
  const bool is_caught_up = !look.step || (told_.step && *told_.step >= *look.step);
  const bool waits_for_socket =
      !is_socket_silent_ && !is_caught_up && now - look_changed_at_ < kBehindSecondsMax && quiet < kBehindSecondsMax;
  if (waits_for_socket || (!is_socket_silent_ && !has_begun_ && quiet < kPulseQuietSeconds)) return;
  const bool is_due =
      is_socket_silent_ && MoveDiffers() ? true : quiet >= (MoveDiffers() ? kPulseSeconds : kPulseQuietSeconds);
  if (is_due) TellPulse(now, lines);
}

void JobTeller::OnState(char state, double now, Lines* lines) {
  waits_for_device_ = state == 'D' ? waits_for_device_ + 1 : 0;
  if (state == 'D' && waits_for_device_ < kDeviceLooks) return;
  const char told = StandsStill(state) ? state : 'R';
  if (told == state_ || run_.empty()) return;
  state_ = told;
  lines->push_back(LineOf(now, ProcessStateEvent{told}));
}

void JobTeller::OnStacks(const std::string& text, double now, Lines* lines) {
  if (!run_.empty()) lines->push_back(LineOf(now, StacksEvent{text}));
}

void JobTeller::OnCollective(const std::optional<std::string>& operation, double now, Lines* lines) {
  if (run_.empty() || (!operation && !waits_)) return;
  waits_ = operation.has_value();
  lines->push_back(LineOf(now, CollectiveWaitEvent{operation.value_or(""), waits_}));
}

void JobTeller::OnLeft(const std::vector<LastWordLine>& words, double now, Lines* lines) {
  if (look_ && !has_ended_ && (MoveDiffers() || !has_begun_)) TellPulse(now, lines);
  for (const LastWordLine& word : words) {
    if (word.number <= since_) continue;
    Result<Line> line = ParseLine(word.json);
    if (!line.ok()) continue;
    line.value().run = run_;
    line.value().rank = rank_;
    Tell(std::move(line).value(), now, lines);
    since_ = word.number;
  }
  if (look_ && look_->signal != 0 && look_->signals > signals_told_)
    Tell(LineOf(now, SignalEvent{look_->signal}), now, lines);
  if (look_ && look_->end && !has_ended_) Tell(LineOf(now, EndEvent{*look_->end}), now, lines);
}

void JobTeller::OnGone(const std::vector<LastWordLine>& words, double now, Lines* lines) {
  if (run_.empty() && look_) (void)Belongs(look_->run, look_->rank, /*world=*/1, true, now, lines);
  if (run_.empty()) return;
  OnLeft(words, now, lines);
  lines->push_back(LineOf(now, ProcessGoneEvent{}));
}

}  // namespace stepwatch::operations
