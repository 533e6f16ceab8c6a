// One rank's part in agreeing on a step, the leader's own rank included: a pure function of (state, input).
//
// The rule that keeps the ranks together: a rank votes only after it has set its gate, which its step thread cannot
// pass without checking the decision, and only if it has not reached the step by then. So at a commit every rank is
// still before the step, knows the proposal, and reads the decision before it continues. A rank that reaches the step
// without a decision closes the vote with an abort, unless a decision is set already; then it obeys that one.
//
// A rank obeys only proposals that address its own incarnation. It closes a vote that addresses its predecessor with an
// abort, so that the leader proposes the change again, for the new process. Without votes (Mode::kBestEffort, kLocal) a
// rank that had not joined when the roll was read follows as well.
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
  kWaiting,    // for the previous change to be applied, as the plan slot holds only one
  kPreparing,  // the plan is being built
  kVoting,     // the vote is being written to the store
  kVoted,      // waits for the decision
  kClosing,    // this rank sets the decision, or reads the one that was set first
};

struct MemberState {
  int rank = 0;
  Incarnation incarnation;
  int64_t known = 0;  // newest number that was processed or skipped
  struct Pending {
    Proposal proposal;
    bool is_for_us = true;
    MemberPhase phase = MemberPhase::kWaiting;
    Decision closing;  // kClosing: the decision to set, unless one is set already
  };
  std::optional<Pending> pending;
  int64_t applies_at = std::numeric_limits<int64_t>::min();  // step of the newest change that was committed
};

// --- inputs ---
// The next proposal, with its decision if there is one already: then this rank joined too late for it.
struct Seen {
  Proposal proposal;
  std::optional<Decision> decision;
};
// Answer to Prepare. `fault`: why the plan cannot be built. `arriving`: the step that began last, read after the gate
// was set.
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
// `arriving`: the step that runs or is held at the gate; `begun`: the newest step for which the plan slot was checked.
struct MemberTick {
  int64_t arriving = 0;
  int64_t begun = 0;
};
// There is a new leader or a newer proposal: the pending one must be settled.
struct Settle {};
using MemberInput = std::variant<Seen, Prepared, VoteWritten, Learned, MemberTick, Settle>;

// --- actions ---
// Build the plan, then set the gate, then read the step; answered by Prepared at once.
struct Prepare {
  Proposal proposal;
};
// The change applies from its step: put it into the plan slot, then open the gate.
struct Commit {
  Proposal proposal;
};
// The change does not apply: open the gate.
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
