#include "controller/reload/edit_requests.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <utility>

#include "src/base/ignore_exceptions.h"
#include "src/base/sha256.h"

namespace stepwatch::reload {
namespace {

using base::IgnoreExceptions;
using status::ChangeReport;
using status::ConfigChange;
using status::Verdict;

// Limit for the ranks' decision, and for a file that cannot be read for a moment. A client that waits longer repeats
// the request.
constexpr std::chrono::milliseconds kVerdictTime{1000};
constexpr std::chrono::milliseconds kAskAgain{2};

// Each displaced file holds a descriptor. A stop has places of its own, so that other changes cannot block it.
constexpr size_t kDisplacedMax = 64;
constexpr size_t kDisplacedMaxForStop = 96;

// More saves than can happen while one word is replaced.
constexpr int kTriesMax = 20;

bool IsWorthAnotherTry(const ConfigChange& change, const ChangeReport& report) {
  return report.outcome == ChangeReport::Outcome::kEdited && change.verb != ConfigChange::Verb::kApply &&
         change.if_match.empty();
}

}  // namespace

void EditRequests::Order(const std::shared_ptr<const EditOrder>& order, OnOrdered then) {
  ChangeReport report;
  const ConfigChange& change = order->change;
  const size_t displaced_max = change.verb == ConfigChange::Verb::kStop ? kDisplacedMaxForStop : kDisplacedMax;
  if (!parts_.file->is_watched() && parts_.controller->mode().shares_store && parts_.controller->is_attached())
    report.outcome = ChangeReport::Outcome::kNotReader;
  else if (!parts_.file->is_watched())
    report.message = "the monitor does not read its config yet; try again";
  else if (parts_.file->writer().displaced() >= displaced_max)
    report.message = "too many changes within five seconds (" + std::to_string(displaced_max) + "); try again";
  else
    return change.is_override ? OrderOverride(*order, then) : TryOrder(order, std::move(then), 1);
  then(report);
}

void EditRequests::OrderOverride(const EditOrder& order, const OnOrdered& then) {
  using Outcome = ChangeReport::Outcome;
  const auto report = std::make_shared<ChangeReport>();
  const ConfigChange& change = order.change;
  const std::string before = state_.seen, in_file = state_.in_file.value_or(before);
  if (change.if_match.empty() || change.if_match == in_file)
    *report = Override(change, order.on_written);
  else
    report->outcome = Outcome::kConflict;
  report->replaced_sha256 = in_file;
  if (report->outcome == Outcome::kUnchanged) report->outcome = Outcome::kOverridden;  // as it already runs
  if (report->outcome != Outcome::kOverridden) return then(*report);
  AwaitVerdict(report, then, before, std::chrono::steady_clock::now() + kVerdictTime);
}

// Compiled on the executor, by a pipeline of its own and the same sites: the running plan is not touched.
void EditRequests::TryOrder(const std::shared_ptr<const EditOrder>& order, OnOrdered then, int number) {
  const auto report = std::make_shared<ChangeReport>();
  report->outcome = ChangeReport::Outcome::kUnwritable;
  const ConfigChange& change = order->change;
  const auto pipeline = std::make_shared<EditPipeline>(*parts_.pipeline);
  if (change.at_step > 0) parts_.file->ordered_step().Expect(base::Sha256Hex(change.text), change.at_step);
  parts_.file->writer().Make(
      [report, order, pipeline, path = options_.config_path, id = state_.next_plan_id, files = parts_.files] {
        writeback::WriteBackResult result;
        *report = MakeOrderedEdit(path, order->change, pipeline.get(), id, *files, &result);
        return result;
      },
      [this, report, order, then = std::move(then), number](const Status& fault, const writeback::WriteBackResult&) {
        if (!fault.ok())
          report->message = "it is not known whether " + options_.config_path + " was changed: " + fault.message();
        else if (number < kTriesMax && IsWorthAnotherTry(order->change, *report))
          return TryOrder(order, then, number + 1);
        else if (report->is_done())
          return OnOrderWritten(*order, report, then);
        if (order->change.at_step > 0) parts_.file->ordered_step().Clear();
        then(*report);
      });
}

void EditRequests::OnOrderWritten(const EditOrder& order, const std::shared_ptr<ChangeReport>& report,
                                  const OnOrdered& then) {
  const ConfigChange& change = order.change;
  const bool is_written = report->outcome == ChangeReport::Outcome::kWritten;
  if (is_written) {
    parts_.history->Expect(report->sha256, change.peer);
    if (order.on_written) IgnoreExceptions([&] { order.on_written(report->sha256); });
  }
  const bool may_begin = !is_written && change.verb != ConfigChange::Verb::kStop;
  parts_.file->LookNow([this, report, then, may_begin, peer = change.peer, before = state_.seen] {
    if (may_begin && !parts_.file->writer().busy())
      IgnoreExceptions([&] { report->is_begun = parts_.restart->BeginAgain(report->sha256, peer); });
    parts_.file->ordered_step().OnLooked(state_.seen);
    AwaitVerdict(report, then, before, std::chrono::steady_clock::now() + kVerdictTime);
  });
}

// The file was looked at. In a job of ranks they must agree first.
void EditRequests::AwaitVerdict(const std::shared_ptr<ChangeReport>& report, const OnOrdered& then,
                                const std::string& seen_before, std::chrono::steady_clock::time_point deadline) {
  report->verdict = VerdictOn(report->sha256, seen_before);
  if (report->verdict.kind != Verdict::Kind::kPending || is_stopped_ || std::chrono::steady_clock::now() >= deadline)
    return then(*report);
  const auto timer = std::make_shared<boost::asio::steady_timer>(*parts_.loop, kAskAgain);
  timer->async_wait([this, timer, report, then, seen_before, deadline](const boost::system::error_code& error) {
    if (!error) AwaitVerdict(report, then, seen_before, deadline);
  });
}

Verdict EditRequests::VerdictOn(const std::string& sha256, const std::string& seen_before) const {
  const PlanController& controller = *parts_.controller;
  const bool undecided = controller.undecided();
  const auto about = [&](Verdict::Kind kind, PlanId plan_id) {
    return Verdict{kind, plan_id, controller.StepOf(plan_id), Status()};
  };
  if (state_.seen != sha256)
    return about(state_.lost || state_.seen == seen_before ? Verdict::Kind::kPending : Verdict::Kind::kSuperseded, 0);
  if (state_.refused)
    return {Verdict::Kind::kRefused, 0, -1,
            controller.current().sha256 == sha256 ? controller.current().refusal : Status()};
  if (state_.armed && state_.armed->sha256 == sha256)
    return about(undecided ? Verdict::Kind::kPending : Verdict::Kind::kArmed, state_.armed->plan_id);
  if (state_.stopping && state_.window)
    return about(undecided ? Verdict::Kind::kPending : Verdict::Kind::kStopping, state_.window->plan_id);
  if (state_.window && state_.window->sha256 == sha256) return about(Verdict::Kind::kRunning, state_.window->plan_id);
  return about(undecided ? Verdict::Kind::kPending : Verdict::Kind::kOff, 0);
}

ChangeReport EditRequests::Override(const ConfigChange& change,
                                    const std::function<void(const std::string& sha256)>& on_accepted) {
  using Outcome = ChangeReport::Outcome;
  ChangeReport report;
  report.sha256 = base::Sha256Hex(change.text);
  const auto is = [&](Outcome outcome) {
    report.outcome = outcome;
    return report;
  };
  PlanController& controller = *parts_.controller;
  if (!controller.mode().dynamic) return is(Outcome::kStatic);
  if (!controller.mode().reads_the_file) return is(Outcome::kNotReader);
  controller.FeedBegun();
  const bool goes_on = state_.window && !state_.stopping && !state_.armed && state_.window->sha256 == report.sha256;
  const bool waits = state_.armed && state_.armed->sha256 == report.sha256;
  if (state_.seen == report.sha256 && (goes_on || waits)) return is(Outcome::kUnchanged);
  Edit edit = parts_.pipeline->Parse(report.sha256, change.text);
  edit.at_step = change.at_step;
  const EditIntent intent = parts_.pipeline->Classify(&edit, state_.next_plan_id);
  Status refusal = intent == EditIntent::kRefused ? edit.refusal : WhyNoStep(intent, change.at_step);
  if (refusal.ok() && change.returns && intent != EditIntent::kRun)
    refusal = Status(StatusCode::kInvalid, "a return to the file requires a config that collects; this one does not");
  if (!refusal.ok()) {
    report.message = refusal.message();
    report.place = refusal.place();
    return is(Outcome::kInvalid);
  }
  if (controller.agreement() != nullptr) controller.agreement()->DiscardWriteBack();
  parts_.resampler->OnNewEdit();
  if (on_accepted) IgnoreExceptions([&] { on_accepted(report.sha256); });
  parts_.history->Overridden(report.sha256, change.text, state_.seen, change.peer,
                             report.sha256 != state_.in_file.value_or(state_.seen));
  Edit* const current = controller.mutable_current();
  const Edit before = std::exchange(*current, std::move(edit));
  try {
    controller.Feed(OverrideBytes{report.sha256, current->intent, change.returns});
  } catch (...) {
    *current = before;
    throw;
  }
  return is(Outcome::kOverridden);
}

status::EditTrial EditRequests::Try(const std::string& text) {
  status::EditTrial trial;
  try {
    agree::Change change;
    change.sha256 = base::Sha256Hex(text);
    change.bytes = text;
    const PlanAgreement::BuiltEdit built = parts_.edits->Build(change, state_.next_plan_id);
    if (built.edit.intent == EditIntent::kRefused) trial.refusal = built.edit.refusal;
    if (!built.plan) return trial;
    const plan::Plan& plan = built.plan->plan();
    trial.collects = true;
    trial.sites = static_cast<int64_t>(plan.layout.sites.size());
    trial.rows_per_step = static_cast<int64_t>(plan.RowsPerStep(options_.grad_acc_steps));
  } catch (const std::exception& error) {  // no memory, perhaps for the plan's ring
    trial.refusal = Status(StatusCode::kExhausted, error.what());
  }
  return trial;
}

}  // namespace stepwatch::reload
