// Requests of the control socket to a running monitor: pause, resume, rotate the files.
#include <memory>
#include <thread>

#include "controller/api/monitor_impl.h"
#include "controller/api/monitor_job.h"
#include "src/base/file.h"

namespace stepwatch::api {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookAgain{2};

// The result is shared with the loop, which may set it after the caller has timed out.
template <class Outcome, class Request>
Outcome CallLoop(Monitor::Impl& impl, const Request& request, steady_clock::time_point deadline) {
  const auto result = std::make_shared<Outcome>();
  const auto work = [&impl, result, request] {
    *result = request(impl.reloader_);
    impl.PublishState();
  };
  return !impl.closed_ && impl.loop_.Call(work, deadline) ? *result : Outcome();
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

status::PauseResult MonitorJob::Pause(bool pause, std::chrono::milliseconds time) {
  using Outcome = status::PauseResult::Outcome;
  const auto deadline = steady_clock::now() + time;
  const step::PlanSwitch& plans = impl_.data_plane_.plans;
  const auto asked = CallLoop<status::PauseResult>(
      impl_, [pause](reload::Reloader& reloader) { return reloader.pauses().Pause(pause); }, deadline);
  const auto is = [&](Outcome outcome) {
    const bool paused = plans.paused();  // read before the step to which it belongs
    const bool is_asked = outcome == Outcome::kAsked;
    return status::PauseResult{.outcome = outcome,
                               .paused = paused,
                               .plan_id = plans.plan_id(),
                               .step = impl_.data_plane_.running.number(),
                               .at_step = is_asked ? impl_.reloader_.proposed_step() : plans.pause_changed_at(),
                               .is_of_all_ranks = asked.is_of_all_ranks || impl_.options_.world_size == 1};
  };
  if (asked.outcome == Outcome::kUnchanged) return is(plans.paused() == pause ? Outcome::kUnchanged : Outcome::kAsked);
  if (asked.outcome != Outcome::kAsked) return is(asked.outcome);
  // An agreed request may already be decided, or withdrawn before it applies.
  if (asked.is_of_all_ranks && plans.paused() == pause) return is(Outcome::kAsked);
  const auto is_over = [&] { return plans.plan_id() == 0; };
  if (!WaitUntil([&] { return plans.paused() == pause || is_over(); }, deadline))
    return is(plans.plan_id() == asked.plan_id ? Outcome::kAsked : Outcome::kEnding);
  return is(is_over() ? Outcome::kEnding : Outcome::kDone);
}

status::RotateResult MonitorJob::Rotate(std::chrono::milliseconds time) {
  using Outcome = status::RotateResult::Outcome;
  const auto deadline = steady_clock::now() + time;
  auto result = CallLoop<status::RotateResult>(
      impl_, [](reload::Reloader& reloader) { return reloader.rotation().Rotate(); }, deadline);
  result.directory = Absolute(impl_.GetStatus().output_dir);
  if (result.outcome != Outcome::kAsked) return result;
  const auto has_begun = [&] {
    const base::MutexLock lock(&mutex_);
    const status::Segment& newest = view_.status.segment;
    if (newest.number < result.segment.number) return false;
    result.segment = newest;
    return true;
  };
  if (WaitUntil(has_begun, deadline)) result.outcome = Outcome::kDone;
  for (std::string& file : result.segment.files) file = base::BaseName(file);
  return result;
}

}  // namespace stepwatch::api
