// Settings of a monitor, made by the program that owns it. config.json selects what is watched.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stepwatch/event.h"
#include "stepwatch/parallel_for.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/sink.h"
#include "stepwatch/store.h"

namespace torch::optim {
class Optimizer;
}

namespace stepwatch {

// Control socket: access beyond the user of the process and root, and content (docs/operate/security.md). An empty
// member is read from the environment variable named beside it; if both are empty, the feature is off. The former names
// of these variables, STEPWATCH_DOOR_*, are read until the next release.
struct ControlSocketOptions {
  // STEPWATCH_SOCKET_TCP: "127.0.0.1:9464", "[::1]:9464" or "localhost:9464" opens the control socket on TCP as well,
  // at this one address. Port 0: a free port, which an event and the status report. Requires a token.
  std::string tcp;
  // STEPWATCH_SOCKET_TOKEN_FILE: file with the token that every TCP request must contain. A regular file of this user
  // that no other user can read.
  std::string token_file;
  // STEPWATCH_SOCKET_TCP_NAME: host name that TCP clients may use for this machine, beside its addresses.
  std::string tcp_name;
  // STEPWATCH_SOCKET_GROUP: members of this group may read through the socket but change nothing.
  std::string group;
  // STEPWATCH_METRICS_SITES_MAX: largest number of series of site statistics in GET /metrics, at most 100,000; 0: none.
  size_t metrics_sites_max = 0;
};
using DoorOptions = ControlSocketOptions;  // former name, until the next release

// Limits that no config exceeds. An edit beyond a limit is refused, and the running plan stays. The environment may set
// each limit as well; the stricter of the two holds (docs/operate/limits.md).
struct Limits {
  // Directory for all output of a run; created if missing. No symbolic link below it is followed. Empty:
  // STEPWATCH_OUTPUT_ROOT; if unset, unlimited.
  std::string output_root;
  // Bytes on disk that this rank's run writes (without extra_sinks). At the limit the collection ends with the next
  // step. 0: STEPWATCH_BYTES_MAX; if unset, unlimited.
  uint64_t bytes_max = 0;
  // Rows of one collected step. 0: STEPWATCH_ROWS_PER_STEP_MAX; if unset, unlimited.
  int64_t rows_per_step_max = 0;
  // Bytes of memory for records between the step thread and the files: rings, incomplete frames, frames that wait for a
  // sink. 0: STEPWATCH_QUEUE_BYTES_MAX; if unset, ring_bytes_max and backlog_bytes_max apply.
  uint64_t queue_bytes_max = 0;
  // Formats that a config may use. Unset: STEPWATCH_FORMATS ("csv,api"); if that is unset, all.
  std::optional<std::vector<OutputFormat>> formats;
};

struct Options {
  std::string config_path;

  // Dynamic mode: edits of the config file start, change and stop the collection. Unset: dynamic if the environment
  // variable DYNAMIC_MONITOR is "true" in any case, otherwise static.
  std::optional<bool> dynamic;
  // Base directory of all output. Empty: MONITOR_OUTPUT_DIR; if unset, ./monitor_output.
  std::string output_dir;

  int rank = 0;
  int world_size = 1;
  int pp_stage = 0;              // pipeline stage of this rank, to sort alarms; 0 without pipeline parallelism
  std::vector<int> group_mates;  // ranks in this rank's group, for anomaly.json; empty: all ranks of the job
  std::string run_id;            // shared by all ranks of a run; empty: random
  // The same in every start of a job, different between jobs: a restart uses it to find the windows of earlier starts
  // (the config's on_restart). Empty: STEPWATCH_JOB_ID, then the launcher's id (docs/use/config.md); if both are unset,
  // the job has no id.
  std::string job_id;
  int grad_acc_steps = 1;       // micro-batches per step; below 1: 1 is used, with a warning
  int64_t start_iteration = 0;  // number of the first step; below 0: 0 is used, with a warning

