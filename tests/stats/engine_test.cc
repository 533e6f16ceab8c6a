// The record that the engine writes.

#include "src/stats/engine.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::stats {
namespace {

RecordLayout LayoutOf(std::vector<Stat> stats) {
  RecordLayout layout;
  layout.stats = std::move(stats);
  return layout;
}

std::vector<Stat> AllStats() {
  std::vector<Stat> stats;
  for (int i = 0; i < kOpCount; ++i) stats.push_back(static_cast<Stat>(i));
  return stats;
}

template <class T>
TensorView View(const std::vector<T>& values, DType dtype, std::vector<int64_t> sizes) {
  return DenseView(values.data(), dtype, sizes.data(), static_cast<int>(sizes.size()));
}

const StatValue& Find(const Record& record, Stat stat) {
  for (size_t i = 0; i < record.value_count; ++i)
    if (record.values[i].stat == stat) return record.values[i];
  FAIL("no value for " << StatName(stat));
  return record.values[0];
}

Record Enqueue(std::vector<Stat> stats, const TensorView& tensor) {
  Record record;
  REQUIRE(Engine().Enqueue(LayoutOf(std::move(stats)), {}, tensor, &record) == StatusCode::kOk);
  return record;
}

TEST_CASE("values stand in the order of the plan, without shape and dtype") {
  const std::vector<float> data = {3, -4};
  const Record record =
      Enqueue({Stat::kMax, Stat::kShape, Stat::kNorm, Stat::kDtype, Stat::kMean}, View(data, DType::kFloat32, {1, 2}));
  REQUIRE(record.value_count == 3);
  CHECK(record.values[0].stat == Stat::kMax);
  CHECK(record.values[0].f64 == 3);
  CHECK(record.values[1].stat == Stat::kNorm);
  CHECK(record.values[1].f64 == 5);
  CHECK(record.values[2].stat == Stat::kMean);
  CHECK(record.values[2].f64 == -0.5);
}

TEST_CASE("the record has dtype and shape, and keeps its other fields") {
  const std::vector<uint16_t> data(6, 0x3f80);
  Record record;
  record.step = 17;
  record.site = 3;
  record.flags = Record::kInDoubt;
  record.dims.fill(99);
  const RecordLayout layout = LayoutOf({Stat::kNorm});
  REQUIRE(Engine().Enqueue(layout, {}, View(data, DType::kBFloat16, {2, 3}), &record) == StatusCode::kOk);
  CHECK(record.dtype == DType::kBFloat16);
  CHECK(record.ndim == 2);
  CHECK(record.dims[0] == 2);
  CHECK(record.dims[1] == 3);
  CHECK(record.dims[2] == 0);
  CHECK(record.step == 17);
  CHECK(record.site == 3);
  CHECK(record.flags == Record::kInDoubt);
}

TEST_CASE("only counts are integers for a floating point tensor") {
  const std::vector<float> data = {1, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  const Record record = Enqueue(AllStats(), View(data, DType::kFloat32, {3}));
  CHECK(record.value_count == kOpCount - 2);
  for (size_t i = 0; i < record.value_count; ++i) {
    const StatValue& value = record.values[i];
    INFO(StatName(value.stat));
    CHECK(value.is_integer == (value.stat == Stat::kNans || value.stat == Stat::kInfs));
  }
  CHECK(Find(record, Stat::kNans).i64 == 1);
  CHECK(Find(record, Stat::kInfs).i64 == 1);
}

TEST_CASE("the extremes of an integer tensor are integers, exact beyond 2^53") {
  const int64_t large = (int64_t{1} << 62) + 1;
  const std::vector<int64_t> data = {large, -large};
  const Record record = Enqueue(AllStats(), View(data, DType::kInt64, {2}));
  CHECK(Find(record, Stat::kMin).is_integer);
  CHECK(Find(record, Stat::kMin).i64 == -large);
  CHECK(Find(record, Stat::kMax).is_integer);
  CHECK(Find(record, Stat::kMax).i64 == large);
  CHECK_FALSE(Find(record, Stat::kAbsMax).is_integer);
  CHECK_FALSE(Find(record, Stat::kMean).is_integer);
}

TEST_CASE("id is the element of a scalar and NaN otherwise") {
  const std::vector<double> real = {2.5};
  CHECK(Find(Enqueue({Stat::kId}, View(real, DType::kFloat64, {})), Stat::kId).f64 == 2.5);
  CHECK(std::isnan(Find(Enqueue({Stat::kId}, View(real, DType::kFloat64, {1})), Stat::kId).f64));
  const std::vector<int64_t> integer = {int64_t{1} << 60};
  const Record record = Enqueue({Stat::kId}, View(integer, DType::kInt64, {}));
  CHECK(Find(record, Stat::kId).is_integer);
  CHECK(Find(record, Stat::kId).i64 == int64_t{1} << 60);
  CHECK_FALSE(Find(Enqueue({Stat::kId}, View(integer, DType::kInt64, {1})), Stat::kId).is_integer);
  const std::vector<float> nan = {std::numeric_limits<float>::quiet_NaN()};
  CHECK(std::isnan(Find(Enqueue({Stat::kId}, View(nan, DType::kFloat32, {})), Stat::kId).f64));
}

TEST_CASE("an empty tensor has norm 0, counts 0 and NaN for the rest, integers included") {
  for (DType dtype : {DType::kFloat32, DType::kInt64}) {
    const Record record = Enqueue(AllStats(), View(std::vector<int64_t>(), dtype, {0, 7}));
    CHECK(record.ndim == 2);
    CHECK(record.dims[1] == 7);
    for (size_t i = 0; i < record.value_count; ++i) {
      const StatValue& value = record.values[i];
      INFO(StatName(value.stat));
      if (value.is_integer)
        CHECK(value.i64 == 0);
      else if (value.stat == Stat::kNorm)
        CHECK(value.f64 == 0);
      else
        CHECK(std::isnan(value.f64));
    }
  }
}

TEST_CASE("what cannot be measured leaves the record as it was") {
  Record record, before;
  record.step = before.step = 5;
  record.value_count = before.value_count = 1;
  const std::vector<float> data = {1};
  TensorView view = View(data, DType::kFloat32, {1});
  view.dtype = DType::kOther;
  Engine engine;
  const RecordLayout layout = LayoutOf({Stat::kNorm, Stat::kMean});
  CHECK(engine.Enqueue(layout, {}, view, &record) == StatusCode::kUnsupported);
  CHECK(engine.EnqueueAgreement(layout, {}, view, view, &record) == StatusCode::kUnsupported);
  CHECK(record.step == before.step);
  CHECK(record.value_count == before.value_count);
  CHECK(record.ndim == before.ndim);
  CHECK(record.values[0].f64 == before.values[0].f64);
}

TEST_CASE("more statistics than a record holds are refused") {
  const std::vector<float> data = {1};
  Record record;
  const RecordLayout layout = LayoutOf(std::vector<Stat>(kOpCount + 1, Stat::kNorm));
  CHECK(Engine().Enqueue(layout, {}, View(data, DType::kFloat32, {1}), &record) == StatusCode::kInternal);
}

TEST_CASE("an agreement is recorded as a scalar of fp32") {
  const std::vector<float> gradient = {1, -1, 2}, momentum = {1, 1, 3};
  Record record;
  const RecordLayout layout = LayoutOf({Stat::kNorm, Stat::kMin, Stat::kId, Stat::kShape, Stat::kDtype});
  const TensorView a = View(gradient, DType::kFloat32, {3}), b = View(momentum, DType::kFloat32, {3});
  REQUIRE(Engine().EnqueueAgreement(layout, {}, a, b, &record) == StatusCode::kOk);
  const double expected = static_cast<float>((1.0 / 3 + 1) / 2);
  CHECK(record.dtype == DType::kFloat32);
  CHECK(record.ndim == 0);
  REQUIRE(record.value_count == 3);
  CHECK(record.values[0].f64 == Approx(expected).epsilon(1e-15));
  CHECK(record.values[1].f64 == expected);
  CHECK(record.values[2].f64 == expected);
}

TEST_CASE("eps and its mode reach the kernels") {
  const std::vector<uint16_t> smallest(4, 1);  // 5.96e-8, to which fp16 rounds 6e-8
  const TensorView view = View(smallest, DType::kFloat16, {4});
  const RecordLayout layout = LayoutOf({Stat::kZeros});
  Engine engine;
  Record parity, exact;
  REQUIRE(engine.Enqueue(layout, {6e-8, EpsMode::kParity}, view, &parity) == StatusCode::kOk);
  REQUIRE(engine.Enqueue(layout, {6e-8, EpsMode::kExact}, view, &exact) == StatusCode::kOk);
  CHECK(parity.values[0].f64 == 0);
  CHECK(exact.values[0].f64 == 1);
}

TEST_CASE("several threads may use one engine at once") {
  Engine engine;
  const RecordLayout layout = LayoutOf(AllStats());
  const std::vector<float> data(5000, 0.5f);
  const TensorView view = View(data, DType::kFloat32, {50, 100});
  std::vector<Record> records(4);
  std::vector<std::thread> threads;
  for (Record& record : records)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) (void)engine.Enqueue(layout, {}, view, &record);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Record& record : records) CHECK(Find(record, Stat::kMean).f64 == 0.5);
}

}  // namespace
}  // namespace stepwatch::stats
