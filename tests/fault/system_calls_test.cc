// Every call on files in the life of a job fails once, with each errno that it may have: the trainer runs on, one event
// reports the trouble, no row is lost and the next good edit works.
#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>

#include "src/base/file.h"
#include "tests/fault/job_life.h"
#include "tests/rounds.h"

namespace stepwatch::testing {
namespace {

// Lives spend their time waiting, so many are lived at the same time.
constexpr size_t kLivesAtOnce = 12;

const std::map<std::string, std::vector<int>>& Errors() {
  static const std::map<std::string, std::vector<int>> errors{
      {"open", {EMFILE, EINTR, ENOSPC, EACCES, EIO, ENFILE, ENOMEM, EROFS, ESTALE}},
      {"close", {EIO, ENOSPC, EINTR, EDQUOT}},
      {"pread", {EIO, EINTR, ESTALE}},
      {"write", {ENOSPC, EIO, EINTR, EDQUOT, EFBIG}},
      {"pwrite", {ENOSPC, EIO, EINTR, EDQUOT}},
      {"ftruncate", {EIO, EINTR, EPERM}},
      {"fallocate", {EOPNOTSUPP, ENOSPC, EINTR, EIO}},
      {"fsync", {EIO, ENOSPC, EINTR, EINVAL}},
      {"stat", {EIO, EACCES, EINTR, ESTALE, ENOMEM}},
      {"lstat", {EIO, EACCES, EINTR, ESTALE, ENOMEM}},
      {"fstat", {EIO, ESTALE, EINTR}},
      {"faccessat", {EIO, EINTR, ESTALE}},
      {"fchown", {EPERM, EIO, EINTR}},
      {"fchmod", {EPERM, EIO, EINTR}},
      {"chmod", {EPERM, EIO, EINTR}},
      {"flistxattr", {EOPNOTSUPP, EIO}},
      {"fgetxattr", {ENODATA, EIO}},
      {"fsetxattr", {ENOSPC, EOPNOTSUPP, EPERM}},
      {"F_SETLEASE", {EAGAIN, EACCES, EINVAL, ENOMEM}},
      {"F_UNLCK", {EAGAIN, EINVAL}},
      {"F_GETLEASE", {EINVAL}},
      {"flock", {ENOLCK, EINTR, EWOULDBLOCK}},
      {"LOCK_UN", {EINTR, ENOLCK}},
      {"rename", {EIO, EACCES, ENOSPC, EBUSY, EROFS, EINTR}},
      {"renameat2", {EIO, EINVAL, ENOSYS, EBUSY, ENOSPC, EINTR}},
      {"link", {EPERM, EMLINK, EIO}},
      {"unlink", {EIO, EBUSY, EACCES, EROFS}},
      {"readlink", {EIO, EINVAL, EACCES}},
      {"realpath", {EIO, EACCES, ENOMEM, ENOENT}},
      {"getcwd", {ENOENT, EACCES, ENOMEM}},
      {"mkdir", {ENOSPC, EACCES, EROFS, EINTR, EMLINK}},
      {"mkdtemp", {ENOSPC, EACCES}},
      {"rmdir", {EBUSY, EACCES}},
      {"opendir", {EMFILE, EACCES, EIO}},
      {"inotify_add_watch", {ENOSPC, ENOMEM, EACCES, EINTR}},
  };
  return errors;
}

// A process that lives with a fault and reports at the end what went wrong.
class Child {
 public:
  explicit Child(CallFault fault, const std::function<std::string(const CallFault&)>& live) : fault_(std::move(fault)) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    std::fflush(nullptr);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      std::string report;
      try {
        report = live(fault_);
      } catch (const std::exception& error) {
        report = std::string("threw: ") + error.what();
      } catch (...) {
        report = "threw";
      }
      for (size_t put = 0; put < report.size();)
        put += static_cast<size_t>(::write(ends[1], report.data() + put, report.size() - put));
      ::_exit(0);
    }
    ::close(ends[1]);
    pipe_ = base::UniqueFd(ends[0]);
  }

  // Waits for its end.
  std::string Report() {
    std::string report;
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(pipe_.get(), bytes, sizeof bytes)) > 0;)
      report.append(bytes, static_cast<size_t>(got));
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_ || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      report += " it died: " + std::to_string(status);
    return report;
  }
  int fd() const { return pipe_.get(); }
  const CallFault& fault() const { return fault_; }

 private:
  CallFault fault_;
  pid_t pid_ = -1;
  base::UniqueFd pipe_;
};

// How often each call is made in a life without a fault.
std::map<std::string, int> CallsOfOneLife() {
  Child life(CallFault(), [](const CallFault& none) {
    JobLife job(none);
    const std::string trouble = job.Play();
    std::ostringstream text;
    if (!trouble.empty()) text << "! " << trouble;
    for (const auto& [name, count] : job.calls()) text << count << name << "\n";
    return text.str();
  });
  const std::string report = life.Report();
  INFO(report);
  REQUIRE_FALSE(report.empty());
  REQUIRE(report[0] != '!');
  std::map<std::string, int> calls;
  std::istringstream text(report);
  std::string name;
  for (int count = 0; text >> count && std::getline(text, name);) calls[name] = count;
  return calls;
}

std::string Play(const CallFault& fault) {
  return JobLife(fault).Play();
}

// How each life went wrong that did.
std::string LiveThrough(const std::vector<CallFault>& faults) {
  std::vector<Child> living;
  std::string wrong;
  for (size_t next = 0; next < faults.size() || !living.empty();) {
    if (next < faults.size() && living.size() < kLivesAtOnce) {
      living.emplace_back(faults[next++], Play);
      continue;
    }
    std::vector<pollfd> ends;
    for (const Child& child : living) ends.push_back({child.fd(), POLLIN, 0});
    REQUIRE(::poll(ends.data(), ends.size(), -1) > 0);
    for (size_t i = ends.size(); i-- > 0;) {
      if (ends[i].revents == 0) continue;
      const CallFault& fault = living[i].fault();
      if (const std::string report = living[i].Report(); !report.empty())
        wrong += fmt::format("\n{} {} answers {}: {}", fault.name, fault.number,
                             fault.name == kHangs ? "late" : std::strerror(fault.error_number), report);
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return wrong;
}

// All errors of each call; under a sanitizer some of them, others for each call of a name.
std::vector<CallFault> Faults() {
  std::vector<CallFault> faults;
  for (const auto& [name, count] : CallsOfOneLife()) {
    if (name == kHangs) continue;
    INFO(name);
    const auto errors = Errors().find(name);
    REQUIRE(errors != Errors().end());
    const size_t kinds = errors->second.size();
    const size_t every = Every(9, kinds);
    for (int number = 0; number < count; ++number)
      for (size_t i = static_cast<size_t>(number) % every; i < kinds; i += every)
        faults.push_back({name, number, errors->second[i]});
  }
  return faults;
}

TEST_CASE("each call on files in the life of a job fails once with every errno that it may have", "[slow]") {
  CHECK(LiveThrough(Faults()) == "");
}

TEST_CASE("while any call on the config hangs the control socket answers and steps end, and afterwards edits work",
          "[slow]") {
  std::vector<CallFault> hangs;
  const int count = CallsOfOneLife().at(kHangs);
  for (int number = 0; number < count; number += Every(4)) hangs.push_back({kHangs, number, 0});
  REQUIRE(count > 20);
  CHECK(LiveThrough(hangs) == "");
}

}  // namespace
}  // namespace stepwatch::testing
