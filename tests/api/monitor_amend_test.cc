// The program changes the plan that runs, without an edit of the file.
#include <nlohmann/json.hpp>

#include "tests/api/job.h"
#include "tests/api/manifest.h"

namespace stepwatch::testing {
namespace {

// Everything of a step but its end.
void Observe(Job* job) {
  job->model.TrainStep(job->monitor->recorder(), job->monitor->step());
}

// The statistics of each step's rows of one kind, after Close; "|" between those of files that both have the step.
std::map<int64_t, std::string> OpsByStep(const Job& job, const std::string& kind) {
  std::map<int64_t, std::string> ops;
  for (const Table& table : job.Tables(kind)) {
    std::string columns;
    for (size_t i = 3; i < table[0].size() && table[0][i] != "shape"; ++i) columns += table[0][i] + " ";
    std::set<int64_t> steps;
    for (size_t i = 1; i < table.size(); ++i) steps.insert(std::stoll(table[i].at(2)));
    for (const int64_t step : steps) ops[step] += (ops[step].empty() ? "" : "|") + columns;
  }
  return ops;
}

using OpsOf = std::map<int64_t, std::string>;

// "1: 0-3, 4 collected", for each plan of the manifest.
std::vector<std::string> Plans(const Job& job) {
  const nlohmann::json manifest = ManifestOf(job);
  std::vector<std::string> plans;
  for (const auto& plan : manifest["plans"]) {
    const std::string last = plan.contains("last_step") ? plan["last_step"].dump() : "";
    plans.push_back(plan["plan"].dump() + ": " +
                    (plan["state"] == "drained"
                         ? plan["first_step"].dump() + "-" + last + ", " + plan["collected"].dump() + " collected"
                         : plan["state"].get<std::string>()));
  }
  return plans;
}

using Lines = std::vector<std::string>;

TEST_CASE("ops set between steps hold from the step about to begin, and the window goes on") {
  for (bool dynamic : {true, false}) {
    INFO("dynamic " << dynamic);
    Job job(ConfigText({.collect_times = 4, .step_interval = 2}));
    job.options.dynamic = dynamic;
    job.Start();
    const int64_t first = dynamic ? 1 : 0;
    job.TrainSteps(first + 4);
    CHECK(job.monitor->Amend(Ops({"max", "min"})).ok());
    CHECK(job.monitor->GetStatus().plan_id == 2);
    CHECK(job.monitor->GetStatus().collected == 2);
    job.TrainSteps(8);
    job.Close();
    CHECK(OpsByStep(job, "grad_reduced") ==
          OpsOf{{first, "norm "}, {first + 2, "norm "}, {first + 4, "max min "}, {first + 6, "max min "}});
    const std::string f = std::to_string(first), before = std::to_string(first + 3), after = std::to_string(first + 4);
    CHECK(Plans(job) == Lines{"1: " + f + "-" + before + ", 2 collected",
                              "2: " + after + "-" + std::to_string(first + 6) + ", 2 collected"});
    CHECK(job.Count(EventKind::kWroteBack) == (dynamic ? 1 : 0));
  }
}

TEST_CASE("ops set in mid-step hold from the next: no frame is cut in two") {
  for (bool dynamic : {true, false}) {
    INFO("dynamic " << dynamic);
    Job job(ConfigText({.collect_times = 4}));
    job.options.dynamic = dynamic;
    job.Start();
    const int64_t first = dynamic ? 1 : 0;
    job.TrainSteps(first + 1);
    Observe(&job);
    CHECK(job.monitor->Amend(Ops({"max"})).ok());
    CHECK(job.monitor->GetStatus().plan_id == 1);
    Observe(&job);  // as much again, for the plan of this step
    job.monitor->EndStep();
    CHECK(job.monitor->GetStatus().plan_id == 2);
    job.TrainSteps(4);
    job.Close();
    CHECK(OpsByStep(job, "grad_reduced") ==
          OpsOf{{first, "norm "}, {first + 1, "norm "}, {first + 2, "max "}, {first + 3, "max "}});
    CHECK(job.RowsByStep("grad_reduced")[first + 1] == 4);
  }
}

TEST_CASE("a step that is not collected has nothing to cut: the amendment holds at once, for the next collected step") {
  StartedJob job(ConfigText({.collect_times = 2, .step_interval = 3}));
  job.TrainSteps(2);
  Observe(&job);  // step 2
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  CHECK(job.monitor->GetStatus().plan_id == 2);
  job.monitor->EndStep();
  job.TrainSteps(4);
  job.Close();
  CHECK(OpsByStep(job, "grad_reduced") == OpsOf{{1, "norm "}, {4, "max "}});
}

TEST_CASE("several amendments in one step add up, and the last one runs") {
  for (bool in_step : {true, false}) {
    INFO("in step " << in_step);
    StartedJob job(ConfigText({.collect_times = 3}, R"(, "forward_only": true)"));
    job.TrainSteps(2);
    if (in_step) Observe(&job);
    CHECK(job.monitor->Amend(Ops({"max"})).ok());
    CHECK(job.monitor->Amend(Xy(true)).ok());
    if (!in_step) Observe(&job);
    job.monitor->EndStep();
    job.TrainSteps(3);
    job.Close();
    CHECK(OpsByStep(job, "grad_reduced").at(3) == "max ");
    CHECK(job.Steps("actv") == (in_step ? Steps{3} : Steps{2, 3}));
    CHECK(job.Count(EventKind::kSuperseded) == (in_step ? 1 : 0));
    CHECK(Plans(job) == (in_step ? Lines{"1: 1-2, 2 collected", "2: superseded", "3: 3-3, 1 collected"}
                                 : Lines{"1: 1-1, 1 collected", "2: 2-, 0 collected", "3: 2-3, 2 collected"}));
  }
}

TEST_CASE("an unknown statistic is left out with a warning, and an empty list is norm") {
  StartedJob job(ConfigText({.collect_times = 9}));
  job.TrainSteps(2);
  CHECK(job.monitor->Amend(Ops({"max", "nrom", "max"})).ok());
  job.TrainStep();
  CHECK(job.monitor->Amend(Ops({"average"})).ok());
  job.TrainStep();
  CHECK(job.monitor->Amend(Ops({"shape", "min"})).ok());
  job.TrainStep();
  CHECK(job.monitor->Amend(Ops({})).ok());
  job.TrainStep();
  job.Close();
  CHECK(OpsByStep(job, "grad_reduced") == OpsOf{{1, "norm "}, {2, "max "}, {3, "norm "}, {4, ""}, {5, "norm "}});
  const Table shape_first = ReadTable(job.output_dir + "/grad_reduced_4-4.csv");
  CHECK(shape_first[0] == Lines{"vpp_stage", "name", "step", "shape", "min", "dtype"});
  const std::vector<Event> warnings = job.Events(EventKind::kWarning);
  REQUIRE(warnings.size() == 4);
  CHECK(warnings[0].place.key == "ops");
  CHECK(warnings[0].message.find("found \"nrom\"; accepted: norm, ") == 0);
  CHECK(Has(warnings[0].message, "it is left out (did you mean \"norm\"?)"));
  CHECK(warnings[1].message == "found \"max\"; accepted: each statistic once; it is left out");
  CHECK(warnings[3].message == "found a list without a usable statistic; \"norm\" is used");
}

TEST_CASE("an amendment that changes nothing makes no plan") {
  StartedJob job(ConfigText({.collect_times = 9}));
  job.TrainSteps(2);
  CHECK(job.monitor->Amend(Ops({"norm"})).ok());
  CHECK(job.monitor->Amend(Ops({"norm", "shape", "dtype"})).ok());
  CHECK(job.monitor->Amend(Xy(false)).ok());
  CHECK(job.monitor->Amend({}).ok());
  job.TrainStep();
  CHECK(job.monitor->GetStatus().plan_id == 1);
}

TEST_CASE(
    "xy_distribution switched on selects every module where there are no targets, and those targets that there are") {
  for (bool with_targets : {false, true}) {
    INFO("with targets " << with_targets);
    std::string config = ConfigText({.collect_times = 3});
    if (with_targets) config.replace(config.find("{}"), 2, R"({"layers.1": {}})");
    StartedJob job(config, 3);
    job.TrainSteps(2);
    CHECK(job.monitor->Amend(Xy(true)).ok());
    job.TrainStep();
    CHECK(job.monitor->Amend(Xy(false)).ok());
    job.TrainSteps(2);
    job.Close();
    const std::map<int64_t, int> expected{{2, 2 * (with_targets ? 1 : 3)}};
    CHECK(job.RowsByStep("actv") == expected);
    CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3});
  }
}

