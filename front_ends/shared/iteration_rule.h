// Decides from the updates of optimizers when an iteration of a training loop ends. Pure: no clock, no I/O.
//
// An iteration ends when each optimizer has updated, in any order; further updates before that belong to the same
// iteration. An optimizer that is absent while another updates for the eighth time is left out of the rule until it
// updates again. For one that is always that late, the rule waits twice as long as its last two absences. If others
// update all parameters of an optimizer, it takes turns with them (one for the first epochs, another for the rest), and
// is left out when one of them updates for the second time.
//
// The program may decide instead: one optimizer ends iterations (NameClock), or explicit calls do (EndByHand).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stepwatch::front_end {

class IterationRule {
 public:
  using Member = uint32_t;

  // Adds an optimizer to the rule. Numbers count from 0 and are never reused.
  Member Add();
  void Remove(Member member) noexcept;
  // True if others update all its parameters.
  void SetTakesTurns(Member member, bool takes_turns) noexcept;
  // Iterations end without this optimizer until it updates again.
  void LeaveOut(Member member) noexcept { members_[member].is_waited_for = false; }
  // From now on only the updates of this optimizer end iterations.
  void NameClock(Member member) noexcept { clock_ = member; }
  // From now on updates end no iteration.
  void LeaveToProgram() noexcept { is_by_hand_ = true; }

  // Records an update, or one that a gradient scaler skipped. Returns whether it ends an iteration. Allocates when an
  // optimizer is left out for the first time, and throws only std::bad_alloc.
  bool Updated(Member member);
  // Returns the optimizers that were left out for the first time since the last call.
  std::vector<Member> TakeLeftOut() noexcept { return std::exchange(left_out_, {}); }
  // The program ends an iteration by a call; from the first call on, only such calls do. False if the last update has
  // already ended the iteration of this first call.
  bool EndByHand() noexcept;

 private:
  struct State {
    bool is_there = true;
    bool is_waited_for = true;
    bool takes_turns = false;
    bool was_left_out = false;
    uint32_t updates = 0;  // in this iteration
    uint32_t absence = 0;  // updates of the busiest other optimizer in iterations since its own last update
    uint32_t last_absences[2] = {0, 0};
    uint64_t last_update = 0;
    size_t order = 0;  // of its last update among all updates of the last iteration in which it took part
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
  bool was_ended_by_update_ = false;  // and no update has come since

  static constexpr Member kNoMember = UINT32_MAX;
};

}  // namespace stepwatch::front_end
