// Edits that are ordered through the control socket: the file is changed on the executor, looked at at once, and
// whoever ordered it hears what this process makes of it.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "controller/reload/ordered_edit.h"
#include "controller/reload/quietly.h"
#include "controller/reload/reloader.h"
#include "src/base/sha256.h"

namespace stepwatch::reload {
namespace {

// For the ranks to decide, and for a file that cannot be looked at for a moment. Whoever waits longer asks again.
constexpr std::chrono::milliseconds kVerdictTime{1000};
constexpr std::chrono::milliseconds kAskAgain{2};

// Each has a descriptor, and a process has no endless number of them. A stop has places of its own: changes of others
// keep nobody from it.
constexpr size_t kDisplacedMax = 64;
constexpr size_t kDisplacedMaxForStop = 96;

// More saves than anybody makes while a word is changed.
constexpr int kTriesMax = 20;

bool IsWorthAnotherTry(const EditOrder& order, const OrderOutcome& outcome) {
  return outcome.kind == OrderOutcome::Kind::kEdited && order.kind != EditOrder::Kind::kReplace &&
         order.if_match_sha256.empty();
}

}  // namespace

void Reloader::Order(const std::shared_ptr<const EditOrder>& order, OnOrdered then) {
  OrderOutcome outcome;
  outcome.kind = OrderOutcome::Kind::kNotNow;
  const size_t displaced_max = order->kind == EditOrder::Kind::kStop ? kDisplacedMaxForStop : kDisplacedMax;
  if (!watcher_ && agreement_ && attached_)
    outcome.kind = OrderOutcome::Kind::kNotReader;
  else if (!watcher_)
    outcome.message = "the monitor does not read its config yet";
  else if (config_writer_.displaced() >= displaced_max)
    outcome.message = "too many changes within five seconds (" + std::to_string(displaced_max) + ")";
  else
    return order->is_volatile ? OrderGiven(*order, then) : TryOrder(order, std::move(then), 1);
  then(outcome);
}

void Reloader::OrderGiven(const EditOrder& order, const OnOrdered& then) {
  const auto outcome = std::make_shared<OrderOutcome>();
  const std::string before = state_.seen;
  outcome->found_sha256 = state_.in_file.value_or(before);
  outcome->sha256 = base::Sha256Hex(order.text);
  outcome->kind = OrderOutcome::Kind::kConflict;
  if (!order.if_match_sha256.empty() && order.if_match_sha256 != outcome->found_sha256) return then(*outcome);
  const GivenVerdict given = Give(order.text, order.peer, order.on_written, order.at_step);
  switch (given.outcome) {
    case GivenVerdict::Outcome::kRefused:
      outcome->kind = OrderOutcome::Kind::kInvalid;
      outcome->message = given.refusal.message();
      outcome->place = given.refusal.place();
      return then(*outcome);
    case GivenVerdict::Outcome::kStatic:
    case GivenVerdict::Outcome::kNotReader: outcome->kind = OrderOutcome::Kind::kNotReader; return then(*outcome);
    case GivenVerdict::Outcome::kTaken:
    case GivenVerdict::Outcome::kUnchanged: break;
  }
  outcome->kind = OrderOutcome::Kind::kGiven;
  AwaitVerdict(outcome, then, before, std::chrono::steady_clock::now() + kVerdictTime);
}

// Compiled on the executor, by a pipeline of its own and the same sites: nothing that runs is touched.
void Reloader::TryOrder(const std::shared_ptr<const EditOrder>& order, OnOrdered then, int number) {
  const auto outcome = std::make_shared<OrderOutcome>();
  const auto pipeline = std::make_shared<EditPipeline>(pipeline_);
  if (order->at_step > 0) ordered_ = {base::Sha256Hex(order->text), order->at_step, false};
  config_writer_.Make(
      [outcome, order, pipeline, path = options_.config_path, id = state_.next_plan_id, files = parts_.files] {
        writeback::WriteBackResult result;
        *outcome = MakeOrderedEdit(path, *order, pipeline.get(), id, *files, &result);
        return result;
      },
      [this, outcome, order, then = std::move(then), number](const Status& fault, const writeback::WriteBackResult&) {
        if (!fault.ok())
          outcome->message = "it is not known whether " + options_.config_path + " was changed: " + fault.message();
        else if (number < kTriesMax && IsWorthAnotherTry(*order, *outcome))
          return TryOrder(order, then, number + 1);
        else if (outcome->kind == OrderOutcome::Kind::kDone)
          return OnOrderWritten(*order, outcome, then);
        if (order->at_step > 0) ordered_ = {};
        then(*outcome);
      });
}

void Reloader::OnOrderWritten(const EditOrder& order, const std::shared_ptr<OrderOutcome>& outcome,
                              const OnOrdered& then) {
  if (outcome->is_written) {
    history_.Expect(outcome->sha256, order.peer);
    if (order.on_written) Quietly([&] { order.on_written(outcome->sha256); });
  }
  const bool may_begin = !outcome->is_written && order.kind != EditOrder::Kind::kStop;
  std::function<void()> done = [this, outcome, then, may_begin, peer = order.peer, before = state_.seen] {
    --looks_awaited_;
    if (may_begin) Quietly([&] { outcome->is_begun = BeginAgain(outcome->sha256, peer); });
    ordered_.is_looked_at = true;
    if (ordered_.sha256 == state_.seen) ordered_ = {};
    AwaitVerdict(outcome, then, before, std::chrono::steady_clock::now() + kVerdictTime);
  };
  ++looks_awaited_;
  watcher_->LookNow(std::move(done));
}

// Bytes that somebody else has saved before those that were ordered may still be seen first.
int64_t Reloader::StepOrdered(const std::string& sha256) {
  const bool is_ordered = ordered_.sha256 == sha256;
  const int64_t at_step = is_ordered ? ordered_.at_step : 0;
  if (is_ordered || ordered_.is_looked_at) ordered_ = {};
  return at_step;
}

// The file was looked at. In a job of ranks they have to agree first.
void Reloader::AwaitVerdict(const std::shared_ptr<OrderOutcome>& outcome, const OnOrdered& then,
                            const std::string& seen_before, std::chrono::steady_clock::time_point deadline) {
  outcome->verdict = VerdictOn(outcome->sha256, seen_before);
  if (outcome->verdict.kind != Verdict::Kind::kPending || is_stopped_ || std::chrono::steady_clock::now() >= deadline)
    return then(*outcome);
  const auto timer = std::make_shared<boost::asio::steady_timer>(*parts_.loop, kAskAgain);
  timer->async_wait([this, timer, outcome, then, seen_before, deadline](const boost::system::error_code& error) {
    if (!error) AwaitVerdict(outcome, then, seen_before, deadline);
  });
}

Verdict Reloader::VerdictOn(const std::string& sha256, const std::string& seen_before) const {
  const auto about = [this](Verdict::Kind kind, PlanId plan_id) {
    Verdict verdict{kind, plan_id, -1, Status()};
    const std::optional<PlanView> view = ViewOf(plan_id);
    if (view) verdict.at_step = view->at_step;
    return verdict;
  };
  if (state_.seen != sha256)
    return about(state_.lost || state_.seen == seen_before ? Verdict::Kind::kPending : Verdict::Kind::kSuperseded, 0);
  if (state_.refused) return {Verdict::Kind::kRefused, 0, -1, current_.sha256 == sha256 ? current_.refusal : Status()};
  if (state_.armed && state_.armed->sha256 == sha256)
    return about(undecided() ? Verdict::Kind::kPending : Verdict::Kind::kArmed, state_.armed->plan_id);
  if (state_.stopping && state_.window)
    return about(undecided() ? Verdict::Kind::kPending : Verdict::Kind::kStopping, state_.window->plan_id);
  if (state_.window && state_.window->sha256 == sha256) return about(Verdict::Kind::kRunning, state_.window->plan_id);
  return about(undecided() ? Verdict::Kind::kPending : Verdict::Kind::kOff, 0);
}

}  // namespace stepwatch::reload
