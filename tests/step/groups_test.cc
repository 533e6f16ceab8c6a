// Groups of sites in the steps of one plan: what is observed of a group that is not due leaves no trace.
#include "tests/step/graph_run.h"

namespace stepwatch::step {

using namespace drain;
namespace {

// Sites 0 to 5: of no group, of one in each second round, of one in each third, and once more.
std::shared_ptr<const plan::Plan> GroupedPlan(plan::StepRule rule = {0, 1, 1000000},
                                              SiteKind kind = SiteKind::kGradReduced) {
  auto plan = std::make_shared<plan::Plan>(*MakePlan({1, rule, 6, kind}));
  plan->layout.groups = {{2, {Stat::kMax, Stat::kNans}}, {3, {}}};
  for (size_t i = 0; i < 6; ++i) plan->layout.sites[i].group = static_cast<uint8_t>(i % 3);
  return plan;
}

bool IsDue(SiteId site, int64_t round) {
  return site % 3 == 0 || round % (static_cast<int64_t>(site % 3) + 1) == 0;
}

using Seen = std::vector<std::pair<int64_t, SiteId>>;

Seen Of(const std::vector<Record>& records) {
  Seen seen;
  for (const Record& record : records) seen.emplace_back(record.step, record.site);
  return seen;
}

Seen Due(int64_t first_step, int64_t interval, int64_t rounds) {
  Seen due;
  for (int64_t round = 0; round < rounds; ++round)
    for (SiteId site = 0; site < 6; ++site)
      if (IsDue(site, round)) due.emplace_back(first_step + round * interval, site);
  return due;
}

struct Six {
  Six() {
    for (size_t i = 0; i < 6; ++i) {
      const auto size = static_cast<int64_t>(i + 1);
      views.push_back(DenseView(data.data(), DType::kFloat32, &size, 1));
      at.push_back({static_cast<SiteId>(i)});
    }
  }
  std::vector<float> data = {1, -2, 3, 4, -5, 6};
  std::vector<TensorView> views;
  std::vector<Observation> at;
};

TEST_CASE("however a site is observed, it gives rows in the steps in which its group is due alone") {
  StartedRun run;
  run.Put(run.MakePending(GroupedPlan({5, 3, 7})));
  const Six six;
  Recorder& recorder = run.plane.recorder;
  const auto observe = [&](int way) {
    if (way == 3) return recorder.ObserveBatch(six.at.data(), six.views.data(), six.at.size());
    for (size_t i = 0; i < 6; ++i) {
      if (way == 0) recorder.Observe(six.at[i], six.views[i]);
      if (way == 1) recorder.ObserveMissing(six.at[i]);
      if (way == 2) recorder.ObserveAgreement(six.at[i], six.views[i], six.views[i]);
    }
  };
  for (int64_t step = 0; step < 40; ++step) {
    observe(static_cast<int>(step % 4));
    run.plane.plans.EndStep();
  }
  const Seen due = Due(5, 3, 7);
  run.Produced(1, due.size());
  run.Finish();
  CHECK(Of(run.sink->records()) == due);
  CHECK(run.drained[1].collected == 7);
}

TEST_CASE("a batch of which a part is due gives the rows of single observations") {
  Run run(OneDevice());
  run.devices[0].FinishAtOnce();
  run.Start();
  run.Put(run.MakePending(GroupedPlan()));
  run.plane.plans.EndStep();  // step 1 is round 1 of the rule
  Six six;
  six.views[3] = device::OnDevice(six.views[3], 0);
  for (size_t i = 0; i < 30; ++i) {  // more than a batch has room for
    six.at.push_back(Observation(six.at[i]));
    six.views.push_back(TensorView(six.views[i]));
  }
  for (size_t i = 0; i < six.at.size(); ++i) {
    six.at[i].call = static_cast<uint16_t>(i);
    run.plane.recorder.Observe(six.at[i], six.views[i]);
  }
  run.plane.plans.EndStep();
  for (int step = 2; step < 7; ++step) run.plane.plans.EndStep();
  run.plane.recorder.ObserveBatch(six.at.data(), six.views.data(), six.at.size());  // step 7: the same groups
  run.plane.plans.EndStep();
  run.Produced(1, 2 * 12);
  run.Finish();
  const auto records = run.sink->records();
  REQUIRE(records.size() == 24);
  for (size_t i = 0; i < 12; ++i) {
    INFO("row " << i);
    CHECK(records[i].step == 1);
    CHECK(records[12 + i].step == 7);
    CHECK(records[i].call == records[12 + i].call);
    CHECK(records[i].site % 3 == 0);
    CHECK(records[i].values[0].f64 == records[12 + i].values[0].f64);
  }
}

TEST_CASE("a record has the statistics of its site's group") {
  StartedRun run;
  run.Put(run.MakePending(GroupedPlan()));
  run.plane.plans.ApplyBetweenSteps();
  const Six six;
  run.plane.recorder.ObserveBatch(six.at.data(), six.views.data(), 3);
  run.plane.plans.EndStep();
  run.Produced(1, 3);
  run.Finish();
  const auto records = run.sink->records();
  REQUIRE(records.size() == 3);
  CHECK(records[0].value_count == 1);
  REQUIRE(records[1].value_count == 2);
  CHECK(records[1].values[0].stat == Stat::kMax);
  CHECK(records[1].values[0].f64 == 1);
  CHECK(records[1].values[1].stat == Stat::kNans);
  CHECK(records[2].value_count == 1);
  CHECK(records[2].values[0].stat == Stat::kNorm);
}

TEST_CASE("a front end can look up first which groups are due") {
  StartedRun run;
  run.Put(run.MakePending(GroupedPlan({1, 2, 3})));
  std::string due;
  for (int step = 0; step < 8; ++step) {
    due += std::to_string(step) + ":";
    for (uint8_t group = 0; group < 3; ++group)
      if (run.plane.recorder.collecting() && run.plane.recorder.collects(GroupSet{1} << group))
        due += std::to_string(group);
    due += " ";
    run.plane.plans.EndStep();
  }
  run.Finish();
  CHECK(due == "0: 1:012 2: 3:0 4: 5:01 6: 7: ");
}

TEST_CASE("replays of a graph give rows in the steps in which a group is due alone") {
  GraphRun run;
  run.Start();
  run.Put(run.MakePending(GroupedPlan()));
  run.plane.plans.EndStep();
  for (int step = 1; step < 6; ++step) run.plane.plans.EndStep();
  run.Capture({{0}, {1}, {2}});  // step 6 is due for all of them
  run.plane.plans.EndStep();
  for (int64_t step = 7; step < 13; ++step) {
    uint64_t rows = 0;
    for (SiteId site = 0; site < 3; ++site) rows += IsDue(site, step) ? 1 : 0;
    run.ReplayStep(static_cast<float>(step), rows);
  }
  run.Finish();
  Seen due;
  for (const auto& [step, site] : Due(0, 1, 13))
    if (step >= 7 && site < 3) due.emplace_back(step, site);
  CHECK(Of(run.sink->records()) == due);
}

}  // namespace
}  // namespace stepwatch::step
