// The budget of a real monitor: the cost of measuring is found, reported and lowered, and no account suffers from it.
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "src/testing/synthetic_model.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"
#include "tests/api/manifest.h"

namespace stepwatch::testing {
namespace {

std::string WithBudget(const Wanted& wanted, const std::string& percent = "0.01") {
  return ConfigText(wanted, R"(, "stepwatch": {"budget": {"percent": )" + percent + "}}");
}

// A job whose collected steps cost far more than its budget, however long a busy machine makes its steps: one large
// tensor is seen beside the model's own.
class CostlyJob : public Job {
 public:
  explicit CostlyJob(const std::string& config) : Job(config) {
    counts_rows = false;  // a record of the large tensor replaces one of the model
    options.on_event = [this, report = options.on_event](const Event& event) {
      if (event.message == kHold)
        const std::lock_guard<std::mutex> until_released(loop_hold_);
      else
        report(event);
    };
  }

  void TrainStep() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    monitor->recorder().Observe({0}, View());
    while (std::chrono::steady_clock::now() < until) {
    }
    Job::TrainStep();
  }
  // Until the window is over.
  void TrainToTheEnd() {
    for (int64_t i = 0; i < 200000 && Count(EventKind::kWroteBack) == 0; ++i) TrainStep();
    REQUIRE(Count(EventKind::kWroteBack) == 1);
  }
  // The loop learns the cost of this step after its boundary, and has acted on it. A loop that learns it during the
  // boundary can let another plan begin at that very one.
  void TrainStepAndWait() {
    {
      const std::lock_guard<std::mutex> held(loop_hold_);
      Event hold;
      hold.message = kHold;
      monitor->Report(hold);
      TrainStep();
    }
    REQUIRE(monitor->Flush(std::chrono::seconds(10)));
    (void)Refresh();
  }
  // Until the loop has put another plan into the slot. No step follows.
  void TrainUntilResampled() {
    const size_t armed = Count(EventKind::kArmed);
    for (int i = 0; i < 10 && Count(EventKind::kArmed) == armed; ++i) TrainStepAndWait();
    REQUIRE(Count(EventKind::kArmed) == armed + 1);
  }
  std::vector<Event> Decisions(EventKind kind = EventKind::kNote) const {
    std::vector<Event> found;
    for (const Event& event : Events(kind))
      if (event.message.starts_with("budget of ")) found.push_back(event);
    return found;
  }

 private:
  static constexpr const char* kHold = "the loop waits";

