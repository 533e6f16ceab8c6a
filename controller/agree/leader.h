// The leader's part in agreeing on a step, beside its part as a member: a pure function of (state, input).
//
// One proposal at a time. It is committed when every rank has voted; until then anybody may close it with an abort. One
// that came too late for a rank is proposed again with a doubled margin, a sampling not more than a few times; a newer
// edit takes the place of an older one.
// An edit for a later step is proposed when that step comes near: until then nobody but the leader knows of it, other
// changes are agreed on, and a newer edit takes its place.
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
  kCalling,     // the leader learns which incarnations of the ranks there are
  kPublishing,  // the proposal is on its way into the store
  kOpen,        // votes come in
  kDeciding,    // the leader sets the decision, or learns who was first
};

struct Ballot {
  Proposal proposal;
  int64_t ticket = 0;
  int64_t not_before = 0;
  BallotPhase phase = BallotPhase::kCalling;
  std::vector<bool> has_voted;  // by rank
  Time opened;                  // kCalling: begun
  Decision deciding;            // kDeciding: what is to stand, if nothing does
};

// "rank 3", "ranks 1, 2, 5"; empty: all have voted.
std::string RanksWithoutVote(const Ballot& ballot);

struct Wanted {
  Change change;
  int64_t ticket = 0;      // the caller's name for it
  int64_t not_before = 0;  // the step that it is for; one that is past means the next that the ranks can agree on
};

// How many steps the leader goes in `time`.
struct Pace {
  std::chrono::milliseconds time{2000};
  int64_t steps = 0;  // in the last stretch of that length
  Time since;         // the stretch under way
  int64_t from = -1;  // its first step; -1: there is none
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
  int64_t arriving = 0;          // as told last
  int64_t ahead = 0;             // steps that another rank was before this one when it closed a ballot
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
// Who has come, by rank; empty: that rank has not.
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
// The edit for a later step is not wanted any more.
struct Withdraw {};
using LeaderInput = std::variant<Want, RollCalled, Published, VoteIn, Decided, LeaderTick, Withdraw>;

// --- action ---
// A ballot is over. `retries`: the same change is proposed again.
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
