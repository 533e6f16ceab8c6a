// A number of bytes that many share, so that all of them together hold no more.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace stepwatch::base {

// Of one thread. A copy is the same room.
class ByteRoom {
 public:
  // Gives its bytes back when it goes. May outlive the room.
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
  // Nothing: that much is not left.
  std::optional<Share> Take(size_t bytes) {
    if (bytes > *left_) return std::nullopt;
    return Share(left_, bytes);
  }

 private:
  std::shared_ptr<size_t> left_;
};

}  // namespace stepwatch::base