  TensorView View() const {
    const int64_t size = static_cast<int64_t>(values_.size());
    return DenseView(values_.data(), DType::kFloat32, &size, 1);
  }
  const std::vector<float> values_ = std::vector<float>(1 << 18, 1.5f);
  std::mutex loop_hold_;
};

TEST_CASE("a job over its budget is collected less often, and events, manifest and rows agree on it") {
  CostlyJob job(WithBudget({.collect_times = 12}));
  job.Start();
  job.TrainUntilResampled();
  job.TrainToTheEnd();
  job.Close();
  const std::vector<Event> decisions = job.Decisions();
  REQUIRE_FALSE(decisions.empty());
  CHECK(decisions[0].message.starts_with("budget of 0.01 %: measuring takes "));
  CHECK(Has(decisions[0].message, "from now on 1 of "));

  // Twelve samples were taken, whatever the intervals.
  const Steps steps = job.Steps("grad_reduced");
  CHECK(steps.size() == 12);
  int64_t collected = 0;
  for (const Event& event : job.Events(EventKind::kFinished)) collected += event.collected;
  CHECK(collected == 12);

  // Each plan's rows lie on the interval that the manifest names, counted from the first step of the window.
  const nlohmann::json plans = ManifestOf(job)["plans"];
  REQUIRE(plans.size() == decisions.size() + 1);
  const int64_t start = plans[0]["first_step"];
  CHECK(plans[0]["budget"]["step_interval"] == 1);
  CHECK_FALSE(plans[0]["budget"].contains("decision"));
  std::set<int64_t> expected;
  for (size_t i = 0; i < plans.size(); ++i) {
    const nlohmann::json& plan = plans[i];
    CHECK(plan["state"] == "drained");
    CHECK(plan["budget"]["percent"] == 0.01);
    if (i > 0) {
      CHECK(plan["budget"]["decision"] == decisions[i - 1].message);
      CHECK(plan["plan"] == decisions[i - 1].plan_id);
      CHECK(plan["budget"] != plans[i - 1]["budget"]);
    }
    if (!plan.contains("last_step")) continue;
    for (int64_t step = plan["first_step"]; step <= plan["last_step"]; ++step)
      if ((step - start) % plan["budget"]["step_interval"].get<int64_t>() == 0) expected.insert(step);
  }
  CHECK(Steps(expected.begin(), expected.end()) == steps);
  CHECK(plans[1]["budget"]["step_interval"] > 1);
  CHECK(plans.back()["end_reason"] == "collect_times reached");
}

TEST_CASE("without a budget the same job collects each step, and its status shows the cost by kinds") {
  const ControlSockets sockets;
  CostlyJob job(ConfigText({.collect_times = 1000}));
  job.Start();
  for (int i = 0; i < 20; ++i) job.TrainStep();
  REQUIRE(job.monitor->Flush(std::chrono::seconds(10)));
  const Json status = sockets.Status();
  CHECK(status["budget"].is_null());
  CHECK(status["cost"]["collected"] == 19);
  CHECK(status["cost"]["steps"] == 19);
  CHECK(status["cost"]["percent"] > 0);
  const Json& parts = status["cost"]["parts"];
  CHECK(parts["grad_unreduced"] > 0);  // site 0 of the plan, where the large tensor is observed
  CHECK(parts["grad_reduced"] > 0);
  CHECK(parts["boundary"] > 0);
  CHECK_FALSE(parts.contains("actv"));
  const Json& each = status["cost"]["per_collected_step"];
  CHECK(each["grad_unreduced"].get<double>() * 19 == Approx(parts["grad_unreduced"].get<double>()));
  CHECK(each.size() == parts.size());
  job.Close();
  CHECK(job.Decisions().empty());
  CHECK(job.Steps("grad_reduced").size() == 19);
  CHECK_FALSE(ManifestOf(job)["plans"][0].contains("budget"));
}

TEST_CASE("the budget's plan that waits for its boundary gives way to a newer change, and every account is settled") {
  CostlyJob job(WithBudget({.collect_times = 25}));
  job.Start();
  job.TrainUntilResampled();
  const PlanId resampled = job.Events(EventKind::kArmed).back().plan_id;
  const auto check_superseded = [&] {
    const std::vector<Event> superseded = job.Events(EventKind::kSuperseded);
    REQUIRE(superseded.size() == 1);
    CHECK(superseded[0].plan_id == resampled);
  };
  SECTION("an edit") {
    REQUIRE(job.Edit(ConfigText({.collect_times = 3})) == RefreshOutcome::kArmed);
    check_superseded();
    job.TrainToTheEnd();
    job.Settle();
    CHECK(Has(Contents(job.config_path), "\"dynamic_on\"  :\tfalse"));
    job.Close();
    CHECK(job.Count(EventKind::kApplied) == 2);
  }
  SECTION("a stop, and then a window like any other") {
    REQUIRE(job.Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
    job.TrainStep();
    job.Settle();
    check_superseded();
    CHECK(job.monitor->GetStatus().state == RunState::kIdle);
    REQUIRE(job.Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
    job.TrainToTheEnd();
    job.Close();
  }
  SECTION("a call of the program: it keeps the window, and the budget acts again") {
    REQUIRE(job.monitor->Amend(Ops({"max", "min"})).ok());
    check_superseded();
    job.TrainUntilResampled();
    job.TrainStep();
    REQUIRE(job.WaitFor(EventKind::kApplied, 3));
    REQUIRE(job.monitor->Amend(Ops({"norm"})).ok());  // once the sampling is in force it stays
    REQUIRE(job.Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
    job.TrainStep();
    job.Settle();
    CHECK(job.monitor->GetStatus().state == RunState::kIdle);
    job.Close();
    CHECK(job.Decisions().size() == 2);
    const nlohmann::json plans = ManifestOf(job)["plans"];
    REQUIRE(plans.size() == 5);
    CHECK(plans[3]["budget"]["step_interval"] > 1);
    CHECK(plans[4]["budget"]["step_interval"] == plans[3]["budget"]["step_interval"]);
  }
  SECTION("a model that is attached again: it is watched in the same window") {
    REQUIRE(job.Attach().ok());
    job.TrainToTheEnd();
    job.Close();
    CHECK(job.Steps("grad_reduced").size() == 25);
  }
}

TEST_CASE("ranks of a job without a store report a budget that is exceeded, and go on collecting the same steps") {
  CostlyJob job(WithBudget({.collect_times = 40}));
  job.options.world_size = 2;
  job.Start();
  for (int i = 0; i < 45; ++i) job.TrainStepAndWait();
  job.Settle();
  job.Close();
  CHECK(job.Decisions().empty());
  CHECK(job.Count(EventKind::kArmed) == 1);
  CHECK(job.Steps("grad_reduced").size() == 40);
  const std::vector<Event> warnings = job.Decisions(EventKind::kWarning);
  REQUIRE(warnings.size() == 1);
  CHECK(Has(warnings[0].message,
            "this change is not made: the ranks of a job must collect the same steps, and without a store"));
}

TEST_CASE("in static mode the budget acts as well") {
  CostlyJob job(WithBudget({.collect_times = 12}));
  job.options.dynamic = false;
  job.Start();
  job.TrainUntilResampled();
  for (int64_t i = 0; i < 200000 && job.monitor->GetStatus().plan_id != 0; ++i) job.TrainStep();
  job.Close();
  CHECK(job.Decisions().size() >= 1);
  CHECK(job.Steps("grad_reduced").size() == 12);
}

}  // namespace
}  // namespace stepwatch::testing
