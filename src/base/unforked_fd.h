// Descriptors that a forked child does not keep.
//
// A child inherits every descriptor of its parent, and a socket that it holds looks alive when the parent is dead.
// pthread_atfork closes these in the child before anything else of it runs. A fork waits while one of them is made or
// closed, so that none slips through.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace stepwatch::base {

class UnforkedFd {
 public:
  // At one time in a process; one more is refused with EMFILE.
  static constexpr size_t kCountMax = 1024;

  UnforkedFd() = default;
  UnforkedFd(UnforkedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UnforkedFd& operator=(UnforkedFd&& other) noexcept;
  ~UnforkedFd() { Reset(); }

  // Any thread. `make` returns a new descriptor, or -1 and errno, which stay as they are for the caller. It must not
  // wait for anything.
  static UnforkedFd Make(const std::function<int()>& make);

  // How many there are in this process now.
  static size_t Count();

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void Reset();

 private:
  int fd_ = -1;
};

}  // namespace stepwatch::base
