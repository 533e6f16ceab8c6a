// L2 features: numbers that a front end has computed itself, on their way to the sinks.
#include <cmath>
#include <limits>

#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

void PublishTwoAttentions(Run& run) {
  run.Begin({1, {0, 1, 1000000}, 2, SiteKind::kAttention});
}

TEST_CASE("the numbers of a feature become one record, in the order of its columns, NaN among them") {
  StartedRun run;
  const double unseen[] = {7, 7};
  run.plane.recorder.ObserveValues({0}, unseen, 2);  // no step is collected yet
  PublishTwoAttentions(run);
  const double values[] = {1.5, kNan};
  run.Produced(1, 1);
  run.plane.recorder.ObserveValues({1, 3}, values, 2);
  run.plane.plans.EndStep();
  run.Finish();
  REQUIRE(run.sink->records().size() == 1);
  const Record record = run.sink->records()[0];
  CHECK(record.site == 1);
  CHECK(record.micro_step == 3);
  CHECK(record.step == 1);
  CHECK(record.flags == 0);
  REQUIRE(record.value_count == 2);
  CHECK(record.values[0].stat == Stat::kEntropy);
  CHECK(record.values[0].f64 == 1.5);
  CHECK(record.values[1].stat == Stat::kSoftmaxMax);
  CHECK(std::isnan(record.values[1].f64));
}

TEST_CASE("another count of numbers than the kind has columns is a dropped record, and so is a kind of ops") {
  StartedRun run;
  const double values[] = {1, 2, 3};
  PublishTwoAttentions(run);
  for (const size_t count : {0, 1, 3}) run.plane.recorder.ObserveValues({0}, values, count);
  run.Produced(1, 3);
  run.Begin({2, {0, 1, 1000000}});
  run.plane.recorder.ObserveValues({0}, values, 3);  // norm, shape, dtype
  run.plane.recorder.ObserveValues({9}, values, 3);  // no such site
  run.Produced(2, 2);
  run.plane.plans.EndStep();
  run.Finish();
  CHECK(run.sink->records().empty());
  CHECK(run.Dropped(1, DropReason::kUnsupported) == 3);
  CHECK(run.Dropped(2, DropReason::kUnsupported) == 1);
  CHECK(run.Dropped(2, DropReason::kLate) == 1);
}

TEST_CASE("a feature that is seen while the job's decision is not known is marked in doubt") {
  StartedRun run;
  PublishTwoAttentions(run);
  run.plane.gate.HoldAt(2);
  run.plane.plans.EndStep();
  REQUIRE(run.plane.gate.in_doubt());
  const double values[] = {1, 2};
  run.Produced(1, 1);
  run.plane.recorder.ObserveValues({0}, values, 2);
  run.plane.plans.EndStep();
  run.Finish();
  REQUIRE(run.sink->records().size() == 1);
  CHECK(run.sink->records()[0].flags == Record::kInDoubt);
}

}  // namespace
}  // namespace stepwatch::drain
