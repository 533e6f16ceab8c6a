// Interface between a control socket and its job: values in, values out. The API implements it for a monitor; tests use
// fakes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/plan_preview.h"
#include "controller/status/job_status.h"
#include "controller/status/requests.h"
#include "kernels/device_engine.h"
#include "kernels/kernels.h"
#include "src/output/history.h"
#include "stepwatch/event.h"
#include "stepwatch/monitor.h"

namespace stepwatch::control_socket {

struct NumberedEvent {
  uint64_t id = 0;  // from 1 in each monitor
  Event event;
  std::optional<output::EditPeer>
      peer;  // the client whose upload caused the event; nullopt: the event has another cause
};

struct EventPage {
  std::vector<NumberedEvent> events;
  uint64_t newest = 0;  // id of the newest event; 0: no events
};

struct DoctorReport {
  kernels::CpuReport cpu;
  kernels::CudaReport cuda;
  std::string watch_mode;
};

// The history of a run, as stored on disk.
struct HistoryReport {
  static constexpr uint64_t kLinesMax = 10000;  // maximum in one request

  Status status;
  std::string directory;  // of the run
  output::History history;
};

// The answer of one rank of the job.
struct RankWord {
  int rank = 0;
  std::string text_untrusted;  // empty: no answer, or an unreadable one
  int64_t heard_ms = 0;        // time from question to answer
  std::string trouble;         // why the text is empty
};

struct RankWords {
  std::vector<RankWord> words;  // by rank, this rank included
  std::string alone;            // why no other rank was queried; empty: all were
};

// Lines that a process reports about itself (docs/formats/beats.md).
struct BeatPage {
  std::string run_id;
  int rank = 0;
  std::vector<std::string> lines;  // JSON objects, each on one line
  uint64_t next = 0;               // number of the last of them; `since` of the next request
  uint64_t newest = 0;             // number of the newest line; 0: no lines
  uint64_t lost = 0;               // lines between `since` and the first of these that are no longer kept
  uint64_t dropped = 0;            // numbers and ends of steps since the start that were dropped
};

// Descriptors of the pulse, valid while this object exists. Both are sealed and read-only.
struct PulseGrant {
  int page_fd = -1;  // -1: no pulse
  size_t page_bytes = 0;
  int names_fd = -1;  // table of the modules; -1: no table yet
  size_t names_bytes = 0;
  uint32_t names_generation = 0;
  std::shared_ptr<const void> keep;
};

// Thread-safe. GetStatus, EventsAfter and Tick return at once; the others may take a while, but wait for no file.
// Functions with `then` start an operation and call `then` once when it is done, on any thread, possibly within the
// call. If the monitor closes first, `then` is destroyed without a call.
class Job {
 public:
  virtual ~Job() = default;

  virtual status::JobStatus GetStatus() = 0;
  // The oldest kept events with a larger id, at most `count`.
  virtual EventPage EventsAfter(uint64_t id, size_t count) = 0;
  // Called once a second while the control socket is open.
  virtual void Tick() = 0;
  // The oldest kept lines with a larger number, at most `count`.
  virtual BeatPage BeatsAfter(uint64_t /*number*/, size_t /*count*/) { return {}; }
  virtual PulseGrant Pulse() { return {}; }
  // See Monitor::Latest.
  virtual std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout) = 0;
  virtual DoctorReport Examine() = 0;

  // Changes the config file, and has the monitor read it at once.
  virtual void ChangeConfig(status::ConfigChange change, std::function<void(const status::ChangeReport&)> then) = 0;
  virtual void ReadHistory(std::function<void(const HistoryReport&)> then) = 0;
  // Reads the bytes with this hash from the history of the run.
  virtual void ReadConfig(const std::string& sha256, std::function<void(const Result<std::string>&)> then) = 0;
  // The effect that the config would have; nothing is armed. kUnavailable: no model is attached yet.
  virtual Result<PlanPreview> Preview(const std::string& text_untrusted) = 0;
  // Pauses or resumes the plan in force from the next step boundary; its window and count stay. In a job of ranks, all
  // do so at the step that they agree on. Waits at most `time`.
  virtual status::PauseResult Pause(bool pause, std::chrono::milliseconds time) = 0;
  // Closes the files with the rows up to the next step boundary; later rows go to files with new names. Waits at most
  // `time`.
  virtual status::RotateResult Rotate(std::chrono::milliseconds time) = 0;

  // False: requests about the whole job belong to rank 0's control socket; Forward sends them there.
  virtual bool Leads() const = 0;
  // Rank 0: queries every rank. Calls `then` once, within the call or on the control socket's worker, after at most the
  // given time.
  virtual void AskRanks(const std::string& question, std::chrono::milliseconds time,
                        std::function<void(Result<RankWords>)> then) = 0;
  // Other ranks: the same, with the answer of rank 0 (forward.h). An urgent request overtakes waiting ones.
  virtual void Forward(const std::string& request, std::chrono::milliseconds time, bool is_urgent,
                       std::function<void(Result<std::string>)> then) = 0;
  // Maximum number of series in the metrics for the latest statistics of sites; 0: none.
  virtual size_t metrics_sites_max() const { return 0; }
};

}  // namespace stepwatch::control_socket
