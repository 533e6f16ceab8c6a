// Numbers that a front end computes itself: their rows wait for them as rows of a device do.
#include <map>
#include <set>

#include "stepwatch/late_results.h"
#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

// A front end whose numbers come when the test lets them.
class FrontEnd final : public LateResults {
 public:
  void Deliver(uint64_t ticket, double norm, double mean = 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    there_[ticket].norm = norm;
    there_[ticket].mean = mean;
  }
  bool Harvest(uint64_t ticket, Statistics* statistics) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++asked_;
    const auto found = there_.find(ticket);
    if (found == there_.end()) return false;
    *statistics = found->second;
    there_.erase(found);
    ++harvested_;
    return true;
  }
  void Discard(uint64_t ticket) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    discarded_.insert(ticket);
  }
  // How often the drain has looked for numbers.
  int asked() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return asked_;
  }
  int harvested() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return harvested_;
  }
  std::set<uint64_t> discarded() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return discarded_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, Statistics> there_;
  std::set<uint64_t> discarded_;
  int asked_ = 0;
  int harvested_ = 0;
};

TensorView Elsewhere() {
  const int64_t sizes[] = {2, 5};
  TensorView view = DenseView(nullptr, DType::kBFloat16, sizes, 2);
  view.device = kElsewhere;
  return view;
}

struct LateRun : Run {
  LateRun() {
    plane.recorder.SetLateResults(front_end);
    Start();
    Begin({1, {0, 1, 1000000}, 8});
  }
  void ObserveLate(SiteId site, uint64_t ticket, bool is_agreement = false) {
    Produced(1, 1);
    Record record;
    if (plane.recorder.MeasureLate({site}, Elsewhere(), {ticket, is_agreement, {}}, &record))
      plane.recorder.Enqueue(record);
  }

  std::shared_ptr<FrontEnd> front_end = std::make_shared<FrontEnd>();
};

TEST_CASE("a row of a tensor that the front end measures is written with the numbers that it gives later") {
  LateRun run;
  run.ObserveLate(3, 7);
  run.plane.plans.EndStep();
  run.Observe(1);
  run.plane.plans.EndStep();
  const int asked = run.front_end->asked();
  // By its second look the drain has handled frames once.
  REQUIRE(Eventually([&] { return run.front_end->asked() >= asked + 2; }));
  CHECK(run.sink->writes() == 0);  // the later step waits as well
  run.front_end->Deliver(7, 2.5);
  REQUIRE(run.WaitWritten(2));
  const Record record = run.sink->records()[0];
  CHECK(record.step == 1);
  CHECK(record.site == 3);
  CHECK(record.dtype == DType::kBFloat16);
  REQUIRE(record.ndim == 2);
  CHECK(record.dims[1] == 5);
  REQUIRE(record.value_count == 1);
  CHECK(record.values[0].f64 == 2.5);
  CHECK(record.flags == 0);
  CHECK(run.front_end->discarded().empty());
}

TEST_CASE("an agreement that the front end gives as a mean is recorded as a 0-d fp32 tensor of that value") {
  LateRun run;
  run.ObserveLate(0, 1, true);
  run.plane.plans.EndStep();
  run.front_end->Deliver(1, 3, -0.75);
  REQUIRE(run.WaitWritten(1));
  const Record record = run.sink->records()[0];
  CHECK(record.ndim == 0);
  CHECK(record.dtype == DType::kFloat32);
  REQUIRE(record.value_count == 1);
  CHECK(record.values[0].f64 == 0.75);  // its norm
}

TEST_CASE("numbers of the front end that have not come in time are dropped as late and their tickets discarded") {
  LateRun run;
  run.ObserveLate(0, 1);
  run.ObserveLate(1, 2);
  run.front_end->Deliver(2, 1);
  run.plane.plans.EndStep();
  REQUIRE(Eventually([&] { return run.front_end->harvested() == 1; }));
  run.PassTime(std::chrono::seconds(5));
  REQUIRE(run.WaitWritten(1));
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kLate) == 1);
  CHECK(run.front_end->discarded() == std::set<uint64_t>{1});
}

TEST_CASE("a ticket of a tensor that is not collected is discarded at once") {
  LateRun run;
  run.PublishStop();
  run.plane.plans.EndStep();
  Record record;
  CHECK_FALSE(run.plane.recorder.MeasureLate({0}, Elsewhere(), {4, false, {}}, &record));
  CHECK(run.front_end->discarded() == std::set<uint64_t>{4});
}

TEST_CASE("a front end that measures itself gets the tensors without an engine, and the lack is not reported") {
  LateRun run;
  CHECK(run.plane.recorder.Measures({DeviceKind::kCpu, 0}));
  CHECK_FALSE(run.plane.recorder.Measures({DeviceKind::kCuda, 0}));
  CHECK_FALSE(run.plane.recorder.Measures(kElsewhere));
  run.Observe();
  run.plane.plans.EndStep();
  run.Finish();
  CHECK(run.diagnostics.empty());
}

TEST_CASE("without numbers of a front end its tensors are unsupported") {
  StartedRun run;
  run.Begin({1});
  run.Produced(1, 1);
  Record record;
  CHECK_FALSE(run.plane.recorder.MeasureLate({0}, Elsewhere(), {1, false, {}}, &record));
  run.plane.plans.EndStep();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kUnsupported) == 1);
}

TEST_CASE("time that the front end has spent is counted with the site's kind, and that for all with the boundary") {
  LateRun run;
  Record record;
  run.Produced(1, 1);
  REQUIRE(run.plane.recorder.MeasureLate({0}, Elsewhere(), {1, false, std::chrono::seconds(3)}, &record));
  run.plane.recorder.Enqueue(record);
  run.plane.recorder.AddTime(std::chrono::seconds(2));
  run.front_end->Deliver(1, 1);
  run.plane.plans.EndStep();
  run.Finish();
  CHECK(run.drained.at(1).busy_seconds >= 5);
}

}  // namespace
}  // namespace stepwatch::drain
