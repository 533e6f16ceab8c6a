#include "src/drain/merge_repeated_records.h"

#include <cmath>
#include <limits>

#include "src/sinks/row_text.h"
#include "tests/drain/run_fixture.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::drain {
namespace {

using namespace sinks::test;

// A weight, an operator before and after.
const RecordLayout kLayout =
    Layout({Site(SiteKind::kGradReduced, "w", 0), Site(SiteKind::kCommunication, "send.pre", 0, Port::kInput),
            Site(SiteKind::kCommunication, "send.post", 0, Port::kOutput)});

Record Call(std::vector<StatValue> values, SiteId site = 1, uint16_t element = 0) {
  Record record;
  record.site = site;
  record.element = element;
  SetShape(&record, {2});
  for (const StatValue& value : values) AddValue(&record, value);
  return record;
}

Record Join(std::vector<Record> calls) {
  const size_t count = calls.size();
  CHECK(MergeRepeatedRecords(kLayout, &calls) == count - 1);
  REQUIRE(calls.size() == 1);
  return calls[0];
}

// One statistic of several calls, joined.
double Joined(Stat stat, const std::vector<double>& values) {
  std::vector<Record> calls;
  for (const double value : values) calls.push_back(Call({Real(stat, value)}));
  const Record row = Join(calls);
  REQUIRE(row.value_count == 1);
  CHECK_FALSE(row.values[0].is_integer);
  return row.values[0].f64;
}

TEST_CASE("of the calls of a step the row has the extremes, NaN if one is NaN, in any order") {
  CHECK(Joined(Stat::kMin, {3, -1, 2}) == -1);
  CHECK(Joined(Stat::kMax, {3, -1, 2}) == 3);
  CHECK(Joined(Stat::kAbsMax, {3, 4, 2}) == 4);
  for (const Stat stat : {Stat::kMin, Stat::kMax, Stat::kAbsMax}) {
    CHECK(std::isnan(Joined(stat, {kNan, 1, 2})));
    CHECK(std::isnan(Joined(stat, {1, kNan, 2})));
    CHECK(std::isnan(Joined(stat, {1, 2, kNan})));
  }
}

TEST_CASE("the norm of several calls is that of all their elements together") {
  CHECK(Joined(Stat::kNorm, {3, 4}) == 5);
  CHECK(Joined(Stat::kNorm, {1, 1, 1, 1}) == 2);
  CHECK(std::isnan(Joined(Stat::kNorm, {kInf, kNan})));
}

TEST_CASE("mean and zeros are averaged, nans and infs are summed, std and id are not there") {
  CHECK(Joined(Stat::kMean, {1, 2, 6}) == 3);
  CHECK(Joined(Stat::kZeros, {0.5, 0}) == 0.25);
  const auto counts = [](int64_t nans, int64_t infs) {
    return Call({Integer(Stat::kNans, nans), Real(Stat::kStd, 1), Real(Stat::kId, 1), Integer(Stat::kInfs, infs)});
  };
  const Record row = Join({counts(1, 10), counts(2, 20)});
  REQUIRE(row.value_count == 2);
  CHECK((row.values[0].stat == Stat::kNans && row.values[0].is_integer && row.values[0].i64 == 3));
  CHECK((row.values[1].stat == Stat::kInfs && row.values[1].is_integer && row.values[1].i64 == 30));
}

TEST_CASE("a single call keeps its numbers to the bit, its dtype and its shape") {
  const double odd = std::sqrt(2.0) * 1e-170;
  std::vector<Record> calls = {Call({Real(Stat::kNorm, odd), Real(Stat::kStd, 7)})};
  calls[0].micro_step = 3;
  CHECK(MergeRepeatedRecords(kLayout, &calls) == 0);
  CHECK(calls[0].values[0].f64 == odd);
  CHECK(calls[0].value_count == 2);
  CHECK(calls[0].flags == 0);
  CHECK(calls[0].micro_step == 0);
}

TEST_CASE("extremes of integers stay exact as long as all calls have them") {
  const int64_t large = (int64_t{1} << 53) + 1;
  const Record exact = Join({Call({Integer(Stat::kMax, large)}), Call({Integer(Stat::kMax, 5)})});
  CHECK((exact.values[0].is_integer && exact.values[0].i64 == large));
  const Record mixed = Join({Call({Integer(Stat::kMax, 5)}), Call({Real(Stat::kMax, 7.5)})});
  CHECK((!mixed.values[0].is_integer && mixed.values[0].f64 == 7.5));
}

TEST_CASE("dtype and shape are those of the calls if they agree, each for itself") {
  Record other = Call({Real(Stat::kNorm, 1)});
  const Record alike = Join({other, other});
  CHECK_FALSE((alike.mixed_dtype() || alike.mixed_shape()));
  other.dtype = DType::kBFloat16;
  const Record of_dtypes = Join({Call({Real(Stat::kNorm, 1)}), other, other});
  CHECK((of_dtypes.mixed_dtype() && !of_dtypes.mixed_shape()));
  other.dtype = DType::kFloat32;
  SetShape(&other, {2, 3});
  const Record of_shapes = Join({Call({Real(Stat::kNorm, 1)}), other});
  CHECK((!of_shapes.mixed_dtype() && of_shapes.mixed_shape()));
}

TEST_CASE("an empty tensor among the calls is remembered, by which alarms name the origin of a NaN") {
  Record empty = Call({Real(Stat::kMin, kNan)});
  SetShape(&empty, {0});
  const Record full = Call({Real(Stat::kMin, 1)});
  for (const Record& row : {Join({empty, full}), Join({full, empty}), Join({full, empty, full})}) {
    CHECK(row.mixed_shape());
    CHECK(row.dims[0] == 0);
  }
}

TEST_CASE("a call without a tensor adds nothing, and a row of such calls alone is missing") {
  Record missing = Call({});
  missing.flags = Record::kMissing;
  missing.ndim = 0;
  missing.dims = {};
  CHECK(Join({missing, missing}).missing());
  for (const Record& row : {Join({missing, Call({Real(Stat::kMean, 4)}), Call({Real(Stat::kMean, 6)})}),
                            Join({Call({Real(Stat::kMean, 4)}), missing, Call({Real(Stat::kMean, 6)})})}) {
    CHECK(row.flags == 0);
    CHECK(row.values[0].f64 == 5);
  }
}

TEST_CASE("a row is in doubt if one of its calls was") {
  Record doubted = Call({Real(Stat::kMean, 1)});
  doubted.flags = Record::kInDoubt;
  CHECK(Join({Call({Real(Stat::kMean, 1)}), doubted}).flags == Record::kInDoubt);
  Record missing = Call({});
  missing.flags = Record::kMissing | Record::kInDoubt;
  CHECK(Join({missing, Call({Real(Stat::kMean, 1)})}).flags == Record::kInDoubt);
}

TEST_CASE("sites and elements are rows of their own at the place of their first call, micro-batches are not") {
  const auto norm = [](SiteId site, uint16_t element, double value, int32_t micro_step = 0) {
    Record record = Call({Real(Stat::kNorm, value)}, site, element);
    record.micro_step = micro_step;
    return record;
  };
  std::vector<Record> records = {norm(2, 1, 1), norm(0, 0, 10), norm(1, 0, 2),    norm(2, 0, 3), norm(0, 0, 11),
                                 norm(2, 1, 4), norm(0, 0, 12), norm(2, 0, 4, 1), norm(1, 1, 5), norm(2, 0, 12, 2)};
  CHECK(MergeRepeatedRecords(kLayout, &records) == 3);
  std::string text;
  for (const Record& record : records)
    text += std::to_string(record.site) + "_" + std::to_string(record.element) + "=" +
            std::to_string(record.values[0].f64).substr(0, 4) + " ";
  CHECK(text == "2_1=4.12 0_0=10.0 1_0=2.00 2_0=13.0 0_0=11.0 0_0=12.0 1_1=5.00 ");
}

TEST_CASE("of a gradient that comes again in a step the last record counts, at the place of the first") {
  const RecordLayout layout = Layout(
      {Site(SiteKind::kActvGrad, "fc", 0), Site(SiteKind::kGradUnreduced, "w", 0), Site(SiteKind::kActv, "fc", 0)});
  const auto norm = [](SiteId site, double value, int32_t micro_step = 0, uint16_t element = 0, uint16_t call = 0) {
    Record record = Call({Real(Stat::kNorm, value)}, site, element);
    record.micro_step = micro_step;
    record.call = call;
    return record;
  };
  Record missing = norm(0, 0);
  missing.flags = Record::kMissing;
  std::vector<Record> records = {missing,          norm(1, 1),          norm(2, 2), norm(0, 3, 1),
                                 norm(0, 4, 0, 1), norm(0, 5, 0, 0, 1), norm(1, 6), norm(2, 7),
                                 norm(0, 8),       norm(1, 9)};
  CHECK(MergeRepeatedRecords(layout, &records) == 3);
  std::string text;
  for (const Record& record : records) text += std::to_string(record.values[0].f64).substr(0, 1);
  CHECK(text == "8923457");
  CHECK_FALSE(records[0].missing());
}

TEST_CASE("in the file a joined row prints nan where its calls differ or have no value") {
  RecordLayout layout = kLayout;
  layout.stats = {Stat::kMax, Stat::kStd, Stat::kShape, Stat::kDtype};
  Record flag = Call({Integer(Stat::kMax, 1), Real(Stat::kStd, 0.5)});
  flag.dtype = DType::kBool;
  Record wide = Call({Integer(Stat::kMax, 7), Real(Stat::kStd, 0.5)});
  wide.dtype = DType::kInt64;
  SetShape(&wide, {2, 2});
  std::vector<Record> records = {flag, wide};
  MergeRepeatedRecords(layout, &records);
  sinks::RowFormatter formatter;
  formatter.Format(layout, StepFrame{0, records.data(), records.size()});
  CHECK(formatter.rows(SiteKind::kMgDirection).text == "0,send.pre_0,0,7,nan,nan,nan\n");
}

// --- on their way through the drain; Run settles the ledger against the rows that the sink has ---

TEST_CASE("sinks and the ledger see one row for the calls of a step, and one for each step") {
  StartedRun run;
  run.Begin({1, {0, 1, 1000000}, 2, SiteKind::kCommunication});
  for (int step = 0; step < 3; ++step) {
    Show(run, 0, 3);
    Show(run, 1, 1);
    Show(run, 0, 4);
    run.plane.plans.EndStep();
  }
  run.Joined(1, 3);
  run.Finish();
  const std::vector<Record> rows = run.sink->records();
  REQUIRE(rows.size() == 6);
  for (size_t i = 0; i < rows.size(); i += 2) {
    CHECK(rows[i].values[0].f64 == 5);
    CHECK(rows[i + 1].values[0].f64 == 1);
  }
}

TEST_CASE("calls are joined when their numbers have come from the device, and those that never come are dropped") {
  StartedRun run(OneDevice());
  run.Begin({1, {0, 1, 1000000}, 1, SiteKind::kCommunication});
  run.ObserveOnDevice();
  Show(run, 0, 5);
  run.ObserveOnDevice();
  run.plane.plans.EndStep();
  CHECK_FALSE(run.sink->records().size() > 0);
  run.devices[0].FinishAll();
  REQUIRE(Eventually([&] { return run.sink->records().size() == 1; }));
  CHECK(run.sink->records()[0].values[0].f64 == Approx(std::sqrt(14.0 + 25 + 14)));
  Show(run, 0, 3);
  run.ObserveOnDevice();
  Show(run, 0, 4);
  run.plane.plans.EndStep();
  REQUIRE(Eventually([&] { return run.sink->records().size() == 1; }));
  // The wait begins when the drain has taken the frame, whenever that is.
  REQUIRE(Eventually([&] {
    run.PassTime(std::chrono::seconds(1));
    return run.sink->records().size() == 2;
  }));
  CHECK(run.sink->records()[1].values[0].f64 == 5);
  run.Joined(1, 3);
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kLate) == 1);
}

