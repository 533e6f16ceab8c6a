#include "controller/agree/member.h"

#include <algorithm>
#include <utility>

namespace stepwatch::agree {
namespace {

struct MemberStepper {
  MemberState state;
  std::vector<MemberAction> actions;

  void operator()(const Seen& input);
  void operator()(const Prepared& input);
  void operator()(const VoteWritten& input);
  void operator()(const Learned& input);
  void operator()(const MemberTick& input);
  void operator()(const Settle&);

 private:
  bool IsForUs(const Proposal& proposal) const;
  bool strict() const { return state.pending->proposal.change.mode == Mode::kStrict; }
  void Close(Decision decision);
  void CloseLate(int64_t arriving) { Close({false, Cause::kLate, state.rank, 0, "", arriving}); }
  void Finish(const Decision& decision);
};

void MemberStepper::operator()(const Seen& input) {
  if (input.proposal.number <= state.known) return;
  if (state.pending) return (*this)(Settle{});
  state.known = input.proposal.number;
  if (input.decision) {
    if (!input.decision->commit) actions.push_back(Discard{input.proposal, *input.decision});
    return;
  }
  const bool is_for_us = IsForUs(input.proposal);
  if (!is_for_us && input.proposal.change.mode != Mode::kStrict) return;
  state.pending = MemberState::Pending{input.proposal, is_for_us, MemberPhase::kWaiting, {}};
  if (!is_for_us) Close({false, Cause::kNewcomer, state.rank, 0, "", 0});
}

bool MemberStepper::IsForUs(const Proposal& proposal) const {
  const Incarnation meant = MeantFor(proposal, state.rank);
  return meant == state.incarnation || (meant.empty() && proposal.change.mode != Mode::kStrict);
}

void MemberStepper::operator()(const Prepared& input) {
  if (!state.pending || state.pending->phase != MemberPhase::kPreparing) return;
  if (!strict()) return Finish(input.fault ? *input.fault : Decision{true, Cause::kNone, state.rank, 0, "", 0});
  if (input.fault) return Close(*input.fault);
  if (input.arriving >= state.pending->proposal.at_step) return CloseLate(input.arriving);
  state.pending->phase = MemberPhase::kVoting;
}

void MemberStepper::operator()(const VoteWritten& input) {
  if (!state.pending || state.pending->proposal.number != input.number) return;
  if (state.pending->phase == MemberPhase::kVoting) state.pending->phase = MemberPhase::kVoted;
}

void MemberStepper::operator()(const Learned& input) {
  if (state.pending && state.pending->proposal.number == input.number) Finish(input.decision);
}

void MemberStepper::operator()(const MemberTick& input) {
  if (!state.pending || state.pending->phase == MemberPhase::kClosing) return;
  if (strict() && input.arriving >= state.pending->proposal.at_step) return CloseLate(input.arriving);
  if (state.pending->phase != MemberPhase::kWaiting || input.begun < state.applies_at) return;
  state.pending->phase = MemberPhase::kPreparing;
  actions.push_back(Prepare{state.pending->proposal});
}

void MemberStepper::operator()(const Settle&) {
  if (!state.pending || state.pending->phase == MemberPhase::kClosing) return;
  if (!strict()) return state.pending.reset();  // it has not begun, so the newer one replaces it
  Close({false, Cause::kSuperseded, state.rank, 0, "", 0});
}

void MemberStepper::Close(Decision decision) {
  state.pending->phase = MemberPhase::kClosing;
  state.pending->closing = std::move(decision);
}

void MemberStepper::Finish(const Decision& decision) {
  const bool is_for_us = state.pending->is_for_us;
  const Proposal proposal = std::exchange(state.pending, std::nullopt)->proposal;
  if (!decision.commit) {
    actions.push_back(Discard{proposal, decision});
    return;
  }
  if (!is_for_us) return;
  if (proposal.change.mode != Mode::kLocal) state.applies_at = std::max(state.applies_at, proposal.at_step);
  actions.push_back(Commit{proposal});
}

}  // namespace

MemberTransition Step(MemberState state, const MemberInput& input) {
  MemberStepper stepper{std::move(state), {}};
  std::visit(stepper, input);
  return {std::move(stepper.state), std::move(stepper.actions)};
}

}  // namespace stepwatch::agree
