// When an iteration of a training loop is over, told from the updates of its optimizers. Pure: no clock, no I/O.
//
// An iteration ends when each optimizer has updated, in whatever order; one that updates again before that does more in
// the same iteration. One that sits out while another updates for the eighth time is left out of the rule, and takes
// part again when it updates. One that is always that late is waited for twice as long as it was late the last two
// times. If others update all that an optimizer updates, it takes turns with them (one for the first epochs, another
// one for the rest), and is left out when one of them updates for the second time.
//
// The program may decide instead: one optimizer ends iterations (NameClock), or a call of its own does (EndByHand).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stepwatch::front_end {

class IterationRule {
 public:
  using Member = uint32_t;

  // Adds an optimizer, which takes part from now on. Members are numbered from 0 and never again.
  Member Add();
  void Remove(Member member) noexcept;
  // Whether others update all that it updates.
  void SetTakesTurns(Member member, bool takes_turns) noexcept;
  // Iterations end without it until it updates again.
  void LeaveOut(Member member) noexcept { members_[member].is_waited_for = false; }
  // From now on its updates alone end iterations.
  void NameClock(Member member) noexcept { clock_ = member; }
  // From now on no update ends one.
  void LeaveToProgram() noexcept { is_by_hand_ = true; }

  // An optimizer has updated, or a gradient scaler has left its update out. Returns whether that ends an iteration.
  // Allocates where one is left out for the first time, and throws std::bad_alloc at most.
  bool Updated(Member member);
  // Returns those that were left out for the first time since the last call.
  std::vector<Member> TakeLeftOut() noexcept { return std::exchange(left_out_, {}); }
  // The program ends an iteration by a call, and is the only one to do so from the first such call on. False if this
  // first one comes for an iteration that the last update has ended already.
  bool EndByHand() noexcept;

 private:
  struct State {
    bool is_there = true;
    bool is_waited_for = true;
    bool takes_turns = false;
    bool was_left_out = false;
    uint32_t updates = 0;  // in this iteration
    uint32_t absence = 0;  // updates of the busiest other one in the iterations since its own last
    uint32_t last_absences[2] = {0, 0};
    uint64_t last_update = 0;
    size_t order = 0;  // of its last update among those of others in the last iteration in which it took part
  };

  uint32_t BusiestBeside(Member member) const noexcept;
  uint32_t PatienceFor(const State& state) const noexcept;
  bool EndsLoop(Member member) const noexcept;
  bool AllHaveUpdated() const noexcept;
  void Begin() noexcept;

  std::vector<State> members_;
  std::vector<Member> left_out_;
  uint64_t updates_ = 0;
  Member clock_ = kNoMember;
  bool is_by_hand_ = false;
  bool was_ended_by_update_ = false;  // and nobody has updated since

  static constexpr Member kNoMember = UINT32_MAX;
};

}  // namespace stepwatch::front_end
