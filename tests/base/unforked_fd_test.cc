#include "src/base/unforked_fd.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/rounds.h"

namespace stepwatch::base {
namespace {

UnforkedFd OpenNull() {
  return UnforkedFd::Make([] { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); });
}

bool IsOpen(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

// Runs `work` in a forked child; its exit code.
template <class Work>
int InChild(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("a forked child does not have the descriptor, and its parent keeps it") {
  const UnforkedFd fd = OpenNull();
  REQUIRE(fd.valid());
  CHECK(InChild([&] { return IsOpen(fd.get()) ? 1 : 0; }) == 0);
  CHECK(IsOpen(fd.get()));
}

TEST_CASE("a child that lets go of what it never had closes no file of its own") {
  UnforkedFd fd = OpenNull();
  const int number = fd.get();
  CHECK(InChild([&] {
          if (::open("/dev/null", O_RDONLY) != number) return 2;
          fd.Reset();
          return IsOpen(number) ? 0 : 1;
        }) == 0);
}

TEST_CASE("a child makes descriptors of its own, which its own children do not have") {
  const UnforkedFd fd = OpenNull();
  CHECK(InChild([] {
          const UnforkedFd own = OpenNull();
          const pid_t child = ::fork();
          if (child == 0) ::_exit(IsOpen(own.get()) ? 1 : 0);
          int status = 0;
          ::waitpid(child, &status, 0);
          return own.valid() && IsOpen(own.get()) ? WEXITSTATUS(status) : 2;
        }) == 0);
}

TEST_CASE("a descriptor that cannot be made is an error with the reason, and one too many is refused") {
  const UnforkedFd none = UnforkedFd::Make([] { return ::open("/nowhere/at/all", O_RDONLY); });
  CHECK_FALSE(none.valid());
  CHECK(errno == ENOENT);
  const UnforkedFd null = OpenNull();
  std::vector<UnforkedFd> many;
  for (size_t i = 1; i < UnforkedFd::kCountMax; ++i) many.push_back(OpenNull());
  CHECK(many.back().valid());
  bool was_called = false;
  CHECK_FALSE(UnforkedFd::Make([&] { return was_called = true, -1; }).valid());
  CHECK(errno == EMFILE);
  CHECK_FALSE(was_called);
}

TEST_CASE("forks and descriptors that come and go at the same time leave none in a child") {
  std::atomic<bool> ends{false};
  std::thread maker([&] {
    while (!ends) {
      const UnforkedFd fd = UnforkedFd::Make([] { return ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC); });
    }
  });
  const UnforkedFd null = OpenNull();
  for (int i = 0; i < testing::Rounds(50, 4); ++i)
    CHECK(InChild([&] {
            for (int fd = 3; fd < 64; ++fd) {
              char name[64] = {}, target[64] = {};
              ::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
              if (::readlink(name, target, sizeof target - 1) > 0 &&
                  std::string(target).find("/mem") != std::string::npos)
                return 1;
            }
            return 0;
          }) == 0);
  ends = true;
  maker.join();
}

}  // namespace
}  // namespace stepwatch::base
