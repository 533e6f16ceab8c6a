// Every interleaving of a small job: the pure machines, a store as a set of keys, step threads. Messages take any time,
// a rank may stop for ever (it just does not move any more), come back without a memory, or give up waiting at the
// gate. All states that can be reached are visited, each once.
#include <algorithm>
#include <deque>
#include <string>
#include <unordered_set>

#include "controller/agree/leader.h"
#include "controller/agree/member.h"
#include "tests/catch.h"

namespace stepwatch::agree {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kNever = 1000;

struct Limits {
  int64_t steps = 4;
  int64_t proposals = 1;
  int edits = 1;
  int restarts = 0;
  int timeouts = 0;
  bool votes_before_gate = false;  // a fault that must be found: the step is read before the gate is set
};

struct Rank {
  MemberState member;
  int64_t arriving = 0, begun = 0;
  int64_t gate = kNever, doubted_gate = kNever;
  int64_t slot = 0, slot_step = 0;  // proposal that waits; 0: none
  int64_t plan = 0;                 // proposal in force
  bool in_doubt = false;
  bool is_new = false;         // came back, and no proposal was committed here since
  bool vote_is_out = false;    // in the store, and the rank does not know yet
  int64_t read_step = -1;      // while the plan is built: the step at its beginning
  std::vector<int64_t> plans;  // by step; -1: in doubt, or came back without one
};

struct World {
  LeaderState leader;
  std::array<Rank, kRanks> ranks;
  // The store, by number from 1.
  std::vector<Proposal> proposals;
  std::vector<std::optional<Decision>> decisions;
  std::vector<std::array<bool, kRanks>> votes;
  int edits = 0, restarts = 0, timeouts = 0;
};

void Put(std::string* key, int64_t value) {
  *key += std::to_string(value) + ",";
}

std::string KeyOf(const World& world) {
  std::string key;
  const LeaderState& leader = world.leader;
  for (int64_t value :
       {leader.number, leader.margin, leader.arriving, leader.ahead, leader.applies_at,
        static_cast<int64_t>(leader.wanted.has_value()),
        leader.ballot ? static_cast<int64_t>(leader.ballot->phase) : int64_t{-1}, static_cast<int64_t>(world.edits),
        static_cast<int64_t>(world.restarts), static_cast<int64_t>(world.timeouts)})
    Put(&key, value);
  if (leader.ballot) {
    Put(&key, static_cast<int64_t>(leader.ballot->deciding.cause));
    for (bool voted : leader.ballot->has_voted) Put(&key, voted);
    for (const Incarnation& each : leader.ballot->proposal.roll) key += each + ",";
  }
  for (const Rank& rank : world.ranks) {
    key += "|" + rank.member.incarnation;
    const auto& pending = rank.member.pending;
    for (int64_t value :
         {rank.member.known, rank.member.applies_at, pending ? pending->proposal.number : int64_t{0},
          pending ? static_cast<int64_t>(pending->phase) : int64_t{-1},
          pending ? static_cast<int64_t>(pending->closing.cause) : int64_t{-1}, rank.arriving, rank.begun, rank.gate,
          rank.doubted_gate, rank.slot, rank.plan, static_cast<int64_t>(rank.in_doubt),
          static_cast<int64_t>(rank.is_new), static_cast<int64_t>(rank.vote_is_out), rank.read_step})
      Put(&key, value);
    key += ";";
    for (int64_t plan : rank.plans) Put(&key, plan);
  }
  for (size_t i = 0; i < world.proposals.size(); ++i) {
    Put(&key, world.proposals[i].at_step);
    key += world.proposals[i].roll[1];
    Put(&key, world.decisions[i] ? 2 + static_cast<int64_t>(world.decisions[i]->cause) : 0);
    for (bool voted : world.votes[i]) Put(&key, voted);
  }
  return key;
}

class Explorer {
 public:
  explicit Explorer(Limits limits) : limits_(limits) {}

  void Run() {
    World first;
    first.leader.world_size = kRanks;
    first.leader.margin_max = 4;
    first.leader.session = "a";
    for (int i = 0; i < kRanks; ++i) {
      first.ranks[static_cast<size_t>(i)].member.rank = i;
      first.ranks[static_cast<size_t>(i)].member.incarnation = i == 0 ? "a" : "b";
      first.ranks[static_cast<size_t>(i)].plans = {0};
    }
    Visit(first);
    while (!queue_.empty() && fault_.empty()) {
      const World world = std::move(queue_.front());
      queue_.pop_front();
      Moves(world);
    }
  }
  size_t states() const { return seen_.size(); }
  const std::string& fault() const { return fault_; }
  bool commits() const { return commits_; }
  bool aborts() const { return aborts_; }

 private:
  void Visit(const World& world) {
    if (!seen_.insert(KeyOf(world)).second) return;
    Check(world);
    queue_.push_back(world);
  }

