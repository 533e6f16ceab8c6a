// Finds the jobs of this machine and reports their state as lines.
//
// Searches for control sockets once a second. The pulse of each job is read four times a second, at no cost to the job;
// its beats are requested once a second while its pulse changes. The end of a process is reported at once, by its
// pidfd. A job that hangs, vanishes or sends garbage is queried ever less often, and delays no other job. A control
// socket that does not answer is no sign that its process is gone: the rank stays silent until another source reports
// the end. A process that was found stays known until it ends, across restarts of stepwatchd.
//
// Lives on the loop's thread; nothing blocks it: directories, pulses and stacks have threads of their own.
#pragma once

#include <sys/eventfd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "controller/watch/timer.h"
#include "operations/discovery/host_lines.h"
#include "operations/discovery/known_processes.h"
#include "operations/discovery/left_ends.h"
#include "operations/discovery/metrics_fetch.h"
#include "operations/discovery/watched_job.h"
#include "operations/witness/collect_stacks.h"
#include "src/base/file.h"
#include "src/base/io_executor.h"
#include "src/base/retry.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

struct DiscoveryOptions {
  std::vector<std::string> directories;  // of this user: see sockets::RuntimeDirectories
  std::vector<std::string> named;        // of other users, as a service of a group that may read their jobs
  std::string host;                      // name of this machine in lines
  StackTools stacks;
  bool collects_stacks = true;  // also before an incident, of processes that have just stopped making steps
  size_t jobs_max = 4096;
};

// Stacks of one rank, for the evidence of an incident.
struct RankStacks {
  int64_t rank = 0;
  StackReport report;
};

class Discovery {
 public:
  struct Dependencies {
    OpenPulse open_pulse = {};         // see OpenSocketPulse
    std::function<double()> now = {};  // the wall clock in seconds; empty: the system's
    // The time at which an earlier stepwatchd reported the last line of that rank; older lines that the job repeats are
    // skipped.
    std::function<double(const std::string& run, int64_t rank)> known_until = {};
    base::FileSystem* files = &base::FileSystem::Real();
    // Data of a job was left out because a limit was reached. Called each time.
    std::function<void(const std::string& why)> on_left_out = {};
  };

  // Calls `report` from the loop, for each line learnt.
  Discovery(boost::asio::io_context& loop, DiscoveryOptions options, std::function<void(Line)> report,
            Dependencies dependencies);
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  void Start();
  // Processes known to an earlier stepwatchd: the end of each, past or future, is reported. Before Start.
  void Remember(const std::vector<KnownProcess>& processes);
  // No line is reported afterwards.
  void Stop();

  // Reports Python and native stacks of these ranks of a run, as far as they run on this machine (of its first ranks if
  // the list is empty), as StacksEvents and CollectiveWaitEvents. Pauses each process for a moment: it stands still
  // anyway, and the reason is needed. Then calls `done`, if it is set, from the loop.
  void CollectStacks(const std::string& run, const std::vector<int64_t>& ranks,
                     std::function<void(std::vector<RankStacks>)> done = {});

  // The pages of metrics of all jobs, with the labels run, rank and job.
  void FetchMetrics(std::function<void(const JobPages& pages)> done) { Fetch("/metrics", std::move(done)); }
  // The status of the jobs of this user, likewise.
  void FetchStatus(std::function<void(const JobPages& pages)> done) { Fetch("/v1/status", std::move(done)); }

  // The known processes whose end was not reported. Keep them with the lines, for Remember.
  std::vector<KnownProcess> Processes() const { return known_.All(); }
  size_t jobs() const { return jobs_.size(); }
  // How often data of a job was left out because a limit was reached.
  int64_t left_out() const { return left_out_; }

 private:
  using Jobs = std::map<std::pair<std::string, ino_t>, std::shared_ptr<WatchedJob>>;
  struct Attempt {
    base::Retry retry{1, 60};
    double again_at = 0;
  };

  void Fetch(const std::string& path, std::function<void(const JobPages& pages)> done);
  void Tick();
  void Find();
  void OnFound(const std::vector<control_socket::FoundSocket>& sockets);
  void Sweep(const std::vector<control_socket::FoundSocket>& sockets);
  void ReportHosts(bool reports_same = false);
  void SeeProcesses();
  WatchedJob::Callbacks Callbacks();
  // The identity of the job's process; empty while its run or its process is unknown.
  std::optional<KnownProcess> KnownOf(const WatchedJob& job) const;
  bool IsWatched(const KnownProcess& known) const;
  void LookAtStandstills();
  // False: too many requests wait already, and `done` is not called.
  bool PostStacks(const std::shared_ptr<WatchedJob>& job, Pause pause, std::function<void(StackReport)> done);
  // Runs the work, unless this object is stopped before.
  std::function<void()> IfAlive(std::function<void()> work) const;

  DiscoveryOptions options_;
  boost::asio::io_context& loop_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  base::IoThread directories_{"stepwatchd-find"};
  base::IoThread pulses_{"stepwatchd-puls"};
  base::IoThread stacks_{"stepwatchd-stck"};
  // Becomes readable when this is stopped. Shared with the tools that run.
  const std::shared_ptr<const base::UniqueFd> stop_ =
      std::make_shared<const base::UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  JobDependencies dependencies_;
  watch::Timer timer_;
  const base::ProcessIdentity own_;
  LeftEnds left_ends_;
  KnownProcesses known_;
  Jobs jobs_;
  std::map<std::pair<std::string, ino_t>, Attempt> silent_;  // control sockets that have never answered
  std::map<std::string, HostLines> hosts_;                   // by run
  std::map<std::string, std::vector<std::function<void(const JobPages& pages)>>> fetches_;  // by path
  int64_t left_out_ = 0;
  uint64_t ticks_ = 0;
  bool is_finding_ = false;
  size_t stacks_open_ = 0;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // null: stopped
};

}  // namespace stepwatch::operations
