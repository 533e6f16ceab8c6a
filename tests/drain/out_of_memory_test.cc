// The drain without memory: every allocation of it fails once, and from every allocation on memory stays out.
//
// The test drives the drain round by round in its own thread, so that a run allocates the same from time to time; only
// what happens inside a round can fail.
#include <filesystem>
#include <limits>

#include "src/sinks/sink_makers.h"
#include "tests/drain/run_fixture.h"
#include "tests/failing_memory.h"
#include "tests/rounds.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::drain {
namespace {

using namespace testing;

constexpr int kSteps = 2;  // of each plan

// Gradients that come again, calls that become one row, a heat map, and alarms of all of it.
std::shared_ptr<const plan::Plan> PlanOf(PlanId id, bool keeps_alarms) {
  auto plan = std::make_shared<plan::Plan>(*MakePlan({id, {0, 1, kSteps}, 4}));
  plan->layout.sites[1].kind = SiteKind::kCommunication;
  plan->layout.sites[2].kind = SiteKind::kActvGrad;
  plan->layout.sites[3].kind = SiteKind::kAdamUpdate;
  plan->config.alert = {{{"AnomalyNan", 1e-9}}, keeps_alarms};
  return plan;
}

// A job of two plans whose drain is driven by hand: with CSV files, or with alarms that are kept.
class Job {
 public:
  explicit Job(bool csv) : run({.devices = 1}), csv_(csv) {
    auto file = std::make_unique<output::AnomalyFile>(AnomalyDirectory(directory_.path(), 0));
    run.drain.SetAlertManager(
        std::make_unique<AlertManager>(alerts::AlarmOrigin{0, 0, {0}}, std::move(file), &run.board));
    std::vector<std::shared_ptr<Sink>> sinks{run.sink};
    if (csv) sinks.insert(sinks.begin(), sinks::MakeCsvSink({directory_ / "rows"}));
    run.drain.SetSinks(std::move(sinks));
    run.drain.KeepLatest();
    run.DriveByHand();
    run.devices[0].FinishAtOnce();
  }

  void Train() {
    for (const PlanId plan : {1, 2}) {
      run.Put(run.MakePending(PlanOf(plan, !csv_)));
      run.plane.plans.EndStep();
      for (int step = 0; step < kSteps; ++step) {
        for (int i = 0; i < 5; ++i) run.Observe(0);
        for (int i = 0; i < 3; ++i) run.Observe(1);
        for (int i = 0; i < 2; ++i) run.Observe(2);
        run.ObserveOnDevice(0);
        HeatmapColumn column;
        column.site = 3;
        run.plane.recorder.ObserveHeatmaps({column});
        run.plane.plans.EndStep();
        Round();
      }
    }
    run.plane.plans.Close();
  }

  // Only the rounds may fail.
  void Round(bool last_call = false) {
    memory_failure.kind = then_;
    run.drain.Round(true, last_call);
    if (last_call) run.drain.Conclude();
    if (then_ == Failure::kOnce && memory_failure.has_failed) then_ = Failure::kNone;
    memory_failure.kind = Failure::kNone;
    run.Collect();
  }
  void Fail(Failure how, long allocation) {
    then_ = how;
    memory_failure = {Failure::kNone, allocation, false};
  }
  void Recover() { then_ = Failure::kNone; }

  uint64_t Rows() const {
    uint64_t rows = 0;
    for (const auto& [name, text] : sinks::test::ReadDirectory(directory_ / "rows"))
      rows += static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')) - 1;
    return rows;
  }
  uint64_t RowsOfCredit() const { return csv_ ? Rows() : run.sink->records().size(); }

  Run run;

 private:
  TemporaryDirectory directory_;
  const bool csv_;
  Failure then_ = Failure::kNone;
};

// In a step of 11 records 3 calls are one row, and the second of 2 gradients replaces the first.
constexpr uint64_t kRowsOfPlan = kSteps * (11 - 2 - 1);

void CheckAccounts(Job* job) {
  uint64_t written = 0;
  REQUIRE(job->run.begun.size() == 2);
  REQUIRE(job->run.ended.size() == 2);
  REQUIRE(job->run.drained.size() == 2);
  for (const auto& [plan, drained] : job->run.drained) {
    CHECK(drained.ledger.balanced());
    // Records that are lost before they could be merged count one by one.
    CHECK(drained.ledger.produced >= kRowsOfPlan);
    CHECK(drained.ledger.produced <= kSteps * 11);
    written += drained.ledger.written;
  }
  CHECK(written == job->RowsOfCredit());
  CHECK(job->run.devices[0].outstanding() == 0);
}

// The loss of one allocation, or of all for two rounds, delays rows and loses none.
void LoseNothing(Failure how, bool csv) {
  for (long allocation = 1;; allocation += Every(7)) {
    INFO("allocation " << allocation);
    Job job(csv);
    job.Fail(how, allocation);
    job.Train();
    const bool failed = memory_failure.has_failed;
    job.Recover();
    for (int i = 0; i < 4; ++i) job.Round();
    job.Round(true);
    CheckAccounts(&job);
    for (const auto& [plan, drained] : job.run.drained) {
      CHECK(drained.ledger.produced == kRowsOfPlan);
      CHECK(drained.ledger.written == kRowsOfPlan);
    }
    CHECK(job.RowsOfCredit() == 2 * kRowsOfPlan);
    if (!failed) return;
  }
}

TEST_CASE("an allocation of the drain that fails loses nothing, whichever it is", "[slow]") {
  LoseNothing(Failure::kOnce, false);
  LoseNothing(Failure::kOnce, true);
}

TEST_CASE("a while without memory delays rows and loses none", "[slow]") {
  LoseNothing(Failure::kFromThen, false);
  LoseNothing(Failure::kFromThen, true);
}

TEST_CASE("when memory stays out the account is exact, and the thread comes to its end", "[slow]") {
  for (const bool csv : {false, true})
    for (long allocation = 1;; allocation += Every(7)) {
      INFO("allocation " << allocation);
      Job job(csv);
      job.Fail(Failure::kFromThen, allocation);
      job.Train();
      job.Round();
      job.Round(true);
      CheckAccounts(&job);
      if (!memory_failure.has_failed) break;
    }
}

}  // namespace
}  // namespace stepwatch::drain