  // At every step that all have begun, the plans that are not in doubt are the same.
  void Check(const World& world) {
    for (size_t a = 0; a < kRanks; ++a)
      for (size_t b = 0; b < a; ++b)
        for (size_t step = 0; step < std::min(world.ranks[a].plans.size(), world.ranks[b].plans.size()); ++step) {
          const int64_t x = world.ranks[a].plans[step], y = world.ranks[b].plans[step];
          if (x >= 0 && y >= 0 && x != y)
            fault_ = "step " + std::to_string(step) + ": plans " + std::to_string(x) + " and " + std::to_string(y);
        }
  }

  void Moves(const World& world) {
    MovesOfLeader(world);
    for (size_t i = 0; i < kRanks; ++i) {
      MovesOfMember(world, i);
      MovesOfSteps(world, i);
    }
  }

  // --- the leader, which is rank 0's process as well ---
  void MovesOfLeader(const World& world) {
    if (world.edits < limits_.edits) {
      World next = world;
      ++next.edits;
      Feed(&next, Want{Wanted{{Mode::kStrict, static_cast<PlanId>(next.edits), "abc", "{}"}, next.edits}});
      Visit(next);
    }
    const auto& ballot = world.leader.ballot;
    if (!ballot) {
      if (!world.leader.wanted) return;
      World next = world;
      Feed(&next, LeaderTick{next.ranks[0].arriving, Time()});
      std::vector<Incarnation> roll;
      for (const Rank& rank : world.ranks) roll.push_back(rank.member.incarnation);
      Feed(&next, RollCalled{next.leader.number, roll, next.ranks[0].arriving, Time()});
      if (next.leader.ballot->proposal.at_step <= limits_.steps && next.leader.number <= limits_.proposals) Visit(next);
      return;
    }
    const int64_t number = ballot->proposal.number;
    const size_t index = static_cast<size_t>(number - 1);
    if (ballot->phase == BallotPhase::kPublishing) {
      World next = world;
      next.proposals.push_back(ballot->proposal);
      next.decisions.emplace_back();
      next.votes.emplace_back();
      Feed(&next, Published{number, Time()});
      Feed(&next, 0, Seen{ballot->proposal, std::nullopt});
      return Visit(next);
    }
    for (size_t i = 0; i < kRanks && ballot->phase == BallotPhase::kOpen; ++i) {
      if (!world.votes[index][i] || ballot->has_voted[i]) continue;
      World next = world;
      Feed(&next, VoteIn{number, static_cast<int>(i), world.proposals[index].roll[i]});
      Visit(next);
    }
    if (ballot->phase == BallotPhase::kOpen) {  // some rank is silent for too long
      World next = world;
      Feed(&next, LeaderTick{next.ranks[0].arriving, Time() + std::chrono::hours(1)});
      Visit(next);
    }
    if (ballot->phase == BallotPhase::kDeciding && !world.decisions[index]) {
      World next = world;
      next.decisions[index] = ballot->deciding;
      Visit(next);
    }
    if (world.decisions[index]) {
      World next = world;
      Learn(&next, 0, number);
      Visit(next);
    }
  }

  // --- members ---
  void MovesOfMember(const World& world, size_t i) {
    const Rank& rank = world.ranks[i];
    const auto& pending = rank.member.pending;
    if (i != 0 && rank.member.known < static_cast<int64_t>(world.proposals.size())) {
      World next = world;
      if (pending) {
        if (pending->phase != MemberPhase::kClosing) {
          Feed(&next, i, Settle{});
          Visit(next);
        }
      } else {
        const size_t index = static_cast<size_t>(rank.member.known);
        Feed(&next, i, Seen{world.proposals[index], world.decisions[index]});
        Visit(next);
      }
    }
    if (!pending) return;
    const size_t index = static_cast<size_t>(pending->proposal.number - 1);
    if (rank.read_step >= 0) {
      World next = world;
      FinishPrepare(&next, i);
      Visit(next);
    }
    if (pending->phase != MemberPhase::kPreparing) {
      World next = world;
      Feed(&next, i, MemberTick{rank.arriving, rank.begun});
      Visit(next);
    }
    if (pending->phase == MemberPhase::kVoting && !rank.vote_is_out) {
      World next = world;
      next.votes[index][i] = true;
      next.ranks[i].vote_is_out = true;
      Visit(next);
    }
    if (pending->phase == MemberPhase::kVoting && rank.vote_is_out) {
      World next = world;
      next.ranks[i].vote_is_out = false;
      Feed(&next, i, VoteWritten{pending->proposal.number});
      Visit(next);
    }
    if (pending->phase == MemberPhase::kClosing && !world.decisions[index]) {
      World next = world;
      next.decisions[index] = pending->closing;
      Visit(next);
    }
    const bool asks = pending->phase == MemberPhase::kVoted || pending->phase == MemberPhase::kClosing;
    if (asks && world.decisions[index]) {
      World next = world;
      Learn(&next, i, pending->proposal.number);
      Visit(next);
    }
  }

