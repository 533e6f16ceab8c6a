#include "controller/api/monitor_job.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "controller/api/monitor_impl.h"
#include "controller/api/preview.h"
#include "controller/control_socket/pulse_grant.h"
#include "kernels/device_engine.h"
#include "kernels/kernels.h"
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

void Add(double seconds, control_socket::Durations* durations) {
  ++durations->count;
  durations->seconds += std::max(0.0, seconds);
}

control_socket::PlanFacts FactsOf(const reload::PlanView& view) {
  return {view.plan_id, view.config_sha256, view.collect_times, view.step_interval,
          view.at_step, view.sites,         view.rows_per_step, view.queue_bytes};
}

control_socket::LimitFacts FactsOf(const Limits& limits, const base::DiskMeter* meter) {
  control_socket::LimitFacts facts;
  facts.output_root = limits.output_root;
  facts.bytes_max = limits.bytes_max;
  facts.rows_per_step_max = limits.rows_per_step_max;
  facts.queue_bytes_max = limits.queue_bytes_max;
  if (limits.formats)
    for (const OutputFormat format : *limits.formats)
      facts.formats.emplace_back(kOutputFormats[static_cast<size_t>(format)].name);
  if (meter != nullptr) {
    facts.bytes_used = meter->used();
    facts.bytes_used_up = meter->level() == base::DiskMeter::Level::kUsedUp;
  }
  return facts;
}

std::optional<control_socket::CostFacts> CostOf(const drain::StatusBoard& board) {
  const step::StepCost cost = board.cost_so_far();
  if (cost.collected == 0) return std::nullopt;
  control_socket::CostFacts facts;
  facts.collected = cost.collected;
  facts.steps = cost.steps;
  facts.seconds = static_cast<double>(cost.total_ns()) * 1e-9;
  facts.device_seconds = static_cast<double>(board.device_ns_so_far()) * 1e-9;
  facts.step_seconds = std::max(0.0, static_cast<double>(cost.elapsed_ns) * 1e-9 - facts.seconds);
  const auto per_collected = board.cost_per_collected_step();
  for (size_t i = 0; i < cost.ns.size(); ++i)
    if (cost.ns[i] > 0)
      facts.parts.push_back({i == step::kBoundaryCost ? "boundary" : SiteKindName(static_cast<SiteKind>(i)),
                             static_cast<double>(cost.ns[i]) * 1e-9, per_collected[i]});
  return facts;
}

control_socket::BudgetFacts FactsOf(const budget::BudgetView& view) {
  control_socket::BudgetFacts facts{view.percent,       view.why_not,   view.factor,       {},
                                    view.spent_percent, view.decisions, view.last_decision};
  for (const SiteKind kind : view.left_out) facts.left_out.emplace_back(SiteKindName(kind));
  return facts;
}

control_socket::LookCounts LooksOf(const reload::ConfigFile& file) {
  using watch::LookCause;
  return {file.looks(LookCause::kEvent), file.looks(LookCause::kSlow), file.looks(LookCause::kAgain),
          file.looks(LookCause::kRefresh)};
}

control_socket::RefusalCounts RefusalsOf(const reload::EditReporter& reports) {
  using reload::RefusalReason;
  return {reports.refusals(RefusalReason::kSyntax), reports.refusals(RefusalReason::kValue),
          reports.refusals(RefusalReason::kLimit), reports.refusals(RefusalReason::kRank)};
}

// The reason why the file's config is not running or about to run.
std::string DriftOf(const reload::ReloadView& view, const std::string& running, const std::string& fault) {
  if (!view.file_trouble.empty()) return "the config file cannot be read: " + view.file_trouble;
  if (view.refusal) return "the content of the config file was refused";
  if (!fault.empty()) return "the content of the config file could not be applied: " + fault;
  if (view.overridden)
    return "the running or last plan was applied with --volatile; the config file has other content, which replaces it "
           "when the file changes";
  if (running.empty() || view.stopping || running == view.file_sha256 || view.file_sha256.empty()) return "";
  return "the running plan comes from another text than the config file holds";
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
      beats_({impl_.options_.run_id, base::ThisProcess().host, impl_.options_.rank, impl_.options_.world_size},
             &impl_.data_plane_.pulse) {
  if (impl_.files_.CurrentDirectory(&directory_) != 0) directory_.clear();
}

std::string MonitorJob::Absolute(const std::string& path) const {
  return path.empty() || path.front() == '/' || directory_.empty() ? path : base::JoinPath(directory_, path);
}

void MonitorJob::Publish(const reload::ReloadView& view) noexcept try {
  if (!view.run_id.empty()) beats_.SetRunId(view.run_id);
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
    peer = PeerOf(event);
    Count(event);
  } catch (const std::bad_alloc&) {
  }
  events_.Add(event, peer);
}

void MonitorJob::Expect(const std::string& sha256, const output::EditPeer& peer) {
  const base::MutexLock lock(&mutex_);
  sent_ = sha256;
  sender_ = peer;
}

// Each upload is attributed once, as another user may save the same bytes again.
std::optional<output::EditPeer> MonitorJob::PeerOf(const Event& event) {
  if (event.kind == EventKind::kSeen) {
    seen_ = event.sha256;
    seen_peer_ = sent_ == event.sha256 ? std::optional(sender_) : std::nullopt;
    sent_.clear();
    return seen_peer_;
  }
  return event.kind == EventKind::kRefused && event.sha256 == seen_ ? seen_peer_ : std::nullopt;
}

