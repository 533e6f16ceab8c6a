// Counts what the step thread allocates. Locks cannot be counted so: that a swap takes none is for readers of the code
// to see (atomics and one sem_post).
#include <cstdlib>
#include <new>

#include "tests/step/graph_run.h"

namespace {

thread_local bool counting = false;
thread_local int allocations = 0;
thread_local int releases = 0;

void* AllocateOrNull(std::size_t bytes) {
  if (counting) ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* Allocate(std::size_t bytes) {
  void* memory = AllocateOrNull(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* AllocateAligned(std::size_t bytes, std::align_val_t alignment) {
  if (counting) ++allocations;
  const auto size = static_cast<std::size_t>(alignment);
  void* memory = std::aligned_alloc(size, (bytes + size - 1) / size * size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Release(void* memory) {
  if (counting && memory != nullptr) ++releases;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return Allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return Allocate(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return AllocateAligned(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return AllocateAligned(bytes, alignment);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return AllocateOrNull(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return AllocateOrNull(bytes);
}
void operator delete(void* memory) noexcept {
  Release(memory);
}
void operator delete[](void* memory) noexcept {
  Release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  Release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  Release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  Release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  Release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  Release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  Release(memory);
}

namespace stepwatch::step {

using namespace drain;
namespace {

// Runs `work` on this thread; returns the count of its allocations and frees.
template <class Work>
int AllocatedBy(Work work) {
  allocations = releases = 0;
  counting = true;
  work();
  counting = false;
  return allocations + releases;
}

TEST_CASE("the counter counts") {
  CHECK(AllocatedBy([] {
          int* volatile kept = new int(7);  // a compiler may leave out a pair that it can see through
          delete kept;
        }) == 2);
}

TEST_CASE("the step thread allocates and frees nothing: steps, records, swaps, stops, the end of a window") {
  StartedRun run;
  const std::vector<float> values(1000, 1.5f);
  const int64_t size = 1000;
  const TensorView view = DenseView(values.data(), DType::kFloat32, &size, 1);
  Record record;
  CHECK(AllocatedBy([&] {
          for (int i = 0; i < 100; ++i) run.plane.plans.EndStep();
        }) == 0);
  for (PlanId id = 1; id <= 100; ++id) {
    run.PublishPlan({id, {0, 1, id % 7 == 0 ? 2 : 1000}});
    CHECK(AllocatedBy([&] { run.plane.plans.EndStep(); }) == 0);
    REQUIRE(run.plane.plans.plan_id() == id);
    run.Produced(id, 6);
    CHECK(AllocatedBy([&] {
            if (run.plane.recorder.Measure({0}, view, &record)) run.plane.recorder.Enqueue(record);
            run.plane.recorder.ObserveMissing({0});
            run.plane.recorder.ObserveAgreement({0}, view, view);
            run.plane.recorder.ObserveValues({0}, nullptr, 0);
            run.plane.plans.EndStep();
            for (int i = 0; i < 2; ++i)
              if (run.plane.recorder.Measure({0}, view, &record)) run.plane.recorder.Enqueue(record);
            run.plane.plans.EndStep();
          }) == 0);
    run.plane.plans.RequestPause(id, true);
    if (id % 3 == 0) run.plane.plans.RequestCut(id);
    CHECK(AllocatedBy([&] { run.plane.plans.EndStep(); }) == 0);
    run.plane.plans.RequestPauseAt(0, false);
    CHECK(AllocatedBy([&] { run.plane.plans.EndStep(); }) == 0);
    if (id % 5 == 0) run.PublishStop();
    CHECK(AllocatedBy([&] { run.plane.plans.EndStep(); }) == 0);
  }
  CHECK(AllocatedBy([&] { run.plane.plans.Close(); }) == 0);
}

TEST_CASE("the step thread allocates and frees nothing for its pulse and for what is reported, full or not") {
  Run run;
  REQUIRE(run.plane.pulse.Open({}).ok());
  run.Start();
  const ReportedNumber numbers[] = {{"loss", 2.5}, {"lr", 1e-4}, {"step", 0}};
  CHECK(AllocatedBy([&] {
          for (int i = 0; i < 10000; ++i) {
            run.plane.recorder.NoteModule(0, true, 0);
            run.plane.pulse.MarkModule(0, true, 0);
            run.plane.pulse.Report(numbers, 3, kStepInProgress);
            (void)run.plane.pulse.SetPhase({i % 2 == 0 ? Phase::kEval : Phase::kTrain, 0});
            run.plane.plans.EndStep();
          }
          run.plane.pulse.ReportSignal(10);
          run.plane.pulse.ReportCheckpoint(3);
        }) == 0);
  CHECK(run.plane.pulse.dropped() > 10000);
}

TEST_CASE("the step thread allocates and frees nothing for batches, for tensors on a device, nor for refused ones") {
  RunSetup setup;
  setup.devices = 1;
  setup.results_max = 256;
  Run run(setup);
  run.devices[0].FinishAtOnce();
  run.engine.Prepare({DeviceKind::kCuda, 0});
  run.Start();
  constexpr size_t kTensors = 200;
  const std::vector<float> values(1000, 1.5f);
  const int64_t size = 1000;
  const TensorView view = DenseView(values.data(), DType::kFloat32, &size, 1);
  std::vector<TensorView> views;
  std::vector<Observation> at;
  for (size_t i = 0; i < kTensors; ++i) {
    views.push_back(i < 100 ? view : device::OnDevice(view));
    at.push_back({static_cast<SiteId>(i)});
  }
  TensorView odd = view;
  odd.dtype = DType::kOther;
  views[7] = odd;
  views[150] = device::OnDevice(odd);
  Record record;
  for (PlanId id = 1; id <= 20; ++id) {
    run.PublishPlan({id, {0, 1, 1000}, kTensors});
    CHECK(AllocatedBy([&] { run.plane.plans.EndStep(); }) == 0);
    run.Produced(id, 2 * kTensors + 4);
    CHECK(AllocatedBy([&] {
            run.plane.recorder.ObserveBatch(at.data(), views.data(), kTensors);
            run.plane.plans.EndStep();
            run.plane.recorder.ObserveBatch(at.data(), views.data(), kTensors);
            if (run.plane.recorder.Measure({0}, device::OnDevice(view), &record)) run.plane.recorder.Enqueue(record);
            run.plane.recorder.ObserveAgreement({0}, device::OnDevice(view), device::OnDevice(view));
            if (run.plane.recorder.Measure({0}, odd, &record)) run.plane.recorder.Enqueue(record);
            run.plane.recorder.ObserveAgreement({0}, odd, odd);
            run.plane.plans.EndStep();
          }) == 0);
  }
  CHECK(AllocatedBy([&] { run.plane.plans.Close(); }) == 0);
}

TEST_CASE("the step thread allocates and frees nothing for steps that are captured graphs, nor for swaps under them") {
  GraphRun run;
  run.engine.Prepare({DeviceKind::kCuda, 0});
  run.Start();
  run.Begin();
  run.Capture({{1}, {5}});
  for (PlanId id = 2; id <= 40; ++id) {
    run.PublishPlan({id, {0, 1 + id % 3, 1000}, 4 + id % 3});
    const bool collects = run.plane.recorder.collecting();
    if (collects) run.Produced(id - 1, (id - 1) % 3 == 2 || id == 2 ? 2 : 1);
    run.device().Replay();
    CHECK(AllocatedBy([&] { run.plane.plans.EndStep(); }) == 0);
    REQUIRE(run.plane.plans.plan_id() == id);
  }
  CHECK(AllocatedBy([&] { run.plane.plans.Close(); }) == 0);
  run.Finish();
  CHECK(run.sink->records().size() > 20);
}

}  // namespace
}  // namespace stepwatch::step