TEST_CASE("in static mode an amendment before the model is known holds for the plan to come") {
  Job job(ConfigText({.collect_times = 2, .gradients = false}));
  job.options.dynamic = false;
  REQUIRE(job.Create().ok());
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  CHECK(job.monitor->Amend(Xy(true)).ok());
  REQUIRE(job.Attach().ok());
  job.TrainSteps(3);
  job.Close();
  CHECK(OpsByStep(job, "param_origin") == OpsOf{{0, "max "}, {1, "max "}});
  CHECK(job.Steps("actv") == Steps{0, 1});
  CHECK(Plans(job) == Lines{"1: 0-1, 2 collected"});
}

TEST_CASE("in static mode an amendment right after Attach holds from the first step") {
  Job job(ConfigText({.collect_times = 2}));
  job.options.dynamic = false;
  job.Start();
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  job.TrainSteps(3);
  job.Close();
  CHECK(OpsByStep(job, "grad_reduced") == OpsOf{{0, "max "}, {1, "max "}});
  CHECK(Plans(job) == Lines{"1: 0-, 0 collected", "2: 0-1, 2 collected"});
  CHECK(EventText(job.Events(EventKind::kFinished).at(0)) == "plan 1 finished: 0 collected, replaced by a newer plan");
}

TEST_CASE("an amendment without a plan in force or armed is only noted, and the next look reads the file as it is") {
  Job job(ConfigText(Off()));
  REQUIRE(job.Create().ok());
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  REQUIRE(job.Attach().ok());
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  job.TrainStep();
  CHECK(job.Count(EventKind::kNote) == 2);
  job.Edit(ConfigText({.collect_times = 1}));
  job.TrainSteps(2);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  job.TrainSteps(2);
  job.Close();
  CHECK(OpsByStep(job, "grad_reduced") == OpsOf{{2, "norm "}});
  CHECK(job.Count(EventKind::kApplied) == 1);
}

