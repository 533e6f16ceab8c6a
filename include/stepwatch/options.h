// How a monitor is set up by the program that owns it. What is watched is not set here: that is config.json's matter.
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

// Whom the door lets in beside the user of the process and root, and what it tells (docs/control_api.md). What is left
// empty here is taken from the environment variable that is named beside it; without both there is none of it.
struct DoorOptions {
  // STEPWATCH_DOOR_TCP: "127.0.0.1:9464", "[::1]:9464" or "localhost:9464" opens the door on TCP, too, at this one
  // address. Port 0: a free one, which an event and the status tell. Needs a token.
  std::string tcp;
  // STEPWATCH_DOOR_TOKEN_FILE: holds the token that every request over TCP must show. A plain file of this user that
  // nobody else can read.
  std::string token_file;
  // STEPWATCH_DOOR_TCP_NAME: the name of this machine by which clients ask over TCP, beside its addresses.
  std::string tcp_name;
  // STEPWATCH_DOOR_GROUP: users of this group may read through the socket, and change nothing.
  std::string group;
  // STEPWATCH_METRICS_SITES_MAX: so many series of the latest statistics of sites GET /metrics shows at most; 0: none.
  size_t metrics_sites_max = 0;
};

// What no config exceeds, however it is edited. An edit that would is refused and what ran goes on. Each limit may be
// set in the environment as well; of the two the stricter one holds, so neither loosens the other (docs/limits.md).
struct Limits {
  // All that a run writes stays below this directory, and no symbolic link is followed on the way. The directory is
  // made if it is not there. Empty: STEPWATCH_OUTPUT_ROOT, and without it everywhere.
  std::string output_root;
  // Bytes on disk that the run of this rank writes (not by extra_sinks). When they are used up, the collection ends at
  // the next step. 0: STEPWATCH_BYTES_MAX, and without it any number.
  uint64_t bytes_max = 0;
  // Rows of one collected step. 0: STEPWATCH_ROWS_PER_STEP_MAX, and without it any number.
  int64_t rows_per_step_max = 0;
  // Memory for records between the step thread and the files: rings, frames that are not complete, frames that wait for
  // a sink. 0: STEPWATCH_QUEUE_BYTES_MAX, and without it what ring_bytes_max and backlog_bytes_max say.
  uint64_t queue_bytes_max = 0;
  // Formats that a config may name. Unset: STEPWATCH_FORMATS ("csv,api"), and without it all.
  std::optional<std::vector<OutputFormat>> formats;
};

struct Options {
  std::string config_path;

  // Dynamic mode: edits of the config file start, change and stop the collection. Unset: the environment variable
  // DYNAMIC_MONITOR decides ("true" in any case), and without it the mode is static.
  std::optional<bool> dynamic;
  // Base of all output. Empty: MONITOR_OUTPUT_DIR, and without it ./monitor_output.
  std::string output_dir;

  int rank = 0;
  int world_size = 1;
  int pp_stage = 0;              // pipeline stage of this rank, for the order of alarms; 0 without pipeline parallelism
  std::vector<int> group_mates;  // ranks of this rank's group, for anomaly.json; empty: all ranks of the job
  std::string run_id;            // shared by all ranks of a run; empty: a random one
  // The same in every start of the job, and in no other job: by it a restart knows what an earlier start has done (the
  // config's on_restart). Empty: STEPWATCH_JOB_ID, else what the launcher has set (docs/config.md); without all: none.
  std::string job_id;
  int grad_acc_steps = 1;       // micro-batches of a step; below 1: taken as 1, with a warning
  int64_t start_iteration = 0;  // number of the first step; below 0: taken as 0, with a warning

  // TorchMonitor, of several optimizers: the one whose step alone ends the training step. Null: the step ends when each
  // has stepped.
  const torch::optim::Optimizer* clock = nullptr;
  // TorchMonitor: EndStep() alone ends steps, from the first one on.
  bool ends_step_by_hand = false;

  // What the ranks of the job share (world_size above 1; without it each rank goes by itself, and ranks may apply an
  // edit at different steps). In dynamic mode rank 0 alone reads and writes the config file; an edit reaches the others
  // through the store, and all apply it at one step. In static mode only the run id is shared.
  std::shared_ptr<Store> store;
  // Begins every key: different for jobs, and for restarts of a job, that share a store.
  std::string store_prefix = "stepwatch";
  // How often a rank looks for edits, at most; steps that are long compared with it need fewer looks.
  std::chrono::milliseconds store_poll{20};
  // A rank at the agreed step that does not know the decision waits so long at the boundary, then keeps its plan and
  // marks its rows kInDoubt until it knows.
  std::chrono::milliseconds decision_wait{200};
  // Static mode: how long Attach waits for the run id of rank 0; afterwards the rank uses its own.
  std::chrono::milliseconds run_id_wait{2000};

  // Events are hints and may be switched off; the look every look_interval always runs.
  bool use_inotify = true;
  std::chrono::milliseconds look_interval{1000};
  std::chrono::milliseconds quiet_time{100};

  // The trainer's own threads, lent for large tensors and batches in CPU memory; null: all on the caller (TorchMonitor
  // lends LibTorch's). The monitor never starts threads for measuring.
  ParallelFor parallel_for = nullptr;
  // Measure tensors in CUDA memory on a stream of our own, of lowest priority, beside the one that produced them: can
  // hide the cost where the device is not busy with memory. Unset, all is queued on the producer's stream.
  bool cuda_side_stream = false;
  // Results of one CUDA device that may be under way at once (some hundred bytes of pinned memory each). Rows beyond
  // them are dropped and counted as ring_full.
  size_t cuda_results_max = 16384;
  // Observations of one CUDA device that captured CUDA graphs may hold, for ever; 0: none. Each takes 8 KB on the
  // device and 1 KB of pinned memory, allocated with the rest at the start. What is captured beyond gives no rows, and
  // is told of and counted as unsupported once.
  size_t cuda_graph_slots = 4096;

  // Memory for records on their way to the drain, per plan. More rows than fit are dropped and counted.
  size_t ring_bytes_max = size_t{256} << 20;
  // Memory for step frames that a failing sink could not take yet.
  size_t backlog_bytes_max = size_t{64} << 20;

  // What no config exceeds.
  Limits limits;

  // Keep the records of every site's last step for Monitor::Latest from the beginning; otherwise from its first call
  // on.
  bool keep_latest = false;

  // Opens a door to the running monitor with the first Attach: HTTP over a Unix socket, for `stepwatch ps`, `status`
  // and other programs of this user (docs/control_api.md). STEPWATCH_DOOR=0 in the environment keeps it shut. A door
  // that cannot be opened is a note among the events, and nothing else.
  bool door = true;
  DoorOptions door_options;

  // Told about every event, on the loop thread (or on the caller's while Attach and Refresh look). Must not call back
  // into the monitor. Empty: events go to standard error as log lines.
  std::function<void(const Event&)> on_event;
  // Written to beside the CSV files.
  std::vector<std::shared_ptr<Sink>> extra_sinks;
};

}  // namespace stepwatch
