// The budget of a real monitor: what measuring takes is found out, told and lowered, and nothing else gets lost by it.
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "controller/control_socket/find_jobs.h"
#include "src/json/json.h"
#include "src/testing/synthetic_model.h"
#include "tests/api/job.h"
#include "tests/variable.h"

namespace stepwatch::testing {
namespace {

using SortedJson = nlohmann::json;

std::string WithBudget(const Wanted& wanted, const std::string& percent = "0.01") {
  return ConfigText(wanted, R"(, "stepwatch": {"budget": {"percent": )" + percent + "}}");
}

// A job whose collected steps cost far more than its budget, however long a busy machine makes its steps: one large
// tensor is seen beside the model's own.
class CostlyJob : public Job {
 public:
  explicit CostlyJob(const std::string& config) : Job(config) {
    options.on_event = [this, tell = options.on_event](const Event& event) {
      if (event.message == kHold)
        const std::lock_guard<std::mutex> until_released(loop_hold_);
      else
        tell(event);
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
  // The loop gets to know the cost of this step when its boundary is over, and has done what follows from it. A loop
  // that learns it during the boundary can have another plan begin at that very one.
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
  std::vector<Event> Decisions() const {
    std::vector<Event> found;
    for (const Event& event : Events(EventKind::kNote))
      if (event.message.find("budget of ") == 0) found.push_back(event);
    return found;
  }
  SortedJson Manifest() const {
    std::ifstream file(output_dir + "/manifest.json");
    return SortedJson::parse(file);
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
  job.counts_rows = false;  // what is observed beside the model replaces rows of it
  job.Start();
  job.TrainUntilResampled();
  job.TrainToTheEnd();
  job.Close();
  const std::vector<Event> decisions = job.Decisions();
  REQUIRE_FALSE(decisions.empty());
  CHECK(decisions[0].message.find("budget of 0.01 %: measuring takes ") == 0);
  CHECK(decisions[0].message.find("from now on 1 of ") != std::string::npos);

  // Twelve samples were taken, whatever the intervals.
  const Steps steps = job.Steps("grad_reduced");
  CHECK(steps.size() == 12);
  int64_t collected = 0;
  for (const Event& event : job.Events(EventKind::kFinished)) collected += event.collected;
  CHECK(collected == 12);

  // Each plan's rows lie on the interval that the manifest names, counted from the first step of the window.
  const SortedJson plans = job.Manifest()["plans"];
  REQUIRE(plans.size() == decisions.size() + 1);
  const int64_t start = plans[0]["first_step"];
  CHECK(plans[0]["budget"]["step_interval"] == 1);
  CHECK_FALSE(plans[0]["budget"].contains("decision"));
  std::set<int64_t> expected;
  for (size_t i = 0; i < plans.size(); ++i) {
    const SortedJson& plan = plans[i];
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

TEST_CASE("without a budget the same job collects each step, and its cost is told by kinds all the same") {
  TemporaryDirectory directory;
  const Variable variable("STEPWATCH_RUNTIME_DIR", directory / "run");
  CostlyJob job(ConfigText({.collect_times = 1000}));
  job.counts_rows = false;
  job.Start();
  for (int i = 0; i < 20; ++i) job.TrainStep();
  REQUIRE(job.monitor->Flush(std::chrono::seconds(10)));
  std::vector<control_socket::FoundJob> found;
  REQUIRE(Eventually([&] {
    found = control_socket::FindJobs({.directories = {directory / "run"}});
    return found.size() == 1 && !found[0].status.empty();
  }));
  const SortedJson status = SortedJson::parse(found[0].status);
  CHECK(status["budget"].is_null());
  CHECK(status["cost"]["collected"] == 19);
  CHECK(status["cost"]["steps"] == 19);
  CHECK(status["cost"]["percent"] > 0);
  const SortedJson& parts = status["cost"]["parts"];
  CHECK(parts["grad_unreduced"] > 0);  // site 0 of the plan, of which the large tensor is told
  CHECK(parts["grad_reduced"] > 0);
  CHECK(parts["boundary"] > 0);
  CHECK_FALSE(parts.contains("actv"));
  const SortedJson& each = status["cost"]["per_collected_step"];
  CHECK(each["grad_unreduced"].get<double>() * 19 == Approx(parts["grad_unreduced"].get<double>()));
  CHECK(each.size() == parts.size());
  job.Close();
  CHECK(job.Decisions().empty());
  CHECK(job.Steps("grad_reduced").size() == 19);
  CHECK_FALSE(job.Manifest()["plans"][0].contains("budget"));
}

TEST_CASE("an edit that comes while the budget's plan waits takes its place, and every account is settled") {
  CostlyJob job(WithBudget({.collect_times = 1000}));
  job.counts_rows = false;
  job.Start();
  job.TrainUntilResampled();
  const PlanId resampled = job.Events(EventKind::kArmed).back().plan_id;
  REQUIRE(job.Edit(ConfigText({.collect_times = 3})) == RefreshOutcome::kArmed);
  const std::vector<Event> superseded = job.Events(EventKind::kSuperseded);
  REQUIRE(superseded.size() == 1);
  CHECK(superseded[0].plan_id == resampled);
  job.TrainToTheEnd();
  job.Settle();
  CHECK(Contents(job.config_path).find("\"dynamic_on\"  :\tfalse") != std::string::npos);
  job.Close();
  CHECK(job.Count(EventKind::kApplied) == 2);
}

TEST_CASE("a stop that comes while the budget's plan waits ends the window at the next boundary") {
  CostlyJob job(WithBudget({.collect_times = 1000}));
  job.counts_rows = false;
  job.Start();
  job.TrainUntilResampled();
  REQUIRE(job.Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  job.TrainStep();
  job.Settle();
  CHECK(job.Count(EventKind::kSuperseded) == 1);
  CHECK(job.monitor->GetStatus().state == RunState::kIdle);
  // And the next window is as any other.
  REQUIRE(job.Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
  job.TrainToTheEnd();
  job.Close();
}

TEST_CASE(
    "a call of the program that comes while the budget's plan waits keeps the window, and the budget acts again") {
  CostlyJob job(WithBudget({.collect_times = 1000}));
  job.counts_rows = false;
  job.Start();
  job.TrainUntilResampled();
  Amendment amendment;
  amendment.ops = {"max", "min"};
  REQUIRE(job.monitor->Amend(amendment).ok());
  CHECK(job.Count(EventKind::kSuperseded) == 1);
  job.TrainUntilResampled();
  job.TrainStep();
  REQUIRE(job.WaitFor(EventKind::kApplied, 3));
  REQUIRE(job.Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  job.TrainStep();
  job.Settle();
  CHECK(job.monitor->GetStatus().state == RunState::kIdle);
  job.Close();
  CHECK(job.Decisions().size() == 2);
}

TEST_CASE("a call of the program keeps the sampling that the budget has brought") {
  CostlyJob job(WithBudget({.collect_times = 1000}));
  job.counts_rows = false;
  job.Start();
  job.TrainUntilResampled();
  job.TrainStep();
  REQUIRE(job.WaitFor(EventKind::kApplied, 2));
  Amendment amendment;
  amendment.ops = {"max", "min"};
  REQUIRE(job.monitor->Amend(amendment).ok());
  job.Close();
  const SortedJson plans = job.Manifest()["plans"];
  REQUIRE(plans.size() == 3);
  CHECK(plans[1]["budget"]["step_interval"] > 1);
  CHECK(plans[2]["budget"]["step_interval"] == plans[1]["budget"]["step_interval"]);
}

TEST_CASE("a model that is attached again while the budget's plan waits is watched in the same window") {
  CostlyJob job(WithBudget({.collect_times = 12}));
  job.counts_rows = false;
  job.Start();
  job.TrainUntilResampled();
  REQUIRE(job.Attach().ok());
  job.TrainToTheEnd();
  job.Close();
  CHECK(job.Steps("grad_reduced").size() == 12);
}

TEST_CASE("ranks of a job without a store are told of a budget that is exceeded, and go on collecting the same steps") {
  CostlyJob job(WithBudget({.collect_times = 40}));
  job.options.world_size = 2;
  job.counts_rows = false;
  job.Start();
  for (int i = 0; i < 45; ++i) job.TrainStepAndWait();
  job.Settle();
  job.Close();
  CHECK(job.Decisions().empty());
  CHECK(job.Count(EventKind::kArmed) == 1);
  CHECK(job.Steps("grad_reduced").size() == 40);
  std::vector<Event> told;
  for (const Event& event : job.Events(EventKind::kWarning))
    if (event.message.find("budget of ") == 0) told.push_back(event);
  REQUIRE(told.size() == 1);
  CHECK(told[0].message.find(
            "this change is not made: the ranks of a job must collect the same steps, and without a store") !=
        std::string::npos);
}

TEST_CASE("in static mode the budget acts as well") {
  CostlyJob job(WithBudget({.collect_times = 12}));
  job.counts_rows = false;
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
