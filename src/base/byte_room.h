// A byte budget shared by several owners, so that all of them together stay within it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace stepwatch::base {

// Not thread-safe. Copies share the budget.
class ByteRoom {
 public:
  // Returns its bytes when destroyed. May outlive the room.
  class Share {
   public:
    Share(Share&& other) noexcept : left_(std::move(other.left_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(left_, other.left_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (left_) *left_ += bytes_;
    }

   private:
    friend class ByteRoom;
    Share(std::shared_ptr<size_t> left, size_t bytes) : left_(std::move(left)), bytes_(bytes) { *left_ -= bytes_; }

    std::shared_ptr<size_t> left_;
    size_t bytes_;
  };

  explicit ByteRoom(size_t bytes) : left_(std::make_shared<size_t>(bytes)) {}
  // nullopt if fewer bytes are left.
  std::optional<Share> Take(size_t bytes) {
    if (bytes > *left_) return std::nullopt;
    return Share(left_, bytes);
  }

 private:
  std::shared_ptr<size_t> left_;
};

}  // namespace stepwatch::base
