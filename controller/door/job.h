// What a door can be asked: values in, values out. The API implements it over a monitor, tests with what they like.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stepwatch/event.h"
#include "stepwatch/monitor.h"

namespace stepwatch::door {

// A plan that is armed or in force.
struct PlanFacts {
  PlanId plan_id = 0;
  std::string config_sha256;
  int64_t collect_times = 0;
  int64_t step_interval = 1;
  int64_t at_step = -1;  // the first step that it may collect; -1: not known yet
  int64_t sites = 0;
  int64_t rows_per_step = 0;  // of one collected step
};

// The bytes that the config file holds were not taken.
struct RefusedEdit {
  std::string sha256;
  std::string message;
  TextPlace place;
};

struct JobStatus {
  // Who.
  int pid = 0;
  std::string run_id;
  int rank = 0;
  int world_size = 1;
  bool dynamic = false;
  double uptime_seconds = 0;

  // What runs.
  MonitorStatus monitor;
  std::optional<PlanFacts> plan;   // in force
  std::optional<PlanFacts> armed;  // waits for its step
  std::string running_sha256;      // of the config that is armed or in force; empty: nothing is

  // What the file says.
  std::string config_path;
  std::string file_sha256;   // what the file held at the last look; empty: it was not read yet
  std::string drift;         // why that is not what runs; empty: it is, or is about to be
  std::string file_trouble;  // the file is missing or unreadable; empty: it is not
  std::optional<RefusedEdit> refusal;
  std::string write_back;  // what became of `dynamic_on` in the file; empty: nothing was to be written
  std::string watch_mode;  // "inotify", or "poll" with the reason; empty: nobody watches the file

  // Counted since the monitor was created. The ledger is that of all plans that are drained.
  Ledger ledger;
  double measuring_seconds = 0;        // of threads of the trainer, for the same plans
  std::optional<double> step_seconds;  // lately; nothing while no step ends
  uint64_t applied = 0;                // plans
  double last_applied_unix = 0;        // when the newest of them was, by the system's clock; 0: none was
  uint64_t refusals = 0;
  uint64_t looks = 0;  // at the config file
  uint64_t events = 0;
};

struct NumberedEvent {
  uint64_t id = 0;  // from 1 in each monitor
  Event event;
};

struct EventPage {
  std::vector<NumberedEvent> events;
  uint64_t newest = 0;  // id of the newest event that was told; 0: none was
};

struct DoctorReport {
  std::string cpu_target;
  std::vector<std::string> cpu_available;
  std::string cpu_wanted;  // by STEPWATCH_CPU_TARGET; empty: none
  bool cpu_granted = true;
  bool cuda_built = false;
  int cuda_devices = 0;
  std::string cuda_reason;  // why CUDA tensors are not measured; empty: they are
  std::string watch_mode;
};

// Thread-safe. GetStatus, EventsAfter and Tick answer at once; the others may take a while, and wait for no file.
class Job {
 public:
  virtual ~Job() = default;

  virtual JobStatus GetStatus() = 0;
  // The oldest events with a larger id that are still kept, at most `count`.
  virtual EventPage EventsAfter(uint64_t id, size_t count) = 0;
  // Called once a second while the door is open.
  virtual void Tick() = 0;
  // See Monitor::Latest.
  virtual std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout) = 0;
  virtual DoctorReport Examine() = 0;
};

}  // namespace stepwatch::door
