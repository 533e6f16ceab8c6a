// Requests of the control socket to a running monitor: pause, resume, rotate the files.
#include <memory>
#include <optional>
#include <thread>

#include "controller/api/monitor_impl.h"
#include "controller/api/monitor_job.h"
#include "src/base/file.h"

namespace stepwatch::api {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAgain{2};

// The verdict is shared with the loop, which may set it after the caller has timed out.
template <class Verdict, class Request>
std::optional<Verdict> CallLoop(Monitor::Impl& impl, const Request& request, steady_clock::time_point deadline) {
  const auto verdict = std::make_shared<std::optional<Verdict>>();
  const auto work = [&impl, verdict, request] {
    *verdict = request(impl.reloader_);
    impl.PublishState();
  };
  if (impl.closed_ || !impl.loop_.Call(work, deadline)) return std::nullopt;
  return *verdict;
}

template <class Condition>
bool WaitUntil(const Condition& condition, steady_clock::time_point deadline) {
  while (!condition()) {
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

}  // namespace

control_socket::PauseResult MonitorJob::Pause(bool pause, std::chrono::milliseconds time) {
  using Asked = reload::PauseVerdict::Outcome;
  using Outcome = control_socket::PauseResult::Outcome;
  const auto deadline = steady_clock::now() + time;
  const step::PlanSwitch& plans = impl_.data_plane_.plans;
  const auto verdict = CallLoop<reload::PauseVerdict>(
      impl_, [pause](reload::Reloader& reloader) { return reloader.pauses().Pause(pause); }, deadline);
  const bool is_of_all = impl_.options_.world_size == 1 || (verdict && verdict->is_agreed);
  const auto is = [&](Outcome outcome) {
    const bool paused = plans.paused();  // read before the step to which it belongs
    const bool is_asked = outcome == Outcome::kAsked;
    return control_socket::PauseResult{.outcome = outcome,
                                       .paused = paused,
                                       .plan_id = plans.plan_id(),
                                       .step = impl_.data_plane_.running.number(),
                                       .at_step = is_asked ? impl_.reloader_.proposed_step() : plans.pause_changed_at(),
                                       .is_of_all_ranks = is_of_all};
  };
  if (!verdict) return is(Outcome::kNoAnswer);
  switch (verdict->outcome) {
    case Asked::kUnchanged: return is(plans.paused() == pause ? Outcome::kUnchanged : Outcome::kAsked);
    case Asked::kNotCollecting: return is(Outcome::kNotCollecting);
    case Asked::kEnding: return is(Outcome::kEnding);
    case Asked::kRanks: return is(Outcome::kRanks);
    case Asked::kAsked: break;
  }
  // An agreed request may already be decided, or withdrawn before it applies.
  if (verdict->is_agreed && plans.paused() == pause) return is(Outcome::kAsked);
  const auto is_over = [&] { return plans.plan_id() == 0; };
  if (!WaitUntil([&] { return plans.paused() == pause || is_over(); }, deadline))
    return is(plans.plan_id() == verdict->plan_id ? Outcome::kAsked : Outcome::kEnding);
  return is(is_over() ? Outcome::kEnding : Outcome::kDone);
}

control_socket::RotateResult MonitorJob::Rotate(std::chrono::milliseconds time) {
  using Asked = reload::RotationVerdict::Outcome;
  using Outcome = control_socket::RotateResult::Outcome;
  const auto deadline = steady_clock::now() + time;
  const auto verdict = CallLoop<reload::RotationVerdict>(
      impl_, [](reload::Reloader& reloader) { return reloader.rotation().Rotate(); }, deadline);
  control_socket::RotateResult result;
  result.directory = Absolute(impl_.GetStatus().output_dir);
  if (!verdict) return result;
  result.segment = verdict->segment;
  result.outcome = verdict->outcome == Asked::kUnderWay        ? Outcome::kUnderWay
                   : verdict->outcome == Asked::kNotCollecting ? Outcome::kNotCollecting
                                                               : Outcome::kAsked;
  if (result.outcome != Outcome::kAsked) return result;
  const auto has_begun = [&] {
    const base::MutexLock lock(&mutex_);
    if (view_.segment.segment < verdict->segment) return false;
    result.last_step = view_.segment.last_step;
    result.files = view_.segment.files;
    return true;
  };
  if (WaitUntil(has_begun, deadline)) result.outcome = Outcome::kDone;
  for (std::string& file : result.files) file = base::BaseName(file);
  return result;
}

}  // namespace stepwatch::api