void MonitorJob::Count(const Event& event) {
  ++reported_.events;
  switch (event.kind) {
    case EventKind::kSeen:
      seen_at_ = event.t;
      reported_.last_aborted = false;
      break;
    case EventKind::kRefused: seen_at_.reset(); break;
    case EventKind::kAborted:
      ++reported_.aborts;
      seen_at_.reset();
      reported_.last_aborted = true;
      break;
    case EventKind::kArmed:
      if (seen_at_) Add(event.t - *seen_at_, &reported_.decisions);
      seen_at_.reset();
      break;
    case EventKind::kStopping: seen_at_.reset(); break;
    case EventKind::kFinished: finished_at_.emplace(event.plan_id, event.t); break;
    case EventKind::kApplied:
      ++reported_.applied;
      reported_.last_aborted = false;
      reported_.last_applied_unix = UnixNow();
      applied_plan_ = event.plan_id;
      applied_at_ = event.step;
      break;
    case EventKind::kDrained:
      reported_.ledger.produced += event.ledger.produced;
      reported_.ledger.written += event.ledger.written;
      for (size_t i = 0; i < event.ledger.dropped.size(); ++i) reported_.ledger.dropped[i] += event.ledger.dropped[i];
      reported_.measuring_seconds += event.busy_seconds;
      measured_ = control_socket::MeasuredPlan{event.plan_id, event.collected, event.busy_seconds};
      if (const auto finished = finished_at_.find(event.plan_id); finished != finished_at_.end()) {
        Add(event.t - finished->second, &reported_.drains);
        finished_at_.erase(finished);
      }
      break;
    case EventKind::kWroteBack: reported_.write_back = event.message; break;
    default: break;
  }
}

control_socket::JobStatus MonitorJob::GetStatus() {
  const auto now = steady_clock::now();
  const MonitorStatus monitor = impl_.GetStatus();
  const Options& options = impl_.options_;
  const base::MutexLock lock(&mutex_);
  control_socket::JobStatus status = reported_;
  status.monitor = monitor;
  status.pid = ::getpid();
  status.run_id = view_.run_id.empty() ? options.run_id : view_.run_id;
  status.job_id = options.job_id;
  status.incarnation = view_.incarnation;
  status.rank = options.rank;
  status.world_size = options.world_size;
  status.dynamic = impl_.dynamic_;
  status.limits = FactsOf(options.limits, impl_.storage_->meter());
  status.uptime_seconds = SecondsOf(now - impl_.start_);
  // The step thread may have applied an armed plan, or ended a window, without the loop knowing it yet.
  for (const auto& view : {view_.in_force, view_.armed}) {
    if (!view) continue;
    if (view->plan_id == monitor.plan_id) {
      status.plan = FactsOf(*view);
      if (applied_plan_ == view->plan_id) status.plan->at_step = applied_at_;
    }
  }
  if (view_.armed && view_.armed->plan_id != monitor.plan_id) status.armed = FactsOf(*view_.armed);
  status.running_sha256 = status.armed ? status.armed->config_sha256 : status.plan ? status.plan->config_sha256 : "";
  status.config_path = Absolute(options.config_path);
  status.monitor.output_dir = Absolute(monitor.output_dir);
  status.file_sha256 = view_.file_sha256;
  status.not_begun = view_.not_begun;
  status.file_trouble = view_.file_trouble;
  status.drift = DriftOf(view_, status.running_sha256, monitor.fault);
  if (view_.refusal)
    status.refusal = control_socket::RefusedEdit{view_.file_sha256, view_.refusal->message(), view_.refusal->place()};
  status.cost = CostOf(impl_.board_);
  if (view_.budget) status.budget = FactsOf(*view_.budget);
  status.watch_mode = view_.watch_mode;
  status.segment = view_.segment.segment;
  if (impl_.server_) status.tcp_address = impl_.server_->tcp_address();
  status.looks = LooksOf(impl_.reloader_.file());
  status.refusals = RefusalsOf(impl_.reloader_.reports());
  const step::SwapTimes swaps = impl_.data_plane_.plans.swap_times();
  status.swaps = {swaps.swaps, static_cast<double>(swaps.total_ns) * 1e-9};
  status.longest_swap_seconds = static_cast<double>(swaps.longest_ns) * 1e-9;
  // Ranks without a shared store answer only for themselves, each at its own control socket.
  const int others = impl_.ranks_.shares_store() ? options.world_size - 1 : 0;
  if (impl_.ranks_.Leads()) status.ranks = rank_states_.Now(monitor.state, others, now);
  status.step_seconds = step_time_.Seconds(now);
  status.written_plan_id = impl_.drain_.written_plan();
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
  const control_socket::ReportedStates reported = control_socket::StatesFrom(impl_.options_.rank, words);
  const base::MutexLock lock(&mutex_);
  rank_states_.Update(reported, steady_clock::now(), UnixNow());
}

void MonitorJob::Forward(const std::string& request, std::chrono::milliseconds time, bool is_urgent,
                         std::function<void(Result<std::string>)> then) {
  impl_.ranks_.Forward(request, time, is_urgent, std::move(then));
}

control_socket::DoctorReport MonitorJob::Examine() {
  const kernels::CpuReport cpu = kernels::DetectCpu();
  const kernels::CudaReport cuda = kernels::DetectCudaInUse();
  control_socket::DoctorReport report{cpu.in_use, cpu.available, cpu.wanted,  cpu.granted,
                                      cuda.built, cuda.devices,  cuda.reason, ""};
  const base::MutexLock lock(&mutex_);
  report.watch_mode = view_.watch_mode;
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
    inputs.file_sha256 = view_.file_sha256;
    inputs.sites = view_.sites;
    inputs.in_file = view_.in_file;
    inputs.measured = measured_;
    if (view_.armed)
      inputs.running = view_.armed;
    else if (collects && !view_.stopping)
      inputs.running = view_.in_force;
  }
  return MakePreview(inputs, text_untrusted);
}

}  // namespace stepwatch::api
