// Recognises what was seen before, among the last some thousand ids. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <unordered_set>

namespace stepwatch::operations {

class Repeats {
 public:
  static constexpr size_t kIdsMax = 200'000;  // some 10 MB

  // True: it is among the ids of the last calls.
  bool IsRepeated(std::string_view id) {
    const size_t hash = std::hash<std::string_view>()(id);
    if (!known_.insert(hash).second) return true;
    order_.push_back(hash);
    if (order_.size() > kIdsMax) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    return false;
  }

 private:
  std::unordered_set<size_t> known_;
  std::deque<size_t> order_;
};

}  // namespace stepwatch::operations