TEST_CASE("the latest values of an operator are the joined ones, those of the running step so far") {
  StartedRun run(OneDevice());
  run.Begin({1, {0, 1, 1000000}, 1, SiteKind::kCommunication});
  Show(run, 0, 3);
  Show(run, 0, 4);
  const auto latest = [&](std::chrono::milliseconds timeout = kLong) {
    const std::vector<LatestValue> values = run.drain.Latest(SiteKind::kCommunication, timeout);
    REQUIRE(values.size() == 1);
    return values[0].record.values[0].f64;
  };
  CHECK(latest() == 5);
  run.ObserveOnDevice();
  CHECK(latest(std::chrono::milliseconds(20)) == 5);
  Show(run, 0, 12);
  CHECK(latest(std::chrono::milliseconds(20)) == 13);
  run.devices[0].FinishAll();
  CHECK(latest() == Approx(std::sqrt(169.0 + 14)));
  run.plane.plans.EndStep();
  CHECK(latest() == Approx(std::sqrt(169.0 + 14)));
  run.Joined(1, 3);
}

TEST_CASE("updates of a parameter are numbered in their order, without gaps, also when they are asked again") {
  const auto update = [](uint16_t call, double norm) {
    Record record = Call({Real(Stat::kNorm, norm)}, 0, kNoElement);
    record.call = call;
    return record;
  };
  std::vector<Record> records = {update(1, 10), update(2, 11), update(4, 12)};
  for (int again = 0; again < 3; ++again) {
    CHECK(MergeRepeatedRecords(kLayout, &records) == 0);
    REQUIRE(records.size() == 3);
    CHECK((records[0].call == 0 && records[0].values[0].f64 == 10));
    CHECK((records[1].call == 1 && records[1].values[0].f64 == 11));
    CHECK((records[2].call == 2 && records[2].values[0].f64 == 12));
  }
}

TEST_CASE("of an update that failed and was repeated the last attempt stays, also when it is asked again") {
  const auto update = [](int call, double norm) {
    Record record = Call({Real(Stat::kNorm, norm)}, 0, kNoElement);
    record.call = static_cast<uint16_t>(call);
    return record;
  };
  std::vector<Record> records = {update(0, 10), update(0 | kRepeatedUpdate, 11), update(1, 12),
                                 update(1 | kRepeatedUpdate, 13), update(1 | kRepeatedUpdate, 14)};
  CHECK(MergeRepeatedRecords(kLayout, &records) == 3);
  for (int again = 0; again < 2; ++again) {
    REQUIRE(records.size() == 2);
    CHECK((records[0].call == 0 && records[0].values[0].f64 == 11));
    CHECK((records[1].call == 1 && records[1].values[0].f64 == 14));
    CHECK(MergeRepeatedRecords(kLayout, &records) == 0);
  }
}

}  // namespace
}  // namespace stepwatch::drain
