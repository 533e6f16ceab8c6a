// A queue that allocates room for items in advance, so that adding them cannot fail for lack of memory.
#pragma once

#include <cstddef>
#include <list>
#include <utility>

namespace stepwatch::drain {

template <class T>
class PreparedQueue {
 public:
  // After this, `count` calls of Push do not allocate. Throws std::bad_alloc without visible effect.
  void MakeRoom(size_t count = 1) {
    while (spare_.size() < count) spare_.emplace_back();
  }
  std::list<T>& rooms() { return spare_; }
  bool has_room() const { return !spare_.empty(); }
  // A prepared item to fill in place. Only if has_room().
  T& room() { return spare_.front(); }
  void Push() noexcept { items_.splice(items_.end(), spare_, spare_.begin()); }
  void Push(T item) {
    MakeRoom();
    room() = std::move(item);
    Push();
  }

  bool empty() const { return items_.empty(); }
  T& front() { return items_.front(); }
  const T& front() const { return items_.front(); }
  void pop_front() { items_.pop_front(); }
  auto begin() { return items_.begin(); }
  auto begin() const { return items_.begin(); }
  auto end() { return items_.end(); }
  auto end() const { return items_.end(); }

 private:
  std::list<T> items_;
  std::list<T> spare_;
};

}  // namespace stepwatch::drain
