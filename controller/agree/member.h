// One rank's part in agreeing on a step, the leader's own rank included: a pure function of (state, input).
//
// The rule that keeps the ranks together: a rank votes only after it has set its gate, which its step thread cannot
// pass unknowingly, and only if it has not reached the step by then. So at a commit every rank still stands before the
// step, knows of the proposal, and asks for the decision before it goes on. A rank that reaches the step undecided
// closes the vote with an abort, unless somebody was first; then it obeys what stands.
//
// A rank obeys only what names its own incarnation. A vote that is meant for the process before it is closed with an
// abort, so that the leader proposes the change again, for the new one. Without votes (Mode::kBestEffort, kLocal) a
// rank that had not come when the roll was called follows as well.
//
//   WAITING --turn--> PREPARING --built, in time--> VOTING --written--> VOTED --decision--> (commit or discard)
//      |                  | cannot, too late          |                   | step reached, newer proposal
//      +---- too late ----+---------------------------+---> CLOSING <-----+
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "controller/agree/messages.h"

namespace stepwatch::agree {

enum class MemberPhase : uint8_t {
  kWaiting,    // until the change before it is applied: only one waits in the plan slot
  kPreparing,  // the plan is being built
  kVoting,     // the vote is on its way into the store
  kVoted,      // the decision is awaited
  kClosing,    // the rank itself sets the decision, or learns who was first
};

struct MemberState {
  int rank = 0;
  Incarnation incarnation;
  int64_t known = 0;  // newest number that was taken up or skipped
  struct Pending {
    Proposal proposal;
    bool is_for_us = true;
    MemberPhase phase = MemberPhase::kWaiting;
    Decision closing;  // kClosing: what is to stand, if nothing does
  };
  std::optional<Pending> pending;
  int64_t applies_at = std::numeric_limits<int64_t>::min();  // step of the newest change that was committed
};

// --- inputs ---
// The next proposal, and its decision if it has one already: then it was not for this rank, which has just come.
struct Seen {
  Proposal proposal;
  std::optional<Decision> decision;
};
// Answers Prepare. `fault`: why the plan cannot be built. `arriving`: the step that began last, read after the gate was
// set.
struct Prepared {
  std::optional<Decision> fault;
  int64_t arriving = 0;
};
struct VoteWritten {
  int64_t number = 0;
};
struct Learned {
  int64_t number = 0;
  Decision decision;
};
// `arriving`: the step that runs, or that is held at the gate; `begun`: the one for which the plan slot was looked at.
struct MemberTick {
  int64_t arriving = 0;
  int64_t begun = 0;
};
// There is a new leader, or a newer proposal: what is pending has to be settled.
struct Settle {};
using MemberInput = std::variant<Seen, Prepared, VoteWritten, Learned, MemberTick, Settle>;

// --- actions ---
// Build the plan, then set the gate, then read the step; answered with Prepared at once.
struct Prepare {
  Proposal proposal;
};
// The change holds from its step: into the plan slot, then the gate opens.
struct Commit {
  Proposal proposal;
};
// It does not: the gate opens.
struct Discard {
  Proposal proposal;
  Decision decision;
};
using MemberAction = std::variant<Prepare, Commit, Discard>;

struct MemberTransition {
  MemberState state;
  std::vector<MemberAction> actions;
};

MemberTransition Step(MemberState state, const MemberInput& input);

}  // namespace stepwatch::agree
