// A batch gives the bits of single measurements, whatever threads it is lent.

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/cpu_engine.h"
#include "kernels/reference.h"
#include "tests/catch.h"
#include "tests/kernels/tensor_model.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::test {
namespace {

void OnCaller(int64_t count, ParallelBody body, void* context) {
  body(context, 0, count);
}

// One range for each of `kThreads` threads, in no order.
template <int kThreads>
void OnThreads(int64_t count, ParallelBody body, void* context) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([=] { body(context, count * i / kThreads, count * (i + 1) / kThreads); });
  for (std::thread& thread : threads) thread.join();
}

// Ranges of one, from the last to the first.
void Backwards(int64_t count, ParallelBody body, void* context) {
  for (int64_t i = count; i-- > 0;) body(context, i, i + 1);
}

std::atomic<int> calls{0};
void Counting(int64_t count, ParallelBody body, void* context) {
  ++calls;
  body(context, 0, count);
}

struct Subjects {
  std::vector<Tensor> tensors;
  std::vector<BatchItem> items;
};

Subjects RandomSubjects(std::mt19937_64* random) {
  Subjects subjects;
  std::vector<int64_t> sizes = {0, 1, 17, 4096, 65536, 65537, 300'000, testing::Rounds(2'000'000), 5, 0, 131'072};
  for (int i = 0; i < testing::Rounds(400); ++i) sizes.push_back(static_cast<int64_t>((*random)() % 9000));
  for (int64_t size : sizes) {
    const DType dtype = kAllDTypes[(*random)() % std::size(kAllDTypes)];
    subjects.tensors.push_back(RandomTensor(dtype, size, kAllFills[(*random)() % 4 + 1], random));
  }
  for (const Tensor& tensor : subjects.tensors) subjects.items.push_back({tensor.view(), {}, StatusCode::kInternal});
  return subjects;
}

// Names the items that differ from Measure.
std::string Mistaken(const std::vector<BatchItem>& items) {
  std::string wrong;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string difference = Difference(items[i].statistics, MeasureOrFail(items[i].tensor));
    if (items[i].code != StatusCode::kOk || !difference.empty()) wrong += std::to_string(i) + ": " + difference + "; ";
  }
  return wrong;
}

TEST_CASE("a batch gives the bits of single measurements for any number of threads") {
  std::mt19937_64 random(31);
  for (ParallelFor threads : {ParallelFor{nullptr}, ParallelFor{OnCaller}, ParallelFor{Backwards},
                              ParallelFor{OnThreads<2>}, ParallelFor{OnThreads<3>}, ParallelFor{OnThreads<7>}}) {
    Subjects subjects = RandomSubjects(&random);
    MeasureBatch(subjects.items.data(), subjects.items.size(), {}, threads);
    CHECK(Mistaken(subjects.items) == "");
  }
}

TEST_CASE("a large tensor that is not flat is cut among threads as well") {
  std::mt19937_64 random(37);
  const Tensor tensor = RandomTensor(DType::kFloat32, 700 * 900, Fill::kOrdinary, &random);
  TensorView view = tensor.view({700, 900});
  view.sizes[1] = 853;  // rows with a pitch
  view.numel = 700 * 853;
  BatchItem pitched{view, {}, StatusCode::kOk};
  MeasureBatch(&pitched, 1, {}, OnThreads<3>);
  Statistics expected;
  REQUIRE(reference::Measure(view, {}, &expected).ok());
  CHECK(Difference(pitched.statistics, expected) == "");
}

TEST_CASE("an item that cannot be measured does not disturb the others of its batch") {
  const float values[] = {1, 2, 3};
  int64_t three = 3;
  BatchItem items[4];
  for (BatchItem& item : items) item.tensor = DenseView(values, DType::kFloat32, &three, 1);
  items[0].tensor.dtype = DType::kOther;
  items[2].tensor.data = nullptr;
  for (ParallelFor threads : {ParallelFor{nullptr}, ParallelFor{OnThreads<2>}}) {
    for (BatchItem& item : items) item.statistics = {};
    MeasureBatch(items, 4, {}, threads);
    CHECK(items[0].code == StatusCode::kUnsupported);
    CHECK(items[1].code == StatusCode::kOk);
    CHECK(items[1].statistics.max == 3);
    CHECK(items[2].code == StatusCode::kInvalid);
    CHECK(items[3].statistics.mean == 2);
  }
}

TEST_CASE("threads are woken for large work only") {
  std::mt19937_64 random(41);
  const Tensor small = RandomTensor(DType::kFloat32, 4000, Fill::kOrdinary, &random);
  const Tensor large = RandomTensor(DType::kFloat32, 200'000, Fill::kOrdinary, &random);
  BatchItem item{small.view(), {}, StatusCode::kOk};
  calls = 0;
  MeasureBatch(&item, 1, {}, Counting);
  CHECK(calls == 0);
  item.tensor = large.view();
  MeasureBatch(&item, 1, {}, Counting);
  CHECK(calls == 1);
}

}  // namespace
}  // namespace stepwatch::kernels::test
