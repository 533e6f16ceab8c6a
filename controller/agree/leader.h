// The leader's part in agreeing on a step, beside its part as a member: a pure function of (state, input).
//
// One proposal at a time. It is committed when every rank has voted; until then any rank can close it with an abort. A
// proposal that came too late for a rank is repeated with a doubled margin, a sampling only a few times; a newer edit
// replaces an older one.
//
// An edit for a later step is proposed when that step comes near. Until then only the leader knows it, other changes
// are agreed on, and a newer edit replaces it.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "controller/agree/messages.h"
#include "controller/agree/store_client.h"

namespace stepwatch::agree {

enum class BallotPhase : uint8_t {
  kCalling,     // the leader reads the incarnations of the ranks
  kPublishing,  // the proposal is being written to the store
  kOpen,        // votes arrive
  kDeciding,    // the leader sets the decision, or reads the one that was set first
};

struct Ballot {
  Proposal proposal;
  int64_t ticket = 0;
  int64_t not_before = 0;
  BallotPhase phase = BallotPhase::kCalling;
  std::vector<bool> has_voted;  // by rank
  Time opened;                  // kCalling: its start
  Decision deciding;            // kDeciding: the decision to set, unless one is set already
};

// "rank 3", "ranks 1, 2, 5"; empty: all ranks have voted.
std::string RanksWithoutVote(const Ballot& ballot);

struct Wanted {
  Change change;
  int64_t ticket = 0;      // identifies the change to the caller
  int64_t not_before = 0;  // intended step; if it has passed, the next step on which the ranks can agree
};

// The number of steps that the leader makes in `time`.
struct Pace {
  std::chrono::milliseconds time{2000};
  int64_t steps = 0;  // in the last complete interval
  Time since;         // start of the current interval
  int64_t from = -1;  // first step of the current interval; -1: no interval has begun
};

struct LeaderState {
  int rank = 0;
  int world_size = 1;
  Incarnation session;
  // Steps between the next boundary and the proposed one: doubled after an abort for lack of time.
  int64_t margin_first = 2;
  int64_t margin_max = 1024;
  std::chrono::milliseconds vote_time{30000};

  int64_t number = 0;
  int64_t margin = 2;
  int64_t arriving = 0;          // from the newest input
  int64_t ahead = 0;             // steps by which another rank was ahead of this one when it closed a ballot
  std::optional<Wanted> wanted;  // waits for the ballot to end
  std::optional<Wanted> later;   // an edit that waits for its step to come near
  Pace pace;
  std::optional<Ballot> ballot;
  int64_t applies_at = std::numeric_limits<int64_t>::min() / 2;  // step of the newest commit
};

// --- inputs ---
struct Want {
  Wanted wanted;
};
// The incarnation of each rank; empty: the rank has not joined.
struct RollCalled {
  int64_t number = 0;
  std::vector<Incarnation> roll;
  int64_t arriving = 0;
  Time now;
};
struct Published {
  int64_t number = 0;
  Time now;
};
struct VoteIn {
  int64_t number = 0;
  int rank = 0;
  Incarnation incarnation;
};
struct Decided {
  int64_t number = 0;
  Decision decision;
};
struct LeaderTick {
  int64_t arriving = 0;
  Time now;
};
// Drops the edit that waits for a later step.
struct Withdraw {};
using LeaderInput = std::variant<Want, RollCalled, Published, VoteIn, Decided, LeaderTick, Withdraw>;

// --- action ---
// A ballot has ended. `retries`: the same change is proposed again.
struct Settled {
  Proposal proposal;
  int64_t ticket = 0;
  Decision decision;
  bool retries = false;
};

struct LeaderTransition {
  LeaderState state;
  std::optional<Settled> settled;
};

LeaderTransition Step(LeaderState state, const LeaderInput& input);

}  // namespace stepwatch::agree
