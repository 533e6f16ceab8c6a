// Batches: one call for many tensors gives the rows that as many calls would give.
#include <cstring>

#include "tests/drain/run_fixture.h"

namespace stepwatch::step {

using namespace drain;
namespace {

struct Tensors {
  // Different lengths, contents and dtypes; the third cannot be measured.
  explicit Tensors(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      std::vector<float> values(1 + i * 37 % 200);
      for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>((k * 7 + i) % 23) - 11;
      data.push_back(std::move(values));
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t size = static_cast<int64_t>(data[i].size());
      const DType dtype = i == 2 ? DType::kOther : i % 5 == 4 ? DType::kInt32 : DType::kFloat32;
      views.push_back(DenseView(data[i].data(), dtype, &size, 1));
      at.push_back({static_cast<SiteId>(i), static_cast<int32_t>(i % 3)});
    }
  }
  std::vector<std::vector<float>> data;
  std::vector<TensorView> views;
  std::vector<Observation> at;
};

void ObserveEach(Run& run, const Tensors& tensors) {
  for (size_t i = 0; i < tensors.views.size(); ++i) {
    Record record;
    if (run.plane.recorder.Measure(tensors.at[i], tensors.views[i], &record)) run.plane.recorder.Enqueue(record);
  }
}

bool SameRow(const Record& a, const Record& b) {
  return a.site == b.site && a.micro_step == b.micro_step && a.dtype == b.dtype && a.ndim == b.ndim &&
         a.dims == b.dims && a.flags == b.flags && a.value_count == b.value_count &&
         std::memcmp(&a.values[0].i64, &b.values[0].i64, sizeof(int64_t)) == 0;
}

// The same tensors one by one in step 1 and as a batch in step 2.
void CheckBatch(Run& run, Tensors tensors, size_t plan_sites, size_t expected_rows) {
  run.Start();
  run.Begin({1, {0, 1, 1000000}, plan_sites}, 4096);
  ObserveEach(run, tensors);
  run.plane.plans.EndStep();
  run.plane.recorder.ObserveBatch(tensors.at.data(), tensors.views.data(), tensors.views.size());
  run.plane.plans.EndStep();
  run.Produced(1, 2 * tensors.views.size());
  run.Finish();
  const std::vector<Record> records = run.sink->records();
  REQUIRE(records.size() == 2 * expected_rows);
  const size_t half = expected_rows;
  for (size_t i = 0; i < half; ++i) {
    INFO("row " << i);
    CHECK(records[half + i].step == records[i].step + 1);
    CHECK(SameRow(records[i], records[half + i]));
  }
}

TEST_CASE("a batch gives the rows of single observations, in their order") {
  Run run;
  CheckBatch(run, Tensors(300), 300, 299);
  CHECK(run.Dropped(1, DropReason::kUnsupported) == 2);
}

TEST_CASE("a batch larger than the plan's room is measured in parts, and sites that the plan lacks are late") {
  Run run;
  CheckBatch(run, Tensors(300), 7, 6);
  CHECK(run.Dropped(1, DropReason::kLate) == 2 * (300 - 7));
}

TEST_CASE("a batch over two devices and the CPU gives the rows of single observations, in few launches") {
  Run run(RunSetup{.devices = 2});
  for (size_t i = 0; i < 2; ++i) run.devices[i].FinishAtOnce();
  Tensors tensors(90);
  for (size_t i = 0; i < 60; ++i) tensors.views[i] = device::OnDevice(tensors.views[i], i < 30 ? 0 : 1);
  run.engine.Prepare({DeviceKind::kCuda, 0});
  CheckBatch(run, tensors, 90, 89);
  CHECK(run.devices[0].launches() == 29 + 1);  // one of them is refused before it comes so far
  CHECK(run.devices[1].launches() == 30 + 1);
}

TEST_CASE("a batch of nothing, and a batch in a step that is not collected, do nothing") {
  Run run;
  const Tensors tensors(5);
  run.Start();
  run.plane.recorder.ObserveBatch(tensors.at.data(), tensors.views.data(), 5);
  run.Begin({1, {0, 1, 1}, 5});
  run.plane.recorder.ObserveBatch(tensors.at.data(), tensors.views.data(), 0);
  run.plane.plans.EndStep();
  run.plane.recorder.ObserveBatch(tensors.at.data(), tensors.views.data(), 5);
  run.Finish();
  CHECK(run.drained[1].ledger.produced == 0);
}

TEST_CASE("batches of two threads at once: each row is there once") {
  Run run;
  const Tensors tensors(64);
  run.Start();
  run.Begin({1, {0, 1, 1000000}, 64}, 1 << 14);
  std::vector<std::thread> threads;
  for (int who = 0; who < 2; ++who)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        run.plane.recorder.ObserveBatch(tensors.at.data(), tensors.views.data(), tensors.views.size());
    });
  for (std::thread& thread : threads) thread.join();
  run.Produced(1, 2 * 20 * 64);
  run.Finish();
  CHECK(run.drained[1].ledger.written == 2 * 20 * 63);
  CHECK(run.Dropped(1, DropReason::kUnsupported) == 2 * 20);
}

std::atomic<int> lent{0};

TEST_CASE("the threads that the front end lends reach the kernels, and the rows stay the same") {
  RunSetup setup;
  setup.parallel_for = [](int64_t count, ParallelBody body, void* context) {
    ++lent;
    for (int64_t i = count; i > 0; --i) body(context, i - 1, i);  // any order will do
  };
  Run run(setup);
  Tensors tensors(4);
  for (size_t i = 0; i < 4; ++i) {
    tensors.data[i].resize(1 << 20, 0.5f);
    const int64_t size = 1 << 20;
    tensors.views[i] = DenseView(tensors.data[i].data(), DType::kFloat32, &size, 1);
  }
  CheckBatch(run, std::move(tensors), 4, 4);
  CHECK(lent.load() > 0);
}

}  // namespace
}  // namespace stepwatch::step
