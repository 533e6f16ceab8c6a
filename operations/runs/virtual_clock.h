// Time that never falls, made of an observer's wall clock that may be set.
#pragma once

#include <limits>

namespace stepwatch::operations {

// Virtual seconds begin with the first `t`, or at the earliest time that is set, and pass as the wall clock's do,
// except for what it was set by.
class VirtualClock {
 public:
  // Before it begins: a first `t` of before is seen then.
  void SetEarliest(double t) { earliest_ = t; }
  // Virtual time at which a line of time `t` is seen: not before now. A `t` that has passed already is seen now.
  double At(double t) const;
  // Time passes to a virtual time not before now.
  void Advance(double now);
  // Applies a line of time `t` to the clock, after Advance(At(t)).
  void See(double t);
  // The wall clock was set by `seconds`, and `t` is the time of the line that reports it, which is in either clock:
  // that is taken by which less time has passed, or fallen.
  void Set(double t, double seconds);

  double now() const { return now_; }
  bool begun() const { return begun_; }
  // In the wall clock of now.
  double WallAt(double virtual_time) const { return wall_ + (virtual_time - now_); }

 private:
  double earliest_ = std::numeric_limits<double>::lowest();
  bool begun_ = false;
  double now_ = 0;
  double wall_ = 0;  // the wall clock, at `now_`
};

}  // namespace stepwatch::operations
