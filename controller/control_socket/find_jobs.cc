#include "controller/control_socket/find_jobs.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <optional>

#include "src/base/file.h"
#include "src/sockets/runtime_directory.h"
#include "src/sockets/unix_listener.h"

namespace stepwatch::control_socket {
namespace {

// Maximum number of requests at one time; a directory with more sockets is queried in batches.
constexpr size_t kAskedAtOnceMax = 32;
constexpr size_t kEndingBytes = 5;  // ".sock"

struct Candidate {
  std::string path;
  std::string file_name;
  pid_t pid = 0;
  uid_t uid = 0;  // see FoundJob
};

// For a directory that this user may enter but not list.
std::vector<std::string> NamesToTry(const std::string& directory, base::FileSystem& files) {
  std::vector<std::string> names;
  const auto processes = base::ListDirectory("/proc", files);
  if (!processes.ok()) return names;
  for (const std::string& pid : processes.value()) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    struct stat about {};
    for (int number = 1;; ++number) {
      const std::string name = pid + "-" + std::to_string(number) + ".sock";
      if (files.Lstat(base::JoinPath(directory, name).c_str(), &about) != 0) break;
      names.push_back(name);
    }
  }
  return names;
}

std::vector<Candidate> SocketsIn(const std::string& directory, uid_t owner, base::FileSystem& files) {
  std::vector<Candidate> found;
  const auto listed = base::ListDirectory(directory, files);
  if (!listed.ok() && owner == ::geteuid()) return found;
  for (const std::string& name : listed.ok() ? listed.value() : NamesToTry(directory, files)) {
    const pid_t pid = sockets::PidOfSocketName(name);
    if (pid > 0) found.push_back({base::JoinPath(directory, name), name, pid, owner});
  }
  return found;
}

// The owner of the directory, or the reason why its sockets must not be used.
Result<uid_t> OwnerOf(const std::string& directory, const FindOptions& options) {
  const Status is_ours = sockets::CheckRuntimeDirectory(directory, ::geteuid(), *options.files);
  if (is_ours.ok()) return ::geteuid();
  const Result<uid_t> owner = sockets::OwnerOfRuntimeDirectory(directory, *options.files);
  return owner.ok() && (owner.value() == ::geteuid() || directory != options.named) ? is_ours : owner;
}

std::string NameOf(const Candidate& candidate) {
  return candidate.file_name.substr(0, candidate.file_name.size() - kEndingBytes);
}

// True for a socket that has not been moved to its final name yet.
bool IsTemporary(const Candidate& candidate) {
  return candidate.file_name.starts_with('.');
}

// Queries one socket. Nullopt: no job is there.
std::optional<FoundJob> Ask(const Candidate& candidate, const FindOptions& options) {
  base::FileSystem& files = *options.files;
  struct stat about {};
  if (files.Lstat(candidate.path.c_str(), &about) != 0 || !S_ISSOCK(about.st_mode)) return std::nullopt;
  if (sockets::RefusesConnections(candidate.path)) {
    if (about.st_uid == ::geteuid() && IsDead(candidate.pid)) (void)files.Unlink(candidate.path.c_str());
    return std::nullopt;
  }
  if (IsTemporary(candidate)) return std::nullopt;
  FoundJob job;
  job.name = NameOf(candidate);
  job.path = candidate.path;
  job.pid = candidate.pid;
  job.uid = candidate.uid;
  const Result<http::Reply> reply = ClientOf(job).Get("/v1/status", options.answer_time);
  if (!reply.ok())
    job.why = reply.status().message();
  else if (reply.value().status != 200)
    job.why = candidate.path + " has answered with status " + std::to_string(reply.value().status);
  else
    job.status = reply.value().body;
  return job;
}

// The sockets of all directories that this user may search.
std::vector<Candidate> CandidatesOf(const FindOptions& options) {
  std::vector<Candidate> candidates;
  for (const std::string& directory : options.directories) {
    const Result<uid_t> owner = OwnerOf(directory, options);
    if (!owner.ok()) continue;
    std::vector<Candidate> found = SocketsIn(directory, owner.value(), *options.files);
    candidates.insert(candidates.end(), found.begin(), found.end());
  }
  return candidates;
}

}  // namespace

std::vector<std::string> PassedOver(const FindOptions& options) {
  std::vector<std::string> reasons;
  for (const std::string& directory : options.directories) {
    struct stat about {};
    const Result<uid_t> owner = OwnerOf(directory, options);
    if (!owner.ok() && options.files->Lstat(directory.c_str(), &about) == 0)
      reasons.push_back(owner.status().message());
  }
  return reasons;
}

bool IsDead(pid_t pid) {
  const base::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.valid()) {
    pollfd ended{process.get(), POLLIN, 0};  // readable once the process has ended, also as a zombie
    return ::poll(&ended, 1, 0) > 0;
  }
  if (errno == ESRCH) return true;
  return errno == ENOSYS && ::kill(pid, 0) != 0 && errno == ESRCH;
}

std::vector<FoundSocket> FindSockets(const FindOptions& options) {
  std::vector<FoundSocket> sockets;
  for (const Candidate& candidate : CandidatesOf(options)) {
    struct stat about {};
    if (IsTemporary(candidate) || options.files->Lstat(candidate.path.c_str(), &about) != 0 || !S_ISSOCK(about.st_mode))
      continue;
    sockets.push_back({NameOf(candidate), candidate.path, candidate.pid, candidate.uid, about.st_ino});
  }
  return sockets;
}

std::vector<FoundJob> FindJobs(const FindOptions& options) {
  const std::vector<Candidate> candidates = CandidatesOf(options);
  std::vector<FoundJob> jobs;
  for (size_t begin = 0; begin < candidates.size(); begin += kAskedAtOnceMax) {
    std::vector<std::future<std::optional<FoundJob>>> answers;
    const size_t end = std::min(candidates.size(), begin + kAskedAtOnceMax);
    for (size_t i = begin; i < end; ++i) {
      // The last one runs on this thread, so a single job needs no other thread.
      const std::launch policy = i + 1 < end ? std::launch::async : std::launch::deferred;
      answers.push_back(std::async(policy, [&options, &candidate = candidates[i]] { return Ask(candidate, options); }));
    }
    answers.back().wait();
    for (auto& answer : answers)
      if (std::optional<FoundJob> job = answer.get()) jobs.push_back(std::move(*job));
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const FoundJob& a, const FoundJob& b) { return a.pid < b.pid; });
  return jobs;
}

Result<std::optional<FoundJob>> FindJobAt(const std::string& path, const FindOptions& options) {
  const std::string directory = base::DirectoryOf(path), name = base::BaseName(path);
  const pid_t pid = sockets::PidOfSocketName(name);
  if (pid <= 0) return std::optional<FoundJob>();
  FindOptions named = options;
  named.named = directory;
  const Result<uid_t> owner = OwnerOf(directory, named);
  if (!owner.ok()) return owner.status();
  return Ask({path, name, pid, owner.value()}, named);
}

}  // namespace stepwatch::control_socket
