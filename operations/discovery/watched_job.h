// One process with a monitor: its control socket, its pulse and its end, on the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/control_socket/find_jobs.h"
#include "controller/watch/loop_mailbox.h"
#include "operations/discovery/job_teller.h"
#include "operations/discovery/pulse_source.h"
#include "operations/discovery/run_owners.h"
#include "operations/discovery/standstill.h"
#include "operations/vocabulary/line.h"
#include "operations/witness/process_ref.h"
#include "src/base/byte_room.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/http/client.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class JobConnection;
class ProcessEnd;

// What all jobs share. Outlives them.
struct JobAround {
  boost::asio::io_context& loop;
  std::shared_ptr<watch::LoopMailbox> mailbox;
  base::IoExecutor& pulses;  // for the one question that blocks
  OpenPulse open_pulse;      // may be empty: no pulses
  std::function<void(Line)> tell;
  std::function<double()> now;  // the wall clock, in seconds
  std::function<double(const std::string& run, int64_t rank)> known_until;
  base::FileSystem& files;
  std::string host;
  // Something of a job is left out. Called each time.
  std::function<void(const std::string& why)> on_left_out = {};
  base::ByteRoom room{size_t{64} << 20};  // of large answers
  RunOwners owners = {};
};

class WatchedJob : public std::enable_shared_from_this<WatchedJob> {
 public:
  struct Callbacks {
    // It is about to be told that the process is gone.
    std::function<void(const WatchedJob&)> before_gone;
    // The process is gone, and its end is not known here. True: somebody else finds out, and tells it.
    std::function<bool(const WatchedJob&)> hand_over;
    // Its process was taken for another one until now.
    std::function<void(const WatchedJob&)> forget;
  };

  WatchedJob(control_socket::FoundSocket server, JobAround& around, Callbacks callbacks);

  // Four times a second. Waits for nothing.
  void Tick();
  void Stop();

  // It is over: nobody needs to look here any more.
  bool is_over() const { return is_over_; }
  // Nobody has ever answered at this control socket.
  bool is_mute() const { return answers_ == 0 && failures_ > 0; }
  int failures() const { return failures_; }
  const control_socket::FoundSocket& server() const { return control_socket_; }
  const JobTeller& teller() const { return teller_; }
  // Nothing: it has no pid here, or is not known yet.
  const std::optional<ProcessRef>& process() const { return process_; }
  // The time of the last line that was told of it.
  double told_t() const { return told_t_; }
  // Who served its control socket last, by the kernel's word; nothing: nobody has.
  std::optional<uid_t> uid() const { return uid_; }
  // See CgroupDirectory.
  const std::string& cgroup() const { return cgroup_; }
  Standstill& standstill() { return standstill_; }

  // A tool of ours looks into the process from here on, and has done so.
  void BeginLook() { ++looks_open_; }
  void EndLook() { --looks_open_; }
  void OnStacks(const std::string& text);
  void OnCollective(const std::optional<std::string>& operation);

 private:
  void LookAtPulse(double now);
  void LookAtProcess(double now);
  void AskForBeats(double now);
  void OnBeats(const Result<http::Reply>& reply);
  void OnFailure(const Status& status);
  // Of the connection made last.
  void TakeServer();
  void FetchPulse(double now);
  void OnPulse(Result<std::unique_ptr<PulseReader>> opened);
  // Whoever serves the control socket is not who writes the pulse, but stands between.
  void CompareServer(const PulseLook& look);
  void OnGone();
  // A pulse, with the name of its run as it is told.
  PulseLook Named(PulseLook look, double now) const;
  void Tell(const JobTeller::Lines& lines);

  const control_socket::FoundSocket control_socket_;
  JobAround& around_;
  const Callbacks callbacks_;
  std::shared_ptr<JobConnection> connection_;
  JobTeller teller_;
  Standstill standstill_;
  std::shared_ptr<ProcessEnd> end_;
  std::optional<ProcessRef> process_;
  std::optional<uid_t> uid_;
  std::string cgroup_;
  std::unique_ptr<PulseReader> pulse_;
  bool is_fetching_ = false;
  double fetch_at_ = 0;  // not before
  double fetch_seconds_ = 1;
  double ask_at_ = 0;  // not before
  double process_looked_at_ = 0;
  std::optional<PulseLook> look_before_;  // at the last look at the process
  int looks_open_ = 0;                    // by tools of ours, which trace it meanwhile
  double told_t_ = 0;
  int answers_ = 0;
  int failures_ = 0;  // one after the other
  bool knows_earlier_ = false;
  bool is_over_ = false;
};

}  // namespace stepwatch::operations