  // TorchMonitor with several optimizers: the one whose step alone ends the training step. Null: the step ends when
  // each has stepped.
  const torch::optim::Optimizer* clock = nullptr;
  // TorchMonitor: only EndStep() ends steps, from the first one on.
  bool ends_step_by_hand = false;

  // Store shared by the ranks of the job (world_size above 1). Null: each rank runs alone, and ranks may apply an edit
  // at different steps. Dynamic mode: only rank 0 reads and writes the config file; an edit reaches the other ranks
  // through the store, and all apply it at one step. Static mode: only the run id is shared.
  std::shared_ptr<Store> store;
  // Prefix of every key: different for jobs, and for restarts of a job, that share a store.
  std::string store_prefix = "stepwatch";
  // Shortest interval between two polls of a rank for edits; long steps need fewer polls.
  std::chrono::milliseconds store_poll{20};
  // Longest wait, at the boundary, of a rank that reaches the agreed step without the decision. After it the rank keeps
  // its plan and marks its rows kInDoubt until the decision arrives.
  std::chrono::milliseconds decision_wait{200};
  // Static mode: how long Attach waits for rank 0's run id; after that the rank uses its own.
  std::chrono::milliseconds run_id_wait{2000};

  // Events of inotify are hints and may be switched off; a look every look_interval always runs. New bytes are accepted
  // after quiet_time without a change.
  bool use_inotify = true;
  std::chrono::milliseconds look_interval{1000};
  std::chrono::milliseconds quiet_time{100};

  // The trainer's own threads, lent for large tensors and batches in CPU memory; null: the caller's thread only
  // (TorchMonitor lends LibTorch's). The monitor never starts threads for measuring.
  ParallelFor parallel_for = nullptr;
  // Measures tensors in CUDA memory on a separate stream of lowest priority, beside the stream that produced them: can
  // hide the cost while the memory of the device is not busy. False: on the stream that produced them.
  bool cuda_side_stream = false;
  // Results of one CUDA device that may be pending at once (some hundred bytes of pinned memory each). Rows beyond that
  // are dropped and counted as ring_full.
  size_t cuda_results_max = 16384;
  // Observations that captured CUDA graphs of one device may hold; they are never released. 0: none. Each uses 8 KB on
  // the device and 1 KB of pinned memory, allocated with the engine of the device. Captures beyond that have no rows
  // and are reported and counted once, as unsupported.
  size_t cuda_graph_slots = 4096;

  // Bytes of memory for records on their way to the drain, per plan. Rows beyond that are dropped and counted.
  size_t ring_bytes_max = size_t{256} << 20;
  // Bytes of memory for step frames that a failing sink has not accepted yet. Beyond that frames are dropped and
  // counted.
  size_t backlog_bytes_max = size_t{64} << 20;

  // Limits that no config exceeds.
  Limits limits;

  // Keeps the records of every site's last step for Monitor::Latest from the beginning; otherwise from its first call
  // on.
  bool keep_latest = false;

  // Opens a control socket with the first Attach: HTTP over a Unix socket, for `stepwatch ps`, `status` and other
  // programs of this user (docs/formats/control_api.md). STEPWATCH_SOCKET=0 in the environment disables it. If it
  // cannot be opened, an event kNote is the only effect.
  bool control_socket = true;
  ControlSocketOptions control_socket_options;
  // Former names of the two above, until the next release: false closes the socket, and members that are set there hold
  // where those above are empty.
  bool door = true;
  DoorOptions door_options;

  // Called for every event, on the loop thread (on the caller's thread during Create). Must not call back into the
  // monitor; exceptions are ignored. Empty: events go to standard error as log lines.
  std::function<void(const Event&)> on_event;
  // Sinks that receive all records, in addition to the output of `format`.
  std::vector<std::shared_ptr<Sink>> extra_sinks;
};

}  // namespace stepwatch