  // --- step threads and processes ---
  void MovesOfSteps(const World& world, size_t i) {
    const Rank& rank = world.ranks[i];
    if (rank.begun < rank.arriving) {
      if (rank.arriving < rank.gate) {
        World next = world;
        Begin(&next.ranks[i]);
        Visit(next);
      } else if (world.timeouts < limits_.timeouts) {
        World next = world;
        ++next.timeouts;
        next.ranks[i].doubted_gate = rank.gate;
        Begin(&next.ranks[i]);
        Visit(next);
      }
    } else if (rank.arriving < limits_.steps) {
      World next = world;
      Rank& stepping = next.ranks[i];
      ++stepping.arriving;
      if (stepping.arriving < stepping.gate || (stepping.in_doubt && stepping.gate == stepping.doubted_gate))
        Begin(&stepping);
      Visit(next);
    }
    if (i != 0 && world.restarts < limits_.restarts) {
      World next = world;
      ++next.restarts;
      Rank& again = next.ranks[i];
      const Rank before = again;
      again = Rank();
      again.member.rank = static_cast<int>(i);
      again.member.incarnation = "c";
      again.member.known = std::max<int64_t>(static_cast<int64_t>(world.proposals.size()) - 1, 0);
      again.arriving = again.begun = before.begun;
      again.plans = before.plans;
      again.is_new = true;
      Visit(next);
    }
  }
  static void Begin(Rank* rank) {
    rank->begun = rank->arriving;
    rank->in_doubt = rank->begun >= rank->gate;
    if (rank->slot != 0 && rank->slot_step <= rank->begun) rank->plan = std::exchange(rank->slot, 0);
    rank->plans.push_back(rank->in_doubt || (rank->is_new && rank->plan == 0) ? -1 : rank->plan);
  }

  // --- the machines ---
  static void Feed(World* world, const LeaderInput& input) {
    world->leader = Step(std::move(world->leader), input).state;
  }
  void Feed(World* world, size_t i, const MemberInput& input) {
    MemberTransition transition = Step(std::move(world->ranks[i].member), input);
    world->ranks[i].member = std::move(transition.state);
    for (const MemberAction& action : transition.actions)
      std::visit([&](const auto& each) { Act(world, i, each); }, action);
  }
  void Act(World* world, size_t i, const Prepare&) {
    world->ranks[i].read_step = world->ranks[i].arriving;  // and the building takes its time
  }
  void FinishPrepare(World* world, size_t i) {
    Rank& rank = world->ranks[i];
    rank.gate = rank.member.pending->proposal.at_step;
    const int64_t read_before = std::exchange(rank.read_step, -1);
    Feed(world, i, Prepared{std::nullopt, limits_.votes_before_gate ? read_before : rank.arriving});
  }
  void Act(World* world, size_t i, const Commit& action) {
    Rank& rank = world->ranks[i];
    commits_ = true;
    if (rank.slot != 0) fault_ = "a change was replaced in the slot";
    if (rank.begun >= action.proposal.at_step && !rank.in_doubt && world->timeouts == 0)
      fault_ = "a rank obeys a commit after its step, for which it set no gate";
    rank.slot = action.proposal.number;
    rank.slot_step = action.proposal.at_step;
    rank.gate = kNever;
  }
  void Act(World* world, size_t i, const Discard& action) {
    aborts_ = true;
    if (world->decisions[static_cast<size_t>(action.proposal.number - 1)]->commit)
      fault_ = "a commit was told as abort";
    world->ranks[i].gate = kNever;
  }
  void Learn(World* world, size_t i, int64_t number) {
    const Decision decision = *world->decisions[static_cast<size_t>(number - 1)];
    Feed(world, i, Learned{number, decision});
    if (i == 0) Feed(world, Decided{number, decision});
  }

  const Limits limits_;
  std::unordered_set<std::string> seen_;
  std::deque<World> queue_;
  std::string fault_;
  bool commits_ = false, aborts_ = false;
};

void CheckAll(const Limits& limits, size_t states_least) {
  Explorer explorer(limits);
  explorer.Run();
  CHECK(explorer.fault() == "");
  CHECK(explorer.commits());
  CHECK(explorer.aborts());
  CHECK(explorer.states() >= states_least);
}

TEST_CASE("in every order of events two ranks have the same plan at every step", "[slow]") {
  CheckAll({}, 10000);
}

TEST_CASE("in every order, with step threads that give up at the gate", "[slow]") {
  CheckAll({.timeouts = 1}, 10000);
}

TEST_CASE("in every order, with a rank that dies and comes back at any point", "[slow]") {
  CheckAll({.restarts = 1}, 10000);
}

TEST_CASE("in every order, with an edit that takes the place of another, or a second attempt", "[slow]") {
  CheckAll({.steps = 3, .proposals = 2, .edits = 2}, 10000);
}

TEST_CASE("the exploration finds the fault of a rank that reads its step before it sets the gate") {
  Explorer explorer({.votes_before_gate = true});
  explorer.Run();
  CHECK(explorer.fault() != "");
}

}  // namespace
}  // namespace stepwatch::agree
