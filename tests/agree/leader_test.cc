// The leader's machine under every sequence of inputs up to a length: edits, edits for a later step, pauses, samplings.
#include "controller/agree/leader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::agree {
namespace {

constexpr int64_t kLaterStep = 100;

// A leader alone with its machine: who calls it keeps to what PlanAgreement does.
struct Lone {
  Lone() {
    state.session = "a1";
    state.world_size = 2;
    Feed(LeaderTick{arriving, now});
  }

  bool is_edit_undecided() const {
    const auto is_edit = [](const Change& change) { return change.deed == Deed::kEdit; };
    return (state.wanted && is_edit(state.wanted->change)) || (state.ballot && is_edit(state.ballot->proposal.change));
  }

  void Feed(const LeaderInput& input) {
    LeaderTransition transition = Step(std::move(state), input);
    state = std::move(transition.state);
    if (!transition.settled || transition.settled->retries) return;
    const Settled& settled = *transition.settled;
    if (settled.proposal.change.deed != Deed::kEdit) return;
    const bool is_newest = settled.ticket == newest;
    if (settled.decision.commit) {
      const bool is_for_later = is_newest && newest_step > 0;
      if (is_for_later) CHECK(settled.proposal.at_step >= newest_step);
      if (is_newest) is_settled = true;
    } else {
      CHECK_FALSE(is_newest);  // nobody refuses here: an edit is given up for a newer one only
    }
  }

  void Want(Deed deed, int64_t not_before) {
    Change change;
    change.deed = deed;
    change.sha256 = "f";
    if (deed == Deed::kEdit) newest = ++tickets, newest_step = not_before, is_settled = is_withdrawn = false;
    Feed(agree::Want{{change, deed == Deed::kEdit ? tickets : 1000 + ++tickets, not_before}});
  }

  // False: the move is none here.
  bool Move(int move) {
    switch (move) {
      case 0: return Want(Deed::kEdit, 0), true;
      case 1: return Want(Deed::kEdit, kLaterStep), true;
      case 2: return !is_edit_undecided() && (Want(Deed::kPause, 0), true);
      case 3: return Pass(1), true;
      case 4: return Pass(45), true;
      case 5: return Advance();
      case 6: return Decide({true, Cause::kNone, 0, 0, "", 0});
      case 7: return Decide({false, Cause::kLate, 1, 0, "", arriving});
      case 8: is_withdrawn = is_withdrawn || state.later.has_value(); return Feed(Withdraw{}), true;
      case 9: return !state.wanted && !state.ballot && !state.later && (Want(Deed::kSampling, 0), true);
      default: return false;
    }
  }
  void Pass(int64_t steps) {
    arriving += steps;
    now += std::chrono::seconds(2) * steps;
    Feed(LeaderTick{arriving, now});
  }
  bool Advance() {
    if (!state.ballot) return false;
    const int64_t number = state.ballot->proposal.number;
    if (state.ballot->phase == BallotPhase::kCalling)
      return Feed(RollCalled{number, {"a1", "b1"}, arriving, now}), true;
    if (state.ballot->phase == BallotPhase::kPublishing) return Feed(Published{number, now}), true;
    return false;
  }
  // By whoever is first; what the leader itself would decide may come too late.
  bool Decide(const Decision& decision) {
    if (!state.ballot || state.ballot->phase < BallotPhase::kOpen) return false;
    const bool is_superseded = state.ballot->phase == BallotPhase::kDeciding;
    Feed(Decided{state.ballot->proposal.number, is_superseded && !decision.commit ? state.ballot->deciding : decision});
    return true;
  }

  // The newest edit is somewhere, and so is nothing older that would come after it.
  void Check() const {
    const auto has = [&](const std::optional<Wanted>& wanted) { return wanted && wanted->ticket == newest; };
    const bool is_in_ballot = state.ballot && state.ballot->ticket == newest;
    if (newest != 0) CHECK(has(state.later) + has(state.wanted) + is_in_ballot + is_settled + is_withdrawn == 1);
    if (state.later) CHECK(has(state.later));
    if (state.wanted && state.wanted->change.deed == Deed::kEdit) CHECK(has(state.wanted));
    if (state.later && !is_edit_undecided()) CHECK(state.later->not_before > state.arriving);
    // A sampling waits behind nothing, and takes the place of nothing.
    if (state.wanted && state.wanted->change.deed == Deed::kSampling) CHECK_FALSE(state.ballot);
  }

