// The facade: puts loop, data plane and drain together, and keeps each call on the thread it belongs to.
#include "stepwatch/monitor.h"

#include <cctype>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <utility>

#include "controller/api/event_log.h"
#include "controller/api/loop_thread.h"
#include "controller/reload/reloader.h"
#include "kernels/device_engine.h"
#include "src/runtime/alarm_desk.h"
#include "src/runtime/data_plane.h"
#include "src/runtime/drain.h"
#include "src/runtime/run_directory.h"
#include "src/runtime/status_board.h"
#include "src/stats/engine.h"

namespace stepwatch {
namespace {

using std::chrono::milliseconds;

// For work on the loop that is bounded by local file I/O.
constexpr milliseconds kLoopCallTimeout{30000};
constexpr milliseconds kCloseTimeout{5000};
// Between two questions to the loop about what other ranks decide.
constexpr milliseconds kAskAgain{1};

bool DynamicFromEnvironment() {
  const char* value = std::getenv("DYNAMIC_MONITOR");
  std::string lower = value == nullptr ? "" : value;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower == "true";
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::unique_ptr<runtime::AlarmDesk> MakeAlarmDesk(const Options& options, runtime::StatusBoard* board) {
  auto file = std::make_unique<runtime::AnomalyFile>(
      runtime::AnomalyDirectory(runtime::OutputBase(options.output_dir), options.rank),
      std::make_unique<sinks::FileCalls>());
  return std::make_unique<runtime::AlarmDesk>(runtime::AlarmOrigin{options.rank, options.pp_stage, options.group_mates},
                                              std::move(file), board);
}

stats::EngineOptions EngineOptionsOf(const Options& options) {
  stats::EngineOptions engine;
  engine.parallel_for = options.parallel_for;
  engine.device_results_max = options.cuda_results_max;
  engine.make_device_engine = [side_stream = options.cuda_side_stream, graph_slots = options.cuda_graph_slots](
                                  int device, size_t results) {
    kernels::DeviceEngineOptions of_device;
    of_device.device = device;
    of_device.slots = results;
    of_device.side_stream = side_stream;
    of_device.graph_slots = graph_slots;
    return kernels::CreateCudaEngine(of_device);
  };
  return engine;
}

}  // namespace

const char* RunStateName(RunState state) {
  static constexpr const char* kNames[] = {"OFF", "IDLE", "PREPARING", "ARMED", "COLLECTING", "DRAINING", "FAILED"};
  return kNames[static_cast<int>(state)];
}

class Monitor::Impl {
 public:
  Impl(Options options, bool dynamic)
      : options_(std::move(options)),
        dynamic_(dynamic),
        loop_([this](const std::string& what) { TellFault(what); }),
        board_([this] { loop_.Post([this] { OnBoard(); }); }),
        engine_(EngineOptionsOf(options_)),
        data_plane_(options_.start_iteration, &engine_, &wake_up_, options_.decision_wait),
        drain_(&board_, &engine_, &wake_up_, options_.backlog_bytes_max),
        reloader_(options_, dynamic, {&loop_.context(), &data_plane_, &drain_, &board_},
                  [this](Event event) { Tell(std::move(event)); }) {}

  // What is told has changed what is published.
  void Tell(Event event) {
    PublishState();
    event.t = SecondsSince(start_);
    try {
      options_.on_event(event);
    } catch (...) {  // the user's function: there is nobody left to tell, and the loop goes on
    }
  }
  void TellFault(const std::string& what) {
    Event event;
    event.kind = EventKind::kDegraded;
    event.message = "the loop thread caught an exception and goes on: " + what;
    Tell(std::move(event));
  }
  void OnBoard() {
    for (std::string& trouble : board_.TakeTroubles()) {
      Event event;
      event.kind = EventKind::kDegraded;
      event.message = std::move(trouble);
      Tell(std::move(event));
    }
    reloader_.OnBoard();
    PublishState();
  }
  void PublishState() {
    loop_state_.store(reloader_.state(), std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(mutex_);
    output_dir_ = reloader_.output_dir();
  }

  // Asks the loop until it says yes; false: not in time.
  bool Await(bool (reload::Reloader::*question)() const, std::chrono::steady_clock::time_point deadline) {
    for (;;) {
      auto yes = std::make_shared<std::atomic<bool>>(false);
      const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left <= milliseconds(0)) return false;
      if (!loop_.Call([this, yes, question] { *yes = (reloader_.*question)(); }, left)) return false;
      if (*yes) return true;
      std::this_thread::sleep_for(std::min(left, kAskAgain));
    }
  }
  // In static mode the output directory is fixed at once, so the job's run id is waited for.
  void AwaitRunId() {
    if (dynamic_ || reloader_knows_run_id_ ||
        Await(&reload::Reloader::knows_run_id, std::chrono::steady_clock::now() + options_.run_id_wait))
      return;
    Event event;
    event.kind = EventKind::kNote;
    event.message = "the run id of rank 0 was not in the job's store within " +
                    std::to_string(options_.run_id_wait.count()) + " ms; this rank goes by its own, " + options_.run_id;
    loop_.Post([this, event = std::move(event)]() mutable { Tell(std::move(event)); });
  }

