#include "src/base/unforked_fd.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

namespace stepwatch::base {
namespace {

// One per process, like pthread_atfork. Never destroyed: a thread of the monitor may outlive main.
struct Registry {
  std::mutex mutex;  // held over a fork
  std::array<int, UnforkedFd::kCountMax> descriptors;
};

Registry& TheRegistry();

void BeforeFork() {
  TheRegistry().mutex.lock();
}
void AfterForkInParent() {
  TheRegistry().mutex.unlock();
}
void AfterForkInChild() {
  for (int& fd : TheRegistry().descriptors)
    if (fd >= 0) ::close(std::exchange(fd, -1));
  TheRegistry().mutex.unlock();
}

Registry& TheRegistry() {
  static Registry& registry = [&]() -> Registry& {
    auto* made = new Registry;
    made->descriptors.fill(-1);
    return *made;
  }();
  return registry;
}

void WatchForks() {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)TheRegistry();
    (void)::pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  });
}

}  // namespace

UnforkedFd& UnforkedFd::operator=(UnforkedFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

UnforkedFd UnforkedFd::Make(const std::function<int()>& make) {
  WatchForks();
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto place = std::find(registry.descriptors.begin(), registry.descriptors.end(), -1);
  UnforkedFd made;
  if (place == registry.descriptors.end()) {
    errno = EMFILE;
    return made;
  }
  made.fd_ = make();
  if (made.valid()) *place = made.fd_;
  return made;
}

size_t UnforkedFd::Count() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  return static_cast<size_t>(
      std::count_if(registry.descriptors.begin(), registry.descriptors.end(), [](int fd) { return fd >= 0; }));
}

void UnforkedFd::Reset() {
  if (!valid()) return;
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const int fd = std::exchange(fd_, -1);
  // A forked child has closed it already, and the number may name another file there.
  const auto place = std::find(registry.descriptors.begin(), registry.descriptors.end(), fd);
  if (place == registry.descriptors.end()) return;
  *place = -1;
  ::close(fd);
}

}  // namespace stepwatch::base
