#include "controller/api/monitor_job.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "controller/api/monitor_impl.h"
#include "controller/api/preview.h"
#include "controller/control_socket/pulse_grant.h"
#include "controller/control_socket/ranks.h"
#include "src/base/file.h"
#include "src/base/process_identity.h"

namespace stepwatch::api {
namespace {

using std::chrono::steady_clock;

double SecondsOf(steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

double UnixNow() {
  return SecondsOf(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

void StepTime::Look(int64_t step, Time now) {
  if (!samples_.empty() && samples_.back().step == step) return;
  if (samples_.size() == kSamplesMax) samples_.pop_front();
  samples_.push_back({step, now});
}

std::optional<double> StepTime::Seconds(Time now) const {
  constexpr double kSilentTimes = 5;
  constexpr double kSilentSeconds = 5;
  if (samples_.size() < 2) return std::nullopt;
  const auto steps = static_cast<double>(samples_.back().step - samples_.front().step);
  const double seconds = SecondsOf(samples_.back().at - samples_.front().at) / steps;
  const double silent = SecondsOf(now - samples_.back().at);
  if (silent > std::max(kSilentSeconds, kSilentTimes * seconds)) return std::nullopt;
  return seconds;
}

MonitorJob::MonitorJob(Monitor::Impl* impl)
    : impl_(*impl),
      beats_({impl_.options_.run_id, base::ThisProcess().host, impl_.options_.rank, impl_.options_.world_size,
              control_socket::FindJobOwner(::getenv, impl_.files_)},
             &impl_.data_plane_.pulse) {
  if (impl_.files_.CurrentDirectory(&directory_) != 0) directory_.clear();
  view_.status.run_id = impl_.options_.run_id;
}

std::string MonitorJob::Absolute(const std::string& path) const {
  return path.empty() || path.front() == '/' || directory_.empty() ? path : base::JoinPath(directory_, path);
}

void MonitorJob::Publish(const reload::ReloadView& view) noexcept try {
  if (!view.status.run_id.empty()) beats_.SetRunId(view.status.run_id);
  reload::ReloadView copy = view;
  // The old view may be large, so it is freed after the lock is released.
  const base::MutexLock lock(&mutex_);
  std::swap(view_, copy);
} catch (const std::bad_alloc&) {  // the previous view stays until the next
}

void MonitorJob::Note(const Event& event) noexcept {
  std::optional<output::EditPeer> peer;
  try {
    const base::MutexLock lock(&mutex_);
    peer = tally_.Count(event, UnixNow());
  } catch (const std::bad_alloc&) {
  }
  events_.Add(event, peer);
}

status::JobStatus MonitorJob::GetStatus() {
  const auto now = steady_clock::now();
  const Options& options = impl_.options_;
  status::JobStatus status;
  status.pid = ::getpid();
  status.job_id = options.job_id;
  status.rank = options.rank;
  status.world_size = options.world_size;
  status.dynamic = impl_.dynamic_;
  status.uptime_seconds = SecondsOf(now - impl_.start_);
  status.config_path = Absolute(options.config_path);
  if (impl_.server_) status.tcp_address = impl_.server_->tcp_address();
  status.monitor = impl_.GetStatus();
  status.monitor.output_dir = Absolute(status.monitor.output_dir);
  status.looks = impl_.reloader_.file().looks();
  status.refusals = impl_.reloader_.reports().refusals();
  status.limits = options.limits;
  if (const base::DiskMeter* meter = impl_.storage_->meter()) {
    status.bytes_used = meter->used();
    status.bytes_used_up = meter->level() == base::DiskMeter::Level::kUsedUp;
  }
  const drain::StatusBoard& board = impl_.board_;
  status.cost = {board.cost_so_far(), board.device_ns_so_far(), board.cost_per_collected_step()};
  status.swaps = impl_.data_plane_.plans.swap_times();
  status.written_plan_id = impl_.drain_.written_plan();
  // Ranks without a shared store answer only for themselves, each at its own control socket.
  const int others = impl_.ranks_.shares_store() ? options.world_size - 1 : 0;
  const bool leads = impl_.ranks_.Leads();
  const base::MutexLock lock(&mutex_);
  status.reload = view_.status;
  status.counts = tally_.counts();
  status.step_seconds = step_time_.Seconds(now);
  if (leads) status.ranks = rank_states_.Now(status.monitor.state, others, now);
  // The step thread may have applied an armed plan, or ended a window, without the loop knowing it yet.
  const PlanId running = status.monitor.plan_id;
  std::optional<status::PlanStatus>& in_force = status.reload.in_force;
  std::optional<status::PlanStatus>& armed = status.reload.armed;
  if (armed && armed->plan_id == running)
    in_force = std::exchange(armed, std::nullopt);
  else if (in_force && in_force->plan_id != running)
    in_force.reset();
  if (in_force) in_force->at_step = tally_.FirstStepOf(running).value_or(in_force->at_step);
  return status;
}

size_t MonitorJob::metrics_sites_max() const {
  return impl_.control_socket_settings_.options.metrics_sites_max;
}

control_socket::PulseGrant MonitorJob::Pulse() {
  return control_socket::GrantPulse(impl_.data_plane_.pulse);
}

void MonitorJob::Tick() {
  beats_.Take();
  const int64_t step = impl_.data_plane_.running.number();
  const base::MutexLock lock(&mutex_);
  step_time_.Look(step, steady_clock::now());
}

std::vector<LatestValue> MonitorJob::Latest(SiteKind kind, std::chrono::milliseconds timeout) {
  return impl_.closed_ ? std::vector<LatestValue>() : impl_.drain_.Latest(kind, timeout, impl_.options_.rank);
}

bool MonitorJob::Leads() const {
  return impl_.ranks_.Leads();
}

void MonitorJob::AskRanks(const std::string& question, std::chrono::milliseconds time,
                          std::function<void(Result<control_socket::RankWords>)> then) {
  if (control_socket::RankQuestionFrom(question).matter != control_socket::RankMatter::kReport)
    return impl_.ranks_.Ask(question, time, std::move(then));
  impl_.ranks_.Ask(question, time, [this, then = std::move(then)](Result<control_socket::RankWords> words) {
    if (words.ok()) NoteStates(words.value());
    then(std::move(words));
  });
}

void MonitorJob::NoteStates(const control_socket::RankWords& words) {
  if (!words.alone.empty()) return;
  const status::StateCounts reported = control_socket::StatesFrom(impl_.options_.rank, words);
  const base::MutexLock lock(&mutex_);
  rank_states_.Update(reported, steady_clock::now(), UnixNow());
}

void MonitorJob::Forward(const std::string& request, std::chrono::milliseconds time, bool is_urgent,
                         std::function<void(Result<std::string>)> then) {
  impl_.ranks_.Forward(request, time, is_urgent, std::move(then));
}

control_socket::DoctorReport MonitorJob::Examine() {
  control_socket::DoctorReport report{kernels::DetectCpu(), kernels::DetectCudaInUse(), ""};
  const base::MutexLock lock(&mutex_);
  report.watch_mode = view_.status.watch_mode;
  return report;
}

Result<control_socket::PlanPreview> MonitorJob::Preview(const std::string& text_untrusted) {
  const bool collects = impl_.GetStatus().plan_id != 0;
  const reload::PlanLimits limits(impl_.options_, impl_.storage_.get());
  PreviewInputs inputs;
  inputs.limits = &limits;
  inputs.rank = impl_.options_.rank;
  inputs.dynamic = impl_.dynamic_;
  inputs.micro_batches = impl_.options_.grad_acc_steps;
  {
    const base::MutexLock lock(&mutex_);
    if (view_.sites == nullptr) return Status(StatusCode::kUnavailable, "the model is not attached yet; try again");
    inputs.file_sha256 = view_.status.file_sha256;
    inputs.sites = view_.sites;
    inputs.in_file = view_.in_file;
    inputs.measured = tally_.measured();
    if (view_.armed)
      inputs.running = view_.armed;
    else if (collects && !view_.status.stopping)
      inputs.running = view_.in_force;
  }
  return MakePreview(inputs, text_untrusted);
}

}  // namespace stepwatch::api
