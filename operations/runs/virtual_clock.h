// Time that never decreases, derived from an observer's wall clock, which may be set.
#pragma once

#include <limits>

namespace stepwatch::operations {

// Virtual seconds begin with the first `t`, or at the earliest time that is set, and pass like those of the wall clock,
// except for the amounts by which it was set.
class VirtualClock {
 public:
  // Before time begins: an earlier first `t` counts as this one.
  void SetEarliest(double t) { earliest_ = t; }
  // Virtual time at which a line of time `t` is seen: not before now. A `t` in the past is seen now.
  double At(double t) const;
  // Advances time to a virtual time not before now.
  void Advance(double now);
  // Applies a line of time `t` to the clock, after Advance(At(t)).
  void See(double t);
  // The wall clock was set by `seconds`, and `t` is the time of the line that reports it, in the old or the new clock:
  // the one by which less time has passed, or fallen, is used.
  void Set(double t, double seconds);

  double now() const { return now_; }
  bool begun() const { return begun_; }
  // In the present wall clock.
  double WallAt(double virtual_time) const { return wall_ + (virtual_time - now_); }

 private:
  double earliest_ = std::numeric_limits<double>::lowest();
  bool begun_ = false;
  double now_ = 0;
  double wall_ = 0;  // the wall clock at `now_`
};

}  // namespace stepwatch::operations
