// A process of another user of the machine.
#pragma once

#include <grp.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::testing {

constexpr uid_t kOtherUser = 54321;

// Only root can become another user.
inline bool CanBecomeAnother() {
  if (::geteuid() == 0) return true;
  const char* all = std::getenv("STEPWATCH_REQUIRE_ALL");
  if (all != nullptr && *all != '\0' && std::string(all) != "0") FAIL("needs root, and STEPWATCH_REQUIRE_ALL is set");
  WARN("skipped: needs root");
  return false;
}

// The text that `work` returns in a process of the other user.
inline std::string AsOtherUser(const std::vector<gid_t>& groups, const std::function<std::string()>& work) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_other = ::setgroups(groups.size(), groups.data()) == 0 &&
                          ::setresgid(kOtherUser, kOtherUser, kOtherUser) == 0 &&
                          ::setresuid(kOtherUser, kOtherUser, kOtherUser) == 0;
    const std::string result = is_other ? work() : "could not become another user";
    (void)!::write(ends[1], result.data(), result.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t got; (got = ::read(ends[0], bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(got));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}
inline bool HoldsForOtherUser(const std::function<bool()>& condition) {
  return AsOtherUser({}, [&] { return condition() ? "yes" : "no"; }) == "yes";
}

}  // namespace stepwatch::testing
