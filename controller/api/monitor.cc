// The facade: assembles loop, data plane and drain, and runs each call on the thread to which it belongs.
#include "stepwatch/monitor.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "controller/api/event_log.h"
#include "controller/api/job_id.h"
#include "controller/api/limits_in_force.h"
#include "controller/api/monitor_impl.h"
#include "src/base/mutex.h"
#include "src/output/run_directory.h"

namespace stepwatch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCloseTimeout{5000};
// The last part of the time of Close, at most a quarter of it, is reserved for the loop.
constexpr milliseconds kLoopReserve{1000};

// A thread that was abandoned in a call still uses these parts. They are kept for the rest of the process, and stay
// reachable for leak checkers.
template <class Parts>
void KeepForEver(std::unique_ptr<Parts> parts) noexcept {
  static auto& mutex = *new base::Mutex;
  static auto& kept = *new std::vector<std::unique_ptr<Parts>>;
  const base::MutexLock lock(&mutex);
  try {
    kept.push_back(std::move(parts));
  } catch (...) {
    (void)parts.release();
  }
}

bool DynamicFromEnvironment() {
  const char* value = std::getenv("DYNAMIC_MONITOR");
  std::string lower = value == nullptr ? "" : value;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower == "true";
}

}  // namespace

Monitor::Monitor(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)), recorder_(&impl_->data_plane_.recorder), graphs_(&impl_->data_plane_.graphs) {}

Result<std::unique_ptr<Monitor>> Monitor::Create(Options options) {
  return Impl::CreateMonitor(std::move(options), base::FileSystem::Real());
}

Result<std::unique_ptr<Monitor>> Monitor::Impl::CreateMonitor(Options options, base::FileSystem& files) try {
  const bool dynamic = options.dynamic.value_or(DynamicFromEnvironment());
  if (!options.on_event) options.on_event = api::MakeEventLog(options.rank, options.world_size);
  if (options.run_id.empty()) options.run_id = output::RandomRunId();
  options.job_id = api::JobIdOr(options.job_id);
  std::string replaced;
  if (options.grad_acc_steps < 1) {
    replaced += "grad_acc_steps " + std::to_string(options.grad_acc_steps) + " is below 1; 1 is used. ";
    options.grad_acc_steps = 1;
  }
  if (options.start_iteration < 0) {
    replaced += "start_iteration " + std::to_string(options.start_iteration) + " is below 0; 0 is used. ";
    options.start_iteration = 0;
  }
  if (options.group_mates.empty())  // without groups all ranks belong together
    for (int rank = 0; rank < options.world_size; ++rank) options.group_mates.push_back(rank);
  // Such a rank's vote would not be counted.
  if (options.store && (options.rank < 0 || options.rank >= options.world_size)) {
    replaced += "rank " + std::to_string(options.rank) + " is outside world_size " +
                std::to_string(options.world_size) + " (ranks count from 0); this rank runs alone, without the store. ";
    options.store = nullptr;
  }
  Result<Limits> limits = api::LimitsInForce(options.limits, api::SystemLimitSources(files));
  if (!limits.ok()) return limits.status();
  options.limits = std::move(limits).value();
  reload::BoundQueues(&options);
  auto storage = output::RunStorage::Open(options.limits, output::OutputBase(options.output_dir), files);
  if (!storage.ok()) return storage.status();
  std::unique_ptr<Monitor> monitor(
      new Monitor(std::make_unique<Impl>(std::move(options), dynamic, std::move(storage).value(), files)));
  Impl& impl = *monitor->impl_;
  if (!replaced.empty()) {
    Event event;
    event.kind = EventKind::kWarning;
    event.message = replaced;
    impl.Emit(std::move(event));
  }
  if (!dynamic) {
    const Status read = impl.reloader_.file().ReadOnce();
    if (!read.ok()) return read;
  }
  impl.PublishState();
  impl.Start();
  return monitor;
} catch (const std::exception& error) {
  // A lack of descriptors, threads or memory must not stop a training run from starting.
  return Status(StatusCode::kExhausted, std::string("the monitor cannot start: ") + error.what());
}

Monitor::~Monitor() {
  if (!impl_->data_plane_.InOwner()) {
    // A forked child has no threads of the monitor, and the files belong to its parent, so all parts are leaked
    // unchanged.
    (void)impl_.release();
    return;
  }
  (void)Close(kCloseTimeout);
  if (impl_->hung_) KeepForEver(std::move(impl_));
}

Status Monitor::Attach(SiteIndex sites, HookTable* hooks) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return Status(StatusCode::kUnavailable, "the monitor is closed");
  impl_->data_plane_.plans.SetHooks(hooks);
  impl_->NameModules(sites);
  impl_->TestServer();
  impl_->AwaitRunId();
  // Shared with the handler, which may run after this call has timed out because a file system hangs.
  auto shared_sites = std::make_shared<SiteIndex>(std::move(sites));
  const bool is_first = !std::exchange(impl_->awaited_look_, true);
  return impl_->ChangePlan([&impl = *impl_, shared_sites] { return impl.reloader_.Attach(std::move(*shared_sites)); },
                           is_first);
}

Status Monitor::Amend(const Amendment& amendment) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return Status(StatusCode::kUnavailable, "the monitor is closed");
  return impl_->ChangePlan([&impl = *impl_, amendment] { return impl.reloader_.replanner().Amend(amendment); });
}

