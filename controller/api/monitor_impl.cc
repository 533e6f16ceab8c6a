#include "controller/api/monitor_impl.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "kernels/device_engine.h"
#include "src/drain/alert_manager.h"
#include "src/output/run_directory.h"
#include "src/sockets/runtime_directory.h"

namespace stepwatch {
namespace {

using std::chrono::milliseconds;

// Poll interval of the loop for decisions that involve other ranks.
constexpr milliseconds kAskAgain{1};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::unique_ptr<drain::AlertManager> MakeAlertManager(const Options& options, base::FileSystem& files,
                                                      drain::StatusBoard* board) {
  auto file = std::make_unique<output::AnomalyFile>(
      drain::AnomalyDirectory(output::OutputBase(options.output_dir), options.rank), output::AnomalyFile::kBytesMax,
      files);
  return std::make_unique<drain::AlertManager>(alerts::AlarmOrigin{options.rank, options.pp_stage, options.group_mates},
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

Monitor::Impl::Impl(Options options, bool dynamic, std::unique_ptr<output::RunStorage> storage, base::FileSystem& files)
    : options_(std::move(options)),
      dynamic_(dynamic),
      files_(files),
      storage_(std::move(storage)),
      control_socket_(options_.on_event),
      loop_([this](const char* what) { ReportFault(what); }),
      board_([this] { loop_.Post([this] { board_.Woken(), OnBoard(); }); }),
      engine_(EngineOptionsOf(options_)),
      data_plane_(options_.start_iteration, &engine_, &wake_up_, options_.decision_wait),
      drain_(&board_, &engine_, &wake_up_, &data_plane_.plans.begun_plans(), options_.backlog_bytes_max),
      ranks_(this),
      reloader_(options_, dynamic,
                {&loop_.context(), &data_plane_, &drain_, &board_, &io_, &output_io_, storage_.get(), &files_, &ranks_,
                 [this] { PublishState(); }},
                [this](Event event) { Emit(std::move(event)); }),
      control_socket_settings_(api::SettingsOfControlSocket(options_, files_)),
      job_(control_socket_settings_.is_wanted || ranks_.shares_store() ? std::make_shared<api::MonitorJob>(this)
                                                                       : nullptr),
      server_(MakeServer()) {
  storage_->OnLevel([this]() noexcept {
    try {
      loop_.Post([this] { reloader_.OnDiskLevel(); });
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
}

std::unique_ptr<control_socket::Server> Monitor::Impl::MakeServer() {
  if (!control_socket_settings_.is_wanted) return nullptr;
  control_socket::ServerOptions options;
  const ControlSocketOptions& wanted = control_socket_settings_.options;
  options.directories =
      wanted.group.empty() ? sockets::RuntimeDirectories(::geteuid()) : sockets::SharedRuntimeDirectories(::geteuid());
  options.on_trouble = [this](const std::string& why) {
    ReportNote("cannot open the control socket of this run (for stepwatch ps, status): " + why +
               "; training continues");
  };
  options.on_note = [this](const std::string& note) { ReportNote(note); };
  options.readers = wanted.group;
  options.tcp = {wanted.tcp, wanted.token_file, wanted.tcp_name};
  options.files = &files_;
  return std::make_unique<control_socket::Server>(std::move(options), job_);
}

void Monitor::Impl::ReportNote(std::string message) {
  Event event;
  event.kind = EventKind::kNote;
  event.message = std::move(message);
  Report(std::move(event));
}

void Monitor::Impl::TestServer() noexcept {
  if (!server_ || std::exchange(opened_socket_, true)) return;
  try {
    if (!control_socket_settings_.trouble.empty()) ReportNote(control_socket_settings_.trouble);
    server_->Start();
  } catch (const std::exception& error) {  // no thread available
    try {
      ReportNote(std::string("cannot open the control socket of this run (for stepwatch ps, status): ") + error.what() +
                 "; training continues");
    } catch (const std::bad_alloc&) {
    }
  }
}

void Monitor::Impl::Start() {
  OpenPulse();
  if (!dynamic_) loop_.Post([this] { reloader_.JoinRanks(); });
  loop_.Start();
  closed_ = false;
  if (options_.keep_latest) drain_.KeepLatest();
  drain_.SetAlertManager(MakeAlertManager(options_, storage_->note_files(), &board_));
  drain_.Start();
}

void Monitor::Impl::Emit(Event event) {
  PublishState();
  event.t = SecondsSince(start_);
  if (job_) job_->Note(event);
  if (server_) server_->Wake();
  control_socket_.Emit(event);
}

void Monitor::Impl::Report(Event event) noexcept {
  if (!reported_.Put(std::move(event))) return;
  try {
    loop_.Post([this] {
      for (Event& each : reported_.Take()) Emit(std::move(each));
    });
  } catch (const std::bad_alloc&) {  // emitted with the next event of the board
  }
}

void Monitor::Impl::ReportFault(const char* what) {
  Event event;
  event.kind = EventKind::kDegraded;
  event.message = std::string("the loop thread caught an exception and continues: ") + what;
  Emit(std::move(event));
}

void Monitor::Impl::OnBoard() {
  for (Event& each : reported_.Take()) Emit(std::move(each));
  for (std::string& trouble : board_.TakeDiagnostics()) {
    Event event;
    event.kind = EventKind::kDegraded;
    event.message = std::move(trouble);
    Emit(std::move(event));
  }
  reloader_.OnBoard();
  PublishState();
}

void Monitor::Impl::PublishState() {
  loop_state_.store(reloader_.state(), std::memory_order_relaxed);
  {
    const base::MutexLock lock(&mutex_);
    output_dir_ = reloader_.journal().directory();
    fault_ = reloader_.reports().fault();
  }
  if (job_) PublishView();
}

void Monitor::Impl::PublishView() noexcept try {
  job_->Publish(reloader_.View());
} catch (const std::bad_alloc&) {  // the previous view stays until the next
}

MonitorStatus Monitor::Impl::GetStatus() const {
  MonitorStatus status;
  status.step = data_plane_.running.number();
  if (!data_plane_.InOwner()) return status;  // after a fork, a lock may be held by a thread that does not exist here
  status.state = State();
  status.plan_id = data_plane_.plans.plan_id();
  status.collected = status.plan_id == 0 ? 0 : data_plane_.plans.collected();
  status.collecting_step = data_plane_.recorder.collecting();
  status.paused = data_plane_.plans.paused();
  const step::StepGate& gate = data_plane_.gate;
  status.proposed_step = reloader_.proposed_step();
  status.in_doubt = gate.in_doubt();
  status.decision_waits = gate.waits();
  status.decision_timeouts = gate.timeouts();
  status.decision_wait_seconds = gate.seconds_waited();
  const base::MutexLock lock(&mutex_);
  status.output_dir = output_dir_;
  status.fault = fault_;
  return status;
}

bool Monitor::Impl::Await(bool (reload::Reloader::*question)() const, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    auto yes = std::make_shared<std::atomic<bool>>(false);
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= milliseconds(0)) return false;
    if (!loop_.Call([this, yes, question] { *yes = (reloader_.*question)(); }, left)) return false;
    if (*yes) return true;
    std::this_thread::sleep_for(std::min(left, kAskAgain));
  }
}

void Monitor::Impl::AwaitRunId() {
  if (std::exchange(knows_run_id_, true) || dynamic_ ||
      Await(&reload::Reloader::knows_run_id, std::chrono::steady_clock::now() + options_.run_id_wait))
    return;
  Event event;
  event.kind = EventKind::kNote;
  event.message = "the run id of rank 0 was not in the job's store within " +
                  std::to_string(options_.run_id_wait.count()) + " ms; this rank uses its own, " + options_.run_id;
  loop_.Post([this, event = std::move(event)]() mutable { Emit(std::move(event)); });
}

Status Monitor::Impl::ChangePlan(std::function<reload::Replanned()> change, bool awaits_look) {
  const auto deadline = std::chrono::steady_clock::now() + kLoopCallTimeout;
  struct Call {
    reload::Replanned replanned;
    std::atomic<bool> is_over{false};  // set first by the loop with its answer, or by this thread when it stops waiting
  };
  const auto call = std::make_shared<Call>();
  const bool done = loop_.Call(
      [this, call, change = std::move(change)] {
        try {
          call->replanned = change();
        } catch (const std::exception& error) {  // no descriptor or memory
          call->replanned.status =
              Status(StatusCode::kExhausted, std::string("the plan is unchanged: ") + error.what());
        }
        if (call->is_over.exchange(true)) reloader_.replanner().Discard(call->replanned);
        PublishState();
      },
      kLoopCallTimeout);
  if (!done && !call->is_over.exchange(true))
    return Status(StatusCode::kTimedOut, "the loop thread hangs; the change is still being tried");
  reload::Replanned& replanned = call->replanned;
  if (replanned.moved_hooks) data_plane_.plans.MoveHooks(std::move(replanned.moved_hooks));
  if (replanned.continuation) data_plane_.plans.ContinueWith(std::move(replanned.continuation));
  if (awaits_look && !Await(&reload::Reloader::looked, deadline))
    return Status(StatusCode::kTimedOut, options_.config_path +
                                             " is not read yet, possibly because its file system hangs. Training "
                                             "continues, and the config is applied as soon as it can be read");
  if (replanned.status.ok()) data_plane_.plans.ApplyBetweenSteps();
  return replanned.status;
}

RunState Monitor::Impl::State() const {
  if (data_plane_.plans.plan_id() != 0) return RunState::kCollecting;
  if (reloader_.proposed_step() >= 0) return RunState::kPreparing;
  const RunState state = loop_state_.load(std::memory_order_relaxed);
  if (state == RunState::kArmed && data_plane_.plans.plan_waiting()) return RunState::kArmed;
  // The loop learns of an ended window shortly after the step thread has ended it.
  return state == RunState::kArmed || state == RunState::kCollecting ? RunState::kDraining : state;
}

}  // namespace stepwatch
