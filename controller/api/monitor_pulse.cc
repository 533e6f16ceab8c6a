// Reports of a training loop about its own state, for the pulse and the beats.
#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "controller/api/monitor_impl.h"
#include "src/base/process_identity.h"

namespace stepwatch {
namespace {

// Maximum length of a pause without a given end.
constexpr std::chrono::hours kPauseMax{1};

int64_t MonotonicMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

PhaseMark MarkOf(Phase phase, std::chrono::milliseconds expires) {
  if (phase == Phase::kPaused && expires.count() <= 0) expires = kPauseMax;
  const int64_t now = MonotonicMs();
  if (expires.count() <= 0) return {phase, 0};
  return {phase, expires.count() < std::numeric_limits<int64_t>::max() - now ? now + expires.count() : 0};
}

}  // namespace

void Monitor::Impl::OpenPulse() {
  step::PulseWriter::Setup setup;
  setup.process = base::ThisProcess();
  setup.run_id = options_.run_id;
  setup.rank = options_.rank;
  setup.world = options_.world_size;
  setup.has_queue = server_ != nullptr;
  const Status opened = data_plane_.pulse.Open(setup);
  if (!opened.ok())
    ReportNote("this run has no pulse, so its step is visible only through the control socket: " + opened.message() +
               "; training continues");
}

void Monitor::Impl::NameModules(const SiteIndex& sites) noexcept try {
  std::vector<std::string> names;
  names.reserve(sites.modules.size());
  for (const ModuleEntry& module : sites.modules)
    names.push_back(std::to_string(module.chunk) + ":" + module.as_written.value_or(module.name));
  const Status named = data_plane_.pulse.SetModules(names);
  if (!named.ok() && data_plane_.pulse.page_fd() >= 0)
    ReportNote("the pulse of this run contains no module names: " + named.message());
} catch (const std::bad_alloc&) {  // the pulse then has no module names
}

void Monitor::Report(const ReportedNumber* numbers, size_t count, int64_t step) noexcept {
  if (!impl_->closed_) impl_->data_plane_.pulse.Report(numbers, count, step);
}

void Monitor::ReportMeasured(const ReportedNumber* numbers, size_t count, int64_t step) noexcept {
  if (!impl_->closed_) impl_->data_plane_.pulse.ReportMeasured(numbers, count, step);
}

PhaseMark Monitor::SetPhase(Phase phase, std::chrono::milliseconds expires) noexcept {
  if (impl_->closed_) return {};
  return impl_->data_plane_.pulse.SetPhase(MarkOf(phase, expires));
}

void Monitor::RestorePhase(PhaseMark phase) noexcept {
  if (impl_->closed_) return;
  const bool is_over = phase.expires_ms > 0 && phase.expires_ms <= MonotonicMs();
  (void)impl_->data_plane_.pulse.SetPhase(is_over ? PhaseMark{Phase::kTrain, 0} : phase);
}

StepPart Monitor::EnterPart(StepPart part) noexcept {
  return impl_->closed_ ? StepPart::kRest : impl_->data_plane_.pulse.EnterPart(part);
}

void Monitor::ReportCheckpoint(int64_t step) noexcept {
  if (!impl_->closed_) impl_->data_plane_.pulse.ReportCheckpoint(step);
}

void Monitor::ReportSignal(int number) noexcept {
  if (!impl_->closed_) impl_->data_plane_.pulse.ReportSignal(number);
}

void Monitor::ReportException(const ExceptionReport& exception) noexcept {
  if (!impl_->data_plane_.InOwner() || impl_->closed_ || !impl_->job_) return;
  impl_->job_->beats().Note(exception);
  if (exception.ends_run) impl_->end_.store(RunEnd::kError, std::memory_order_relaxed);
}

void Monitor::ReportEnd(RunEnd end) noexcept {
  if (impl_->data_plane_.InOwner() && !impl_->closed_ && impl_->job_) impl_->job_->beats().NoteEnd(end);
}

}  // namespace stepwatch