  LeaderState state;
  int64_t arriving = 1;
  Time now{std::chrono::hours(1)};
  int64_t tickets = 0, newest = 0, newest_step = 0;
  bool is_settled = false, is_withdrawn = false;
};

void Follow(const Lone& leader, int depth, const std::string& history, int64_t* paths) {
  INFO(history);
  leader.Check();
  ++*paths;
  if (depth == 0) return;
  for (int move = 0; move <= 9; ++move) {
    Lone next = leader;
    INFO("move " << move);
    if (next.Move(move)) Follow(next, depth - 1, history + " " + std::to_string(move), paths);
  }
}

TEST_CASE(
    "in every sequence of edits, later edits, pauses and samplings the newest edit is kept, and no older one comes "
    "after it") {
  int64_t paths = 0;
  Follow(Lone(), 6, "", &paths);
  CHECK(paths > 50000);
}

TEST_CASE("a sampling that comes too late is proposed with greater margins, and not for ever as an edit is") {
  for (const Deed deed : {Deed::kSampling, Deed::kEdit}) {
    Lone leader;
    leader.Want(deed, 0);
    int tries = 0;
    for (int64_t margin = leader.state.margin_first; tries < 20; ++tries, margin *= 2) {
      leader.Pass(1);
      if (!leader.state.ballot) break;
      CHECK(leader.Advance());
      CHECK(leader.state.ballot->proposal.at_step == leader.arriving + 1 + std::min<int64_t>(margin, 1024));
      CHECK(leader.Advance());
      CHECK(leader.Decide({false, Cause::kLate, 0, 0, "rank 1 had not voted", leader.arriving}));
    }
    CHECK(tries == (deed == Deed::kSampling ? 6 : 20));
  }
}

TEST_CASE("a sampling on which a rank is silent is over, and so is one that a rank cannot do") {
  for (const Cause cause : {Cause::kSilent, Cause::kCannot, Cause::kRenumber, Cause::kNewcomer}) {
    Lone leader;
    leader.Want(Deed::kSampling, 0);
    leader.Pass(1);
    for (int i = 0; i < 2; ++i) CHECK(leader.Advance());
    CHECK(leader.Decide({false, cause, 1, 5, "no", leader.arriving}));
    CHECK(leader.state.wanted.has_value() == (cause == Cause::kNewcomer));
    CHECK_FALSE(leader.state.ballot);
  }
}

TEST_CASE("an edit for a later step is proposed when it comes near, at its step, and pauses are agreed on until then") {
  Lone leader;
  leader.Want(Deed::kEdit, 100);
  leader.Pass(1);
  CHECK_FALSE(leader.state.ballot);
  leader.Want(Deed::kPause, 0);
  leader.Pass(1);
  REQUIRE(leader.state.ballot);
  CHECK(leader.state.ballot->proposal.change.deed == Deed::kPause);
  CHECK(leader.Advance());
  CHECK(leader.Advance());
  CHECK(leader.Decide({true, Cause::kNone, 0, 0, "", 0}));
  CHECK(leader.state.later);
  leader.Pass(70);
  CHECK_FALSE(leader.state.ballot);
  leader.Pass(23);
  REQUIRE(leader.state.ballot);
  CHECK(leader.state.ballot->proposal.at_step == 100);
  CHECK(leader.Advance());
  CHECK(leader.state.ballot->proposal.at_step == 100);
  leader.Pass(10);
  CHECK(leader.Advance());
  CHECK(leader.Decide({false, Cause::kLate, 1, 0, "", 101}));  // a rank was there first
  leader.Pass(1);
  REQUIRE(leader.state.ballot);
  CHECK(leader.state.ballot->proposal.at_step > 100);
}

TEST_CASE("of a job with short steps an edit for a later step is proposed two seconds before it") {
  Lone leader;
  const auto run = [&](int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      leader.now += std::chrono::milliseconds(5);
      leader.Feed(LeaderTick{++leader.arriving, leader.now});
    }
  };
  run(1000);
  leader.Want(Deed::kEdit, 5000);
  while (!leader.state.ballot) run(1);
  CHECK(leader.state.arriving == 5000 - 400 - 4);
}

TEST_CASE("while a change waits for its step nobody votes on the next one, and nobody is called silent") {
  Lone leader;
  leader.Want(Deed::kEdit, 30);
  leader.Pass(24);
  for (int i = 0; i < 2; ++i) CHECK(leader.Advance());
  CHECK(leader.Decide({true, Cause::kNone, 0, 0, "", 0}));
  leader.Want(Deed::kEdit, 0);
  leader.Pass(1);
  for (int i = 0; i < 2; ++i) CHECK(leader.Advance());
  const auto wait = [&] {
    leader.now += leader.state.vote_time + std::chrono::seconds(1);
    leader.Feed(LeaderTick{leader.arriving, leader.now});
  };
  for (int i = 0; i < 5; ++i) wait();
  REQUIRE(leader.state.ballot);
  CHECK(leader.state.ballot->phase == BallotPhase::kOpen);
  CHECK(leader.state.ballot->proposal.at_step == 32);
  leader.Pass(4);
  wait();
  CHECK(leader.state.ballot->deciding.cause == Cause::kSilent);
}

}  // namespace
}  // namespace stepwatch::agree
