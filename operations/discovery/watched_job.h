// One process with a monitor: its control socket, its pulse and its end, on the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/control_socket/find_jobs.h"
#include "controller/watch/loop_mailbox.h"
#include "operations/discovery/job_reporter.h"
#include "operations/discovery/pulse_source.h"
#include "operations/discovery/run_owners.h"
#include "operations/discovery/standstill.h"
#include "operations/vocabulary/line.h"
#include "operations/witness/process_ref.h"
#include "src/base/byte_room.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/base/retry.h"
#include "src/http/client.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class JobConnection;
class ProcessEnd;

// Shared by all jobs; must outlive them.
struct JobDependencies {
  boost::asio::io_context& loop;
  std::shared_ptr<watch::LoopMailbox> mailbox;
  base::IoExecutor& pulses;  // for the one request that blocks
  OpenPulse open_pulse;      // may be empty: no pulses
  std::function<void(Line)> report;
  std::function<double()> now;  // the wall clock, in seconds
  std::function<double(const std::string& run, int64_t rank)> known_until;
  base::FileSystem& files;
  std::string host;
  // Data of a job is left out. Called each time.
  std::function<void(const std::string& why)> on_left_out = {};
  base::ByteRoom room{size_t{64} << 20};  // of large answers
  RunOwners owners = {};
};

class WatchedJob : public std::enable_shared_from_this<WatchedJob> {
 public:
  struct Callbacks {
    // Called before the end of the process is reported.
    std::function<void(const WatchedJob&)> before_gone;
    // The process is gone, for a reason unknown here. True: the receiver finds and reports it.
    std::function<bool(const WatchedJob&)> hand_over;
    // So far another process was assumed to be that of the job.
    std::function<void(const WatchedJob&)> forget;
  };

  WatchedJob(control_socket::FoundSocket server, JobDependencies& dependencies, Callbacks callbacks);

  // Four times a second. Never waits.
  void Tick();
  void Stop();

  // True if there is nothing left to watch.
  bool is_over() const { return is_over_; }
  // True if the control socket has never answered.
  bool has_never_answered() const { return answers_ == 0 && failures_ > 0; }
  int failures() const { return failures_; }
  const control_socket::FoundSocket& server() const { return control_socket_; }
  const JobReporter& reporter() const { return reporter_; }
  // Empty: it has no pid here, or is not known yet.
  const std::optional<ProcessRef>& process() const { return process_; }
  // The time of its last reported line.
  double reported_t() const { return reported_t_; }
  // The user that last served its control socket, from the kernel's peer credentials; empty before the first
  // connection.
  std::optional<uid_t> uid() const { return uid_; }
  // See CgroupDirectory.
  const std::string& cgroup() const { return cgroup_; }
  Standstill& standstill() { return standstill_; }

  // A tool begins to inspect the process, and has finished.
  void BeginLook() { ++looks_open_; }
  void EndLook() { --looks_open_; }
  void OnStacks(const std::string& text);
  void OnCollective(const std::optional<std::string>& operation);

 private:
  void LookAtPulse(double now);
  void LookAtProcess(double now);
  void RequestBeats(double now);
  void OnBeats(const Result<http::Reply>& reply);
  void OnFailure(const Status& status);
  // Reads the peer of the last connection.
  void TakeServer();
  void FetchPulse(double now);
  void OnPulse(Result<std::unique_ptr<PulseReader>> opened);
  // Detects a proxy: the control socket is served by another process than the writer of the pulse.
  void CompareServer(const PulseLook& look);
  void OnGone();
  // A pulse, with the name under which its run is reported.
  PulseLook Named(PulseLook look, double now) const;
  void Report(const JobReporter::Lines& lines);

  const control_socket::FoundSocket control_socket_;
  JobDependencies& dependencies_;
  const Callbacks callbacks_;
  std::shared_ptr<JobConnection> connection_;
  JobReporter reporter_;
  Standstill standstill_;
  std::shared_ptr<ProcessEnd> end_;
  std::optional<ProcessRef> process_;
  std::optional<uid_t> uid_;
  std::string cgroup_;
  std::unique_ptr<PulseReader> pulse_;
  bool is_fetching_ = false;
  double fetch_at_ = 0;  // not before
  base::Retry fetch_retry_{1, 60};
  double ask_at_ = 0;             // not before
  base::Retry ask_retry_{1, 30};  // while the control socket does not answer
  double process_looked_at_ = 0;
  std::optional<PulseLook> look_before_;  // at the last look at the process
  int looks_open_ = 0;                    // by tools of stepwatchd, which trace it meanwhile
  double reported_t_ = 0;
  int answers_ = 0;
  int failures_ = 0;  // one after the other
  bool knows_earlier_ = false;
  bool is_over_ = false;
};

}  // namespace stepwatch::operations
