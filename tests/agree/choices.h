// Every sequence of choices, one after the other: a test that asks Below() whenever it could go several ways, and
// begins anew for every path, has gone all ways when Begin() says that none is left.
#pragma once

#include <cstddef>
#include <vector>

namespace stepwatch::agree {

class Choices {
 public:
  // The next path: as the one before it up to the last choice that has an alternative left.
  bool Begin() {
    position_ = 0;
    if (is_first_) {
      is_first_ = false;
      return true;
    }
    while (!path_.empty() && path_.back().value + 1 == path_.back().bound) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().value;
    return true;
  }
  // 0 ... bound - 1. On one path the bounds depend on nothing but the choices before them.
  size_t Below(size_t bound) {
    if (position_ == path_.size()) path_.push_back({0, bound});
    return path_[position_++].value;
  }
  // All that follows is met for the first time on this way.
  bool is_beyond_the_path_before() const { return position_ >= path_.size(); }

 private:
  struct Choice {
    size_t value, bound;
  };
  std::vector<Choice> path_;
  size_t position_ = 0;
  bool is_first_ = true;
};

}  // namespace stepwatch::agree