  RunState State() const {
    if (data_plane_.plan_id() != 0) return RunState::kCollecting;
    if (reloader_.proposed_step() >= 0) return RunState::kPreparing;
    const RunState state = loop_state_.load(std::memory_order_relaxed);
    if (state == RunState::kArmed && data_plane_.offer_waiting()) return RunState::kArmed;
    // The loop learns of an ended window a moment after the step thread has ended it.
    return state == RunState::kArmed || state == RunState::kCollecting ? RunState::kDraining : state;
  }

  const Options options_;
  const bool dynamic_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  api::LoopThread loop_;
  runtime::WakeUp wake_up_;
  runtime::StatusBoard board_;
  stats::Engine engine_;
  runtime::DataPlane data_plane_;
  runtime::Drain drain_;
  reload::Reloader reloader_;
  std::atomic<bool> closed_{true};  // until the loop runs, and after Close
  bool hung_ = false;
  bool reloader_knows_run_id_ = false;  // or need not: asked once
  std::atomic<RunState> loop_state_{RunState::kOff};
  mutable std::mutex mutex_;
  std::string output_dir_;  // guarded by mutex_
};

Monitor::Monitor(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)), collecting_(impl_->data_plane_.collecting_flag()) {}

Result<std::unique_ptr<Monitor>> Monitor::Create(Options options) try {
  const bool dynamic = options.dynamic.value_or(DynamicFromEnvironment());
  if (!options.on_event) options.on_event = api::MakeEventLog(options.rank, options.world_size);
  if (options.run_id.empty()) options.run_id = runtime::RandomRunId();
  std::string replaced;
  if (options.grad_acc_steps < 1) {
    replaced += "grad_acc_steps " + std::to_string(options.grad_acc_steps) + " is below 1; 1 is used. ";
    options.grad_acc_steps = 1;
  }
  if (options.start_iteration < 0) {
    replaced += "start_iteration " + std::to_string(options.start_iteration) + " is below 0; 0 is used. ";
    options.start_iteration = 0;
  }
  // Nobody would count its vote.
  if (options.store && (options.rank < 0 || options.rank >= options.world_size)) {
    replaced += "rank " + std::to_string(options.rank) + " is not one of world_size " +
                std::to_string(options.world_size) + " ranks (from 0); this rank goes by itself, without the store. ";
    options.store = nullptr;
  }
  std::unique_ptr<Monitor> monitor(new Monitor(std::make_unique<Impl>(std::move(options), dynamic)));
  Impl& impl = *monitor->impl_;
  if (!replaced.empty()) {
    Event event;
    event.kind = EventKind::kWarning;
    event.message = replaced;
    impl.Tell(std::move(event));
  }
  if (!dynamic) {
    const Status read = impl.reloader_.ReadOnce();
    if (!read.ok()) return read;
  }
  impl.PublishState();
  if (!dynamic) impl.loop_.Post([&impl] { impl.reloader_.JoinRanks(); });
  impl.loop_.Start();
  impl.closed_ = false;
  if (impl.options_.keep_latest) impl.drain_.KeepLatest();
  impl.drain_.SetAlarmDesk(MakeAlarmDesk(impl.options_, &impl.board_));
  impl.drain_.Start();
  return monitor;
} catch (const std::exception& error) {
  // No descriptor, thread or memory left: no reason for a training run not to start.
  return Status(StatusCode::kExhausted, std::string("the monitor cannot start: ") + error.what());
}

Monitor::~Monitor() {
  if (!impl_->data_plane_.InOwner()) {
    // A forked child has no threads of ours, and the files are its parent's: everything is left as it lies.
    (void)impl_.release();
    return;
  }
  (void)Close(kCloseTimeout);
  // A thread that hangs in a system call still uses its parts.
  if (impl_->hung_) (void)impl_.release();
}

Status Monitor::Attach(SiteIndex sites, HookTable* hooks) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return Status(StatusCode::kUnavailable, "the monitor is closed");
  impl_->data_plane_.SetHooks(hooks);
  impl_->AwaitRunId();
  impl_->reloader_knows_run_id_ = true;
  // Shared with the handler: it may run after this call has given up on a file system that hangs.
  auto shared_sites = std::make_shared<SiteIndex>(std::move(sites));
  auto attached = std::make_shared<Status>();
  const bool done = impl_->loop_.Call(
      [&impl = *impl_, attached, shared_sites] {
        try {
          *attached = impl.reloader_.Attach(std::move(*shared_sites));
        } catch (const std::exception& error) {  // no descriptor or memory left
          *attached = Status(StatusCode::kExhausted, std::string("the config file is not watched: ") + error.what());
        }
        impl.PublishState();
      },
      kLoopCallTimeout);
  if (!done) return Status(StatusCode::kTimedOut, "the config file could not be looked at in time; it is still tried");
  if (attached->ok()) impl_->data_plane_.BeginFirstStep();
  return *attached;
}

void Monitor::PrepareDevice(Device device) noexcept {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return;
  impl_->engine_.Prepare(device);
  impl_->wake_up_.Post();
}

