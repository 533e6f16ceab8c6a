// Every sequence of choices, one after the other: a test that calls Below() whenever it could go several ways, and
// begins anew for every path, has gone all ways when Begin() returns false.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace stepwatch::agree {

class Choices {
 public:
  // The next path: as the one before it up to the last choice that has an alternative left.
  bool Begin() { return std::exchange(is_first_, false) || Retry(0); }
  // 0 ... bound - 1. On one path the bounds depend on nothing but the choices before them.
  size_t Below(size_t bound) {
    if (position_ == path_.size()) path_.push_back({0, bound});
    return path_[position_++].value;
  }
  size_t position() const { return position_; }
  // Choices of this path that are still made as on the path before it, but for the last of them.
  size_t left() const { return path_.size() - position_; }
  // The choices from `position` on led back to the place where they were made: takes the next alternative at once,
  // without a new beginning. False: there is none.
  bool Retry(size_t position) {
    position_ = position;
    while (path_.size() > position && path_.back().value + 1 == path_.back().bound) path_.pop_back();
    if (path_.size() == position) return false;
    ++path_.back().value;
    return true;
  }

 private:
  struct Choice {
    size_t value, bound;
  };
  std::vector<Choice> path_;
  size_t position_ = 0;
  bool is_first_ = true;
};

}  // namespace stepwatch::agree