void Monitor::PrepareDevice(Device device) noexcept {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return;
  impl_->engine_.Prepare(device);
  impl_->wake_up_.Post();
}

void Monitor::EndStep() noexcept {
  impl_->data_plane_.plans.EndStep();
}

int64_t Monitor::step() const noexcept {
  return impl_->data_plane_.running.number();
}

std::vector<LatestValue> Monitor::Latest(SiteKind kind, milliseconds timeout) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return {};
  return impl_->drain_.Latest(kind, timeout, impl_->options_.rank);
}

RefreshOutcome Monitor::Refresh(milliseconds timeout) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return RefreshOutcome::kUnchanged;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto outcome = std::make_shared<std::atomic<RefreshOutcome>>(RefreshOutcome::kTimedOut);
  auto settled = std::make_shared<std::atomic<bool>>(true);
  const auto look = [&impl = *impl_, outcome, settled] {
    impl.reloader_.Refresh();
    *outcome = impl.reloader_.reports().outcome();
    *settled = impl.reloader_.settled();
    impl.PublishState();
  };
  if (!impl_->loop_.Call(look, timeout)) return RefreshOutcome::kTimedOut;
  if (*settled) return *outcome;
  // The file has been read; the ranks of the job still decide on the change.
  const auto take = [&impl = *impl_, outcome] {
    *outcome = impl.reloader_.reports().outcome();
    impl.PublishState();
  };
  const bool done =
      impl_->Await(&reload::Reloader::settled, deadline) && impl_->loop_.Call(take, Impl::kLoopCallTimeout);
  return done ? outcome->load() : RefreshOutcome::kTimedOut;
}

bool Monitor::Flush(milliseconds timeout) {
  return !impl_->data_plane_.InOwner() || impl_->closed_ || impl_->drain_.Flush(timeout);
}

MonitorStatus Monitor::GetStatus() const {
  return impl_->GetStatus();
}

void Monitor::Report(Event event) noexcept {
  if (impl_->data_plane_.InOwner() && !impl_->closed_) impl_->Report(std::move(event));
}

void Monitor::PublishStructure(std::vector<ModuleStructure> modules) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return;
  impl_->loop_.Post(
      [&impl = *impl_, modules = std::move(modules)] { impl.reloader_.journal().PublishStructure(modules); });
}

void Monitor::PublishStacks(std::vector<std::pair<std::string, std::string>> rows) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_) return;
  impl_->loop_.Post([&impl = *impl_, rows = std::move(rows)] { impl.reloader_.journal().PublishStacks(rows); });
}

// One deadline for all steps. The drain stops a little earlier, so that the loop can still record the end of the plans.
// A loop that hangs finds the event outlet closed when it continues.
Status Monitor::Close(milliseconds timeout) {
  if (!impl_->data_plane_.InOwner() || impl_->closed_.exchange(true)) return Status();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  // The last part of the time is reserved for the loop and the files.
  const milliseconds reserve = std::min<milliseconds>(timeout / 4, kLoopReserve);
  impl_->data_plane_.plans.Close();
  impl_->data_plane_.plans.SetHooks(nullptr);
  const drain::StopOutcome drained = impl_->drain_.Stop(deadline - reserve, deadline - reserve / 2);
  const bool sink_hangs = drained == drain::StopOutcome::kHangs;
  if (sink_hangs) impl_->drain_.Detach();
  // The board has everything that the drain reported; the loop processes it, including the write-back.
  if (impl_->loop_.Call([&impl = *impl_] { impl.OnBoard(); }, deadline))
    (void)impl_->Await(&reload::Reloader::recorded, deadline - reserve / 2);
  const bool loop_answered = impl_->loop_.Call([&impl = *impl_] { impl.reloader_.StopWatching(); }, deadline);
  const bool written = loop_answered && impl_->Await(&reload::Reloader::written, deadline - reserve / 2);
  const bool config_stopped = impl_->io_.Stop(deadline - reserve / 2);
  const bool output_stopped = impl_->output_io_.Stop(deadline - reserve / 2);
  const bool files_hang = !written || !config_stopped || !output_stopped;
  const bool loop_ended = loop_answered && impl_->loop_.Stop(deadline);
  if (!loop_ended) impl_->loop_.Detach();
  (void)impl_->control_socket_.Close(deadline);
  if (impl_->job_) impl_->job_->beats().NoteEnd(impl_->end_.load(std::memory_order_relaxed));
  // Last, so that readers of the event stream receive the end.
  const bool socket_ended = !impl_->server_ || impl_->server_->Stop(deadline);
  // A thread that hangs in a file may continue and still use the limits and the output directory.
  impl_->hung_ = sink_hangs || !loop_ended || !socket_ended || !config_stopped || !output_stopped;
  if (!loop_ended)
    return Status(StatusCode::kTimedOut, "the loop thread hangs, possibly in on_event, and was abandoned");
  if (sink_hangs)
    return Status(StatusCode::kTimedOut, "a sink hangs and was abandoned with the rows that it had not accepted");
  if (files_hang)
    return Status(StatusCode::kTimedOut,
                  "the file system hangs: the thread that reads and writes files was abandoned in a call");
  if (drained == drain::StopOutcome::kGaveUp)
    return Status(StatusCode::kTimedOut, "not all rows were written within " + std::to_string(timeout.count()) +
                                             " ms; the others are counted as dropped");
  return Status();
}

}  // namespace stepwatch
