// Waiting until the rows of a run that goes on are out.
#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

constexpr std::chrono::milliseconds kShort{30};

TEST_CASE("after a flush the sink has the rows of every step that is over") {
  StartedRun run;
  run.PublishPlan({1, {0, 1, 1000000}});
  for (int i = 0; i < 50; ++i) {
    run.TrainStep(3);
    REQUIRE(run.drain.Flush(kLong));
    CHECK(run.sink->records().size() == static_cast<size_t>(3 * i));  // the plan holds from the second step on
  }
  run.Observe();  // of a step that is not over
  REQUIRE(run.drain.Flush(kLong));
  CHECK(run.sink->records().size() == 3 * 49);
}

TEST_CASE("a flush gives up in time where a sink takes nothing, and the next one finds the rows written") {
  Run run;
  run.sink->SetScript(Refuse);
  run.Start();
  run.PublishPlan({1, {0, 1, 1000000}});
  for (int i = 0; i < 3; ++i) run.TrainStep();
  CHECK_FALSE(run.drain.Flush(kShort));
  run.sink->SetScript({});
  CHECK(run.drain.Flush(kLong));
  CHECK(run.sink->records().size() == 2);
}

TEST_CASE("a flush waits for what a device owes") {
  StartedRun run(OneDevice());
  run.Begin({1, {0, 1, 1000000}, 3});
  run.ObserveOnDevice(1);
  run.plane.plans.EndStep();
  CHECK_FALSE(run.drain.Flush(kShort));
  run.devices[0].FinishAll();
  CHECK(run.drain.Flush(kLong));
  CHECK(run.sink->records().size() == 1);
}

TEST_CASE("nothing is waited for without a drain, and after its end") {
  Run run;
  CHECK(run.drain.Flush(kLong));
  run.Start();
  run.Finish();
  CHECK(run.drain.Flush(kLong));
}

}  // namespace
}  // namespace stepwatch::drain