TEST_CASE("with an edit armed behind a plan in force both are amended") {
  for (bool in_step : {true, false}) {
    INFO("in step " << in_step);
    StartedJob job(ConfigText({.collect_times = 9}));
    job.TrainSteps(2);
    if (in_step) Observe(&job);
    CHECK(job.Edit(ConfigText({.collect_times = 2}, R"(, "mv_distribution": true)")) == RefreshOutcome::kArmed);
    CHECK(job.monitor->Amend(Ops({"max"})).ok());
    if (!in_step) Observe(&job);
    job.monitor->EndStep();
    job.TrainSteps(4);
    job.Close();
    CHECK(OpsByStep(job, "grad_reduced") ==
          OpsOf{{1, "norm "}, {2, in_step ? "norm " : "max "}, {3, "max "}, {4, "max "}});
    CHECK(job.Steps("exp_avg") == Steps{3, 4});
    CHECK(job.Count(EventKind::kWroteBack) == 1);
  }
}

TEST_CASE("the next edit of the file replaces what was amended") {
  for (bool in_step : {true, false}) {
    INFO("in step " << in_step);
    StartedJob job(ConfigText({.collect_times = 9}));
    job.TrainSteps(2);
    if (in_step) Observe(&job);
    CHECK(job.monitor->Amend(Ops({"max"})).ok());
    if (!in_step) Observe(&job);
    CHECK(job.Edit(ConfigText({.collect_times = 2})) == RefreshOutcome::kArmed);
    job.monitor->EndStep();
    job.TrainSteps(4);
    job.Close();
    CHECK(OpsByStep(job, "grad_reduced") ==
          OpsOf{{1, "norm "}, {2, in_step ? "norm " : "max "}, {3, "norm "}, {4, "norm "}});
  }
}

TEST_CASE("a refused edit and the way back to the bytes in force leave an amendment as it is") {
  StartedJob job(ConfigText({.collect_times = 4}));
  job.TrainSteps(2);
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  CHECK(job.Edit("{") == RefreshOutcome::kRefused);
  job.TrainStep();
  CHECK(job.Edit(ConfigText({.collect_times = 4})) == RefreshOutcome::kUnchanged);
  job.TrainStep();
  CHECK(job.monitor->Amend(Xy(true)).ok());
  job.TrainSteps(3);
  job.Close();
  CHECK(OpsByStep(job, "grad_reduced") == OpsOf{{1, "norm "}, {2, "max "}, {3, "max "}, {4, "max "}});
  CHECK(job.Steps("actv") == Steps{4});
}

TEST_CASE("a model that grows after an amendment keeps it") {
  Job job(ConfigText({.collect_times = 4}));
  SyntheticModel grown(5, 8, 1);
  job.Start();
  job.TrainSteps(2);
  CHECK(job.monitor->Amend(Ops({"max"})).ok());
  job.TrainStep();
  REQUIRE(job.monitor->Attach(grown.Sites(), &grown).ok());
  job.TrainSteps(grown, 4);
  job.Close();
  CHECK(OpsByStep(job, "grad_reduced") == OpsOf{{1, "norm "}, {2, "max "}, {3, "max "}, {4, "max "}});
  CHECK(job.RowsByStep("grad_reduced")[3] == 5);
}

}  // namespace
}  // namespace stepwatch::testing