void Monitor::Observe(const Observation& at, const TensorView& tensor) noexcept {
  if (!collecting()) return;
  Record record;
  if (impl_->data_plane_.Measure(at, tensor, &record)) impl_->data_plane_.Enqueue(record);
}

void Monitor::ObserveBatch(const Observation* at, const TensorView* tensors, size_t count) noexcept {
  impl_->data_plane_.ObserveBatch(at, tensors, count);
}

void Monitor::ObserveMissing(const Observation& at) noexcept {
  impl_->data_plane_.ObserveMissing(at);
}

void Monitor::ObserveAgreement(const Observation& at, const TensorView& gradient, const TensorView& momentum) noexcept {
  impl_->data_plane_.ObserveAgreement(at, gradient, momentum);
}

void Monitor::Capture(const PlannedSite& site, const Observation& at, const TensorView& tensor) noexcept {
  impl_->data_plane_.Capture(site, at, tensor);
}

void Monitor::SetReplayStream(Device device, void* stream) noexcept {
  impl_->data_plane_.SetReplayStream(device, stream);
}

bool Monitor::Measure(const Observation& at, const TensorView& tensor, Record* record) noexcept {
  return impl_->data_plane_.Measure(at, tensor, record);
}

void Monitor::Enqueue(const Record& record) noexcept {
  impl_->data_plane_.Enqueue(record);
}

void Monitor::Discard(const Record& record) noexcept {
  impl_->data_plane_.Discard(record);
}

void Monitor::EndStep() noexcept {
  impl_->data_plane_.EndStep();
}

int64_t Monitor::step() const noexcept {
  return impl_->data_plane_.step();
}

std::vector<LatestValue> Monitor::Latest(SiteKind kind, milliseconds timeout) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return {};
  return impl_->drain_.Latest(kind, timeout);
}

RefreshOutcome Monitor::Refresh(milliseconds timeout) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return RefreshOutcome::kUnchanged;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto outcome = std::make_shared<std::atomic<RefreshOutcome>>(RefreshOutcome::kTimedOut);
  auto settled = std::make_shared<std::atomic<bool>>(true);
  const auto look = [&impl = *impl_, outcome, settled] {
    impl.reloader_.Refresh();
    *outcome = impl.reloader_.outcome();
    *settled = impl.reloader_.settled();
    impl.PublishState();
  };
  if (!impl_->loop_.Call(look, timeout)) return RefreshOutcome::kTimedOut;
  if (*settled) return *outcome;
  // The ranks of the job decide on what was found.
  const auto take = [&impl = *impl_, outcome] { *outcome = impl.reloader_.outcome(); };
  const bool done = impl_->Await(&reload::Reloader::settled, deadline) && impl_->loop_.Call(take, kLoopCallTimeout);
  return done ? outcome->load() : RefreshOutcome::kTimedOut;
}

MonitorStatus Monitor::GetStatus() const {
  MonitorStatus status;
  status.step = impl_->data_plane_.step();
  if (!impl_->data_plane_.InOwner())
    return status;  // a thread that held the lock at the fork is not there to release it
  status.state = impl_->State();
  status.plan_id = impl_->data_plane_.plan_id();
  status.collected = status.plan_id == 0 ? 0 : impl_->data_plane_.collected();
  status.collecting_step = collecting();
  const runtime::StepGate& gate = std::as_const(impl_->data_plane_).gate();
  status.proposed_step = impl_->reloader_.proposed_step();
  status.in_doubt = gate.in_doubt();
  status.decision_waits = gate.waits();
  status.decision_timeouts = gate.timeouts();
  status.decision_wait_seconds = gate.seconds_waited();
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  status.output_dir = impl_->output_dir_;
  return status;
}

void Monitor::PublishStructure(std::string json) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return;
  impl_->loop_.Post([&impl = *impl_, json = std::move(json)] { impl.reloader_.PublishStructure(json); });
}

Status Monitor::Close(milliseconds timeout) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_.exchange(true)) return Status();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  impl_->data_plane_.Close();
  const bool drained = impl_->drain_.Stop(timeout);
  if (!drained) impl_->drain_.Abandon();
  // All that the drain had to say is on the board; the last handler performs what follows from it, the write-back
  // included.
  impl_->hung_ =
      !impl_->loop_.Call([&impl = *impl_] { impl.OnBoard(), impl.reloader_.StopWatching(); }, kLoopCallTimeout);
  if (impl_->hung_) {
    impl_->loop_.Abandon();
    return Status(StatusCode::kTimedOut, "the loop thread hangs in file I/O and was left behind");
  }
  impl_->loop_.Stop();
  impl_->data_plane_.SetHooks(nullptr);
  impl_->hung_ = !drained;
  if (!drained)
    return Status(StatusCode::kTimedOut, "a sink hangs and was left behind with the rows that it had not taken");
  if (std::chrono::steady_clock::now() > deadline)
    return Status(StatusCode::kTimedOut, "closing took longer than " + std::to_string(timeout.count()) + " ms");
  return Status();
}

}  // namespace stepwatch
