#include "controller/agree/leader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace stepwatch::agree {
namespace {

constexpr size_t kRanksNamed = 8;
// An edit for a later step is proposed this many steps before it, plus the steps of the leader in Pace::time.
constexpr int64_t kLeadSteps = 4;
// Keeping the current sampling is harmless, so a sampling is not proposed again after this margin.
constexpr int64_t kSamplingMarginMax = 64;

std::string SilentText(const Ballot& ballot, std::chrono::milliseconds vote_time) {
  return RanksWithoutVote(ballot) + " did not answer within " + std::to_string(vote_time.count()) + " ms";
}

struct LeaderStepper {
  LeaderState state;
  std::optional<Settled> settled;

  void operator()(const Want& input);
  void operator()(const RollCalled& input);
  void operator()(const Published& input);
  void operator()(const VoteIn& input);
  void operator()(const Decided& input);
  void operator()(const LeaderTick& input);
  void operator()(const Withdraw&) { state.later.reset(); }

 private:
  bool IsFar(const Wanted& wanted) const;
  bool IsReplaced() const;
  void TakeUpLater();
  void Replace();
  void Measure(int64_t arriving, Time now);
  bool IsAbout(int64_t number, BallotPhase phase) const {
    return state.ballot && state.ballot->proposal.number == number && state.ballot->phase == phase;
  }
  void Decide(Cause cause, std::string reason = "");
  bool Retries(Cause cause) const;
  void Propose(int64_t arriving, Time now);
  int64_t StepFor(int64_t arriving, int64_t not_before) const;
  void End(const Decision& decision, bool retries);
};

void LeaderStepper::operator()(const Want& input) {
  const bool is_edit = input.wanted.change.deed == Deed::kEdit;
  if (is_edit) state.later.reset();
  if (is_edit && IsFar(input.wanted)) {
    state.later = input.wanted;
    if (state.wanted && state.wanted->change.deed == Deed::kEdit) state.wanted.reset();
  } else {
    state.wanted = input.wanted;
  }
  Replace();
}

// Replaces a pause on which the ranks have not agreed yet.
void LeaderStepper::TakeUpLater() {
  state.wanted = std::exchange(state.later, std::nullopt);
  Replace();
}

void LeaderStepper::Replace() {
  state.margin = state.margin_first;
  state.ahead = 0;
  if (!IsReplaced()) return;
  if (state.ballot->phase == BallotPhase::kOpen) Decide(Cause::kSuperseded);
  if (state.ballot->phase != BallotPhase::kCalling) return;
  --state.number;  // it was not published
  state.ballot.reset();
}

bool LeaderStepper::IsFar(const Wanted& wanted) const {
  const int64_t so_far = state.pace.from >= 0 ? state.arriving - state.pace.from : 0;
  const int64_t lead = std::min(kLeadSteps + std::max(state.pace.steps, so_far), state.margin_max);
  return wanted.not_before > state.arriving + lead;
}

// A waiting edit does not interrupt a pause.
bool LeaderStepper::IsReplaced() const {
  return state.ballot && (state.wanted || (state.later && state.ballot->proposal.change.deed == Deed::kEdit));
}

// A vote needs all ranks, so the proposal waits for missing ones, until its provisional step is reached or the time for
// votes has passed. If a rank is still missing, the abort that follows names it.
void LeaderStepper::operator()(const RollCalled& input) {
  if (!IsAbout(input.number, BallotPhase::kCalling)) return;
  Ballot& ballot = *state.ballot;
  Proposal& proposal = ballot.proposal;
  proposal.roll = input.roll;
  proposal.roll.at(static_cast<size_t>(state.rank)) = state.session;
  const bool is_complete = std::find(proposal.roll.begin(), proposal.roll.end(), "") == proposal.roll.end();
  const bool waits = proposal.change.mode == Mode::kStrict && input.arriving < proposal.at_step &&
                     input.now - ballot.opened <= state.vote_time;
  if (!is_complete && waits) return;
  proposal.at_step = StepFor(input.arriving, ballot.not_before);
  ballot.phase = BallotPhase::kPublishing;
}

void LeaderStepper::operator()(const Published& input) {
  if (!IsAbout(input.number, BallotPhase::kPublishing)) return;
  if (state.ballot->proposal.change.mode != Mode::kStrict)
    return End({true, Cause::kNone, state.rank, 0, "", 0}, false);
  state.ballot->phase = BallotPhase::kOpen;
  state.ballot->opened = input.now;
  if (IsReplaced()) Decide(Cause::kSuperseded);
}

void LeaderStepper::operator()(const VoteIn& input) {
  if (!IsAbout(input.number, BallotPhase::kOpen)) return;
  // Vote of a dead process; its replacement has no gate set.
  if (input.incarnation.empty() || input.incarnation != MeantFor(state.ballot->proposal, input.rank)) return;
  std::vector<bool>& voted = state.ballot->has_voted;
  voted.at(static_cast<size_t>(input.rank)) = true;
  if (std::find(voted.begin(), voted.end(), false) == voted.end()) Decide(Cause::kNone);
}

void LeaderStepper::operator()(const Decided& input) {
  if (!state.ballot || state.ballot->proposal.number != input.number) return;
  const Cause cause = input.decision.cause;
  const bool retries = !IsReplaced() && !input.decision.commit && Retries(cause);
  if (retries) {
    state.wanted = Wanted{state.ballot->proposal.change, state.ballot->ticket, state.ballot->not_before};
    if (cause != Cause::kNewcomer) state.margin = std::min(state.margin * 2, state.margin_max);
    if (cause == Cause::kLate) state.ahead = std::max(state.ahead, input.decision.step - state.arriving);
  }
  End(input.decision, retries);
}

bool LeaderStepper::Retries(Cause cause) const {
  if (cause == Cause::kCannot || cause == Cause::kRenumber) return false;
  if (state.ballot->proposal.change.deed != Deed::kSampling) return true;
  return cause != Cause::kSilent && (cause != Cause::kLate || state.margin < kSamplingMarginMax);
}

void LeaderStepper::operator()(const LeaderTick& input) {
  state.arriving = input.arriving;
  Measure(input.arriving, input.now);
  if (state.later && !IsFar(*state.later)) TakeUpLater();
  if (!state.ballot && state.wanted) return Propose(input.arriving, input.now);
  if (!state.ballot || state.ballot->phase != BallotPhase::kOpen) return;
  // No rank votes before the previous change has begun, so the time for votes starts then.
  if (input.arriving < state.applies_at) state.ballot->opened = input.now;
  if (input.now - state.ballot->opened > state.vote_time)
    Decide(Cause::kSilent, SilentText(*state.ballot, state.vote_time));
}

void LeaderStepper::Measure(int64_t arriving, Time now) {
  Pace& pace = state.pace;
  if (pace.from >= 0 && now - pace.since < pace.time) return;
  const auto stretch = std::chrono::duration_cast<std::chrono::milliseconds>(now - pace.since);
  if (pace.from >= 0) pace.steps = (arriving - pace.from) * pace.time / stretch;
  pace.since = now;
  pace.from = arriving;
}

void LeaderStepper::Decide(Cause cause, std::string reason) {
  state.ballot->phase = BallotPhase::kDeciding;
  state.ballot->deciding = {cause == Cause::kNone, cause, state.rank, 0, std::move(reason), 0};
}

void LeaderStepper::Propose(int64_t arriving, Time now) {
  const Wanted wanted = *std::exchange(state.wanted, std::nullopt);
  Ballot ballot;
  ballot.ticket = wanted.ticket;
  ballot.not_before = wanted.not_before;
  ballot.opened = now;
  ballot.proposal.number = ++state.number;
  ballot.proposal.at_step = StepFor(arriving, wanted.not_before);
  ballot.proposal.change = wanted.change;
  ballot.has_voted.assign(static_cast<size_t>(state.world_size), false);
  state.ballot = std::move(ballot);
}

// Never before the previous change, if that still waits for its step.
int64_t LeaderStepper::StepFor(int64_t arriving, int64_t not_before) const {
  return std::max({arriving + state.ahead + 1 + state.margin, state.applies_at + state.margin, not_before});
}

void LeaderStepper::End(const Decision& decision, bool retries) {
  const Ballot ballot = *std::exchange(state.ballot, std::nullopt);
  if (decision.commit && ballot.proposal.change.mode != Mode::kLocal)
    state.applies_at = std::max(state.applies_at, ballot.proposal.at_step);
  settled = Settled{ballot.proposal, ballot.ticket, decision, retries};
}

}  // namespace

std::string RanksWithoutVote(const Ballot& ballot) {
  std::string names;
  size_t silent = 0;
  for (size_t rank = 0; rank < ballot.has_voted.size(); ++rank)
    if (!ballot.has_voted[rank] && ++silent <= kRanksNamed) names += (names.empty() ? "" : ", ") + std::to_string(rank);
  if (silent > kRanksNamed) names += ", … (" + std::to_string(silent) + " in all)";
  return silent == 0 ? "" : (silent == 1 ? "rank " : "ranks ") + names;
}

LeaderTransition Step(LeaderState state, const LeaderInput& input) {
  LeaderStepper stepper{std::move(state), {}};
  std::visit(stepper, input);
  return {std::move(stepper.state), std::move(stepper.settled)};
}

}  // namespace stepwatch::agree
