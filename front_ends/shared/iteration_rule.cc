#include "front_ends/shared/iteration_rule.h"

#include <algorithm>
#include <utility>

namespace stepwatch::front_end {

namespace {

constexpr uint32_t kPatience = 8;
constexpr uint32_t kPatienceInTurns = 2;
constexpr uint32_t kCountMax = 1u << 20;  // of updates, so that a sum of two cannot overflow

}  // namespace

IterationRule::Member IterationRule::Add() {
  const size_t position = members_.size();
  members_.emplace_back();
  members_.back().order = position;  // until its first update
  return static_cast<Member>(position);
}

void IterationRule::Remove(Member member) noexcept {
  members_[member].is_there = members_[member].is_waited_for = false;
  if (clock_ == member) clock_ = kNoMember;
}

void IterationRule::SetTakesTurns(Member member, bool takes_turns) noexcept {
  members_[member].takes_turns = takes_turns;
}

bool IterationRule::Updated(Member member) {
  State& own = members_[member];
  was_ended_by_update_ = false;
  // The last optimizer of a loop comes back when the iteration of its update has just ended without it.
  const bool comes_late = !own.is_waited_for && !own.takes_turns && EndsLoop(member);
  if (own.updates == 0) {
    own.last_absences[0] = own.last_absences[1];
    own.last_absences[1] = std::min(own.absence + BusiestBeside(member), kCountMax);
    own.absence = 0;
  }
  own.is_waited_for = own.is_there;
  own.last_update = ++updates_;
  if (!comes_late) own.updates = std::min(own.updates + 1, kCountMax);
  if (is_by_hand_) return false;
  bool ends_iteration = member == clock_;
  if (clock_ == kNoMember) {
    bool any_left_out = false;
    for (Member other = 0; other < members_.size(); ++other) {
      State& late = members_[other];
      if (!late.is_waited_for || late.updates > 0 || own.updates < PatienceFor(late)) continue;
      if (!std::exchange(late.was_left_out, true)) left_out_.push_back(other);
      late.is_waited_for = false;
      any_left_out = true;
    }
    // The iteration ends with the last of the remaining optimizers, which have repeated their order several times.
    if (any_left_out)
      for (State& other : members_)
        if (other.is_waited_for && other.order > own.order) other.updates = 0;
    ends_iteration = AllHaveUpdated();
  }
  if (ends_iteration) Begin();
  was_ended_by_update_ = ends_iteration;
  return ends_iteration;
}

bool IterationRule::EndByHand() noexcept {
  const bool is_first = !is_by_hand_;
  is_by_hand_ = true;
  Begin();
  return !(is_first && was_ended_by_update_);
}

uint32_t IterationRule::BusiestBeside(Member member) const noexcept {
  uint32_t most = 0;
  for (Member other = 0; other < members_.size(); ++other)
    if (other != member) most = std::max(most, members_[other].updates);
  return most;
}

uint32_t IterationRule::PatienceFor(const State& state) const noexcept {
  const uint32_t usual = std::min(state.last_absences[0], state.last_absences[1]);
  return std::max(state.takes_turns ? kPatienceInTurns : kPatience, 2 * usual);
}

// True if an iteration begins and this update is its first.
bool IterationRule::EndsLoop(Member member) const noexcept {
  bool any = false;
  for (Member other = 0; other < members_.size(); ++other) {
    const State& state = members_[other];
    if (other == member || !state.is_waited_for) continue;
    if (state.updates > 0 || state.order >= members_[member].order) return false;
    any = true;
  }
  return any;
}

bool IterationRule::AllHaveUpdated() const noexcept {
  return std::all_of(members_.begin(), members_.end(),
                     [](const State& state) { return !state.is_waited_for || state.updates > 0; });
}

void IterationRule::Begin() noexcept {
  for (Member member = 0; member < members_.size(); ++member) {
    State& state = members_[member];
    if (state.updates == 0) {
      state.absence = std::min(state.absence + BusiestBeside(member), kCountMax);
      continue;
    }
    state.order = static_cast<size_t>(std::count_if(members_.begin(), members_.end(), [&](const State& other) {
      return other.updates > 0 && other.last_update < state.last_update;
    }));
  }
  for (State& state : members_) state.updates = 0;
}

}  // namespace stepwatch::front_end
