// Descriptors that a forked child does not keep.
//
// A child inherits every descriptor of its parent, so an inherited socket looks alive after the parent is dead.
// pthread_atfork closes these in the child before other code of it runs. A fork waits while one of them is being
// created or closed, so that none is missed.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace stepwatch::base {

class UnforkedFd {
 public:
  // Per process and at one time; one more fails with EMFILE.
  static constexpr size_t kCountMax = 1024;

  UnforkedFd() = default;
  UnforkedFd(UnforkedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UnforkedFd& operator=(UnforkedFd&& other) noexcept;
  ~UnforkedFd() { Reset(); }

  // Any thread. `make` returns a new descriptor, or -1 and errno, which are passed to the caller. It must not block.
  static UnforkedFd Make(const std::function<int()>& make);

  // The number in this process now.
  static size_t Count();

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void Reset();

 private:
  int fd_ = -1;
};

}  // namespace stepwatch::base
