// What is asked of the run itself: to pause, to begin new files, to run bytes that the config file does not hold.
#include "controller/reload/motion.h"

#include <utility>

#include "controller/reload/quietly.h"
#include "controller/reload/reloader.h"
#include "src/base/sha256.h"

namespace stepwatch::reload {

PauseVerdict Reloader::Pause(bool pause) {
  using Outcome = PauseVerdict::Outcome;
  const PlanId plan_id = parts_.data_plane->plans.plan_id();
  if (agreement_ && (!dynamic_ || !agreement_->reads_the_file())) return {Outcome::kRanks, plan_id};
  LearnWhatBegan();
  if (agrees()) return {PauseRanks(pause), plan_id, true};
  if (plan_id == 0 || !state_.window) return {Outcome::kNotCollecting, plan_id};
  if (state_.window->paused == pause) return {Outcome::kUnchanged, plan_id};
  Feed(PauseWanted{pause, ArmedWaits()});
  return {state_.window->paused == pause ? Outcome::kAsked : Outcome::kEnding, plan_id};
}

// An edit that is under way ends a pause anyway, and the ranks agree on one thing at a time.
PauseVerdict::Outcome Reloader::PauseRanks(bool pause) {
  using Outcome = PauseVerdict::Outcome;
  const step::PlanSwitch& plans = parts_.data_plane->plans;
  if (plans.plan_id() == 0 || !state_.window) return Outcome::kNotCollecting;
  if (agreement_->pausing() == pause) return Outcome::kAsked;
  const bool is_edited = state_.stopping || (state_.armed && !agreement_->defers());
  if (!agreement_->pausing()) {
    const bool is_on_its_way = pause_agreed_.at_step > parts_.data_plane->running.number();
    if ((is_on_its_way ? pause_agreed_.pause : plans.paused()) == pause) return Outcome::kUnchanged;
    if ((undecided() && !agreement_->is_resampling()) || is_edited) return Outcome::kEnding;
  }
  agreement_->ProposePause(pause, plans_.Source(state_.window->plan_id));
  return Outcome::kAsked;
}

void Reloader::TakePause(bool pause, int64_t at_step) {
  parts_.data_plane->plans.AskForPauseAt(at_step, pause);
  pause_agreed_ = {pause, at_step};
}

// What is armed waits for a step that is not the next.
bool Reloader::ArmedWaits() const {
  return state_.armed && plans_.Source(state_.armed->plan_id).at_step > parts_.data_plane->running.number() + 1;
}

void Reloader::Perform(const SetPause& action) {
  parts_.data_plane->plans.AskForPause(action.window, action.pause);
}

CutVerdict Reloader::Rotate() {
  using Outcome = CutVerdict::Outcome;
  LearnWhatBegan();
  if (segment_asked_ != segment_.segment) return {Outcome::kUnderWay, segment_asked_};
  if (parts_.data_plane->plans.plan_id() == 0 || !state_.window) return {Outcome::kNotCollecting, 0};
  parts_.data_plane->plans.AskForCut(++segment_asked_);
  return {Outcome::kAsked, segment_asked_};
}

// Manifest first: whoever hears of the segment finds it there.
void Reloader::OnSegment(const drain::SegmentBegun& begun) {
  output::ManifestSegment segment;
  segment.segment = begun.segment - 1;
  segment.last_step = begun.last_step;
  for (const std::string& file : begun.files) segment.files.push_back(base::BaseName(file));
  journal_.AddSegment(std::move(segment));
  journal_.AfterSaved([this, begun] {
    segment_ = {begun.segment, begun.last_step, begun.files};
    Event event;
    event.kind = EventKind::kRotated;
    event.plan_id = begun.plan_id;
    event.step = begun.last_step;
    const size_t files = begun.files.size();
    event.message = std::to_string(files) + (files == 1 ? " file" : " files") + " with rows up to step " +
                    std::to_string(begun.last_step) + (files == 1 ? " is" : " are") + " closed; segment " +
                    std::to_string(begun.segment) + " begins";
    Tell(std::move(event));
  });
}

// Nothing is in force, so no boundary begins a segment; and the files of the last plan are closed.
void Reloader::EndRotation() {
  const bool is_over = !state_.window && state_.published.empty() && state_.draining.empty();
  if (segment_asked_ == segment_.segment || !is_over) return;
  (void)parts_.data_plane->plans.WithdrawCut();
  segment_ = {segment_asked_, -1, {}};
}

GivenVerdict Reloader::Give(const std::string& text, const std::optional<output::EditPeer>& peer,
                            const std::function<void(const std::string& sha256)>& on_taken, int64_t at_step) {
  using Outcome = GivenVerdict::Outcome;
  GivenVerdict verdict;
  verdict.sha256 = base::Sha256Hex(text);
  const auto is = [&](Outcome outcome) {
    verdict.outcome = outcome;
    return verdict;
  };
  if (!dynamic_) return is(Outcome::kStatic);
  if (agreement_ && !agreement_->reads_the_file()) return is(Outcome::kNotReader);
  LearnWhatBegan();
  const bool goes_on = state_.window && !state_.stopping && !state_.armed && state_.window->sha256 == verdict.sha256;
  const bool waits = state_.armed && state_.armed->sha256 == verdict.sha256;
  if (state_.seen == verdict.sha256 && (goes_on || waits)) return is(Outcome::kUnchanged);
  Edit edit = pipeline_.Parse(verdict.sha256, text);
  edit.at_step = at_step;
  const EditIntent intent = pipeline_.Classify(&edit, state_.next_plan_id);
  verdict.refusal = intent == EditIntent::kRefused ? edit.refusal : WhyNoStep(intent, at_step);
  if (!verdict.refusal.ok()) return is(Outcome::kRefused);
  if (agreement_) agreement_->DiscardWriteBack();
  if (!agrees()) WithdrawResampled();
  if (on_taken) Quietly([&] { on_taken(verdict.sha256); });
  history_.Given(verdict.sha256, text, state_.seen, peer, verdict.sha256 != state_.in_file.value_or(state_.seen));
  const Edit before = std::exchange(current_, std::move(edit));
  try {
    Feed(BytesGiven{verdict.sha256, current_.intent});
  } catch (...) {
    current_ = before;
    throw;
  }
  return is(Outcome::kTaken);
}

}  // namespace stepwatch::reload
