#include "src/alerts/rule_evaluator.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::alerts {
namespace {

using namespace sinks::test;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
const std::vector<Rule> kTurbulence = {{RuleKind::kTurbulence, 0.5}};
const std::vector<Rule> kNanAlone = {{RuleKind::kNan, std::nullopt}};

RecordLayout OneWeight(PlanId plan_id = 1) {
  RecordLayout layout = Layout({Site(SiteKind::kGradReduced, "w", 0)});
  layout.plan_id = plan_id;
  return layout;
}

Record RecordOf(std::vector<StatValue> values, std::vector<int64_t> shape = {2}) {
  Record record;
  SetShape(&record, std::move(shape));
  for (const StatValue& value : values) AddValue(&record, value);
  return record;
}

// One value a step; the alarms of the last step.
struct Run {
  std::vector<Alarm> Step(const std::vector<Rule>& rules, double norm) { return Step(rules, {NormRecord(0, norm)}); }
  std::vector<Alarm> Step(const std::vector<Rule>& rules, std::vector<Record> records) {
    const Frame frame(step++, std::move(records));
    return judge.Evaluate(rules, layout, frame.view);
  }
  // Alarms of each of these values.
  std::string Hits(const std::vector<Rule>& rules, const std::vector<double>& norms) {
    std::string hits;
    for (double norm : norms) hits += Step(rules, norm).empty() ? '.' : '!';
    return hits;
  }

  RuleEvaluator judge;
  RecordLayout layout = OneWeight();
  int64_t step = 0;
};

TEST_CASE("L2 features are judged by AnomalyNan like any number") {
  Run run;
  run.layout = Layout({Site(SiteKind::kAttention, "a.attention", 0)});
  const auto record = RecordOf({Real(Stat::kEntropy, kNan), Real(Stat::kSoftmaxMax, 9)}, {});
  CHECK(run.Step(kNanAlone, {record}).size() == 1);
  CHECK(run.Step({{RuleKind::kNan, 5.0}}, {record}).size() == 2);
  CHECK(run.Step(kTurbulence, {record}).empty());
}

TEST_CASE("the history is the first value, then 0.99 of itself and 0.01 of each further one") {
  Run run;
  const std::vector<Rule> all = {{RuleKind::kNan, 0.0}};
  CHECK(run.Step(all, 1.0).at(0).mean == 1.0);
  CHECK(run.Step(all, -2.0).at(0).mean == 1.0);
  CHECK(run.Step(all, 5.0).at(0).mean == 0.99 * 1.0 + 0.01 * 2.0);
}

TEST_CASE("turbulence is a rise of the absolute value beyond the threshold, and nothing else") {
  CHECK(Run().Hits(kTurbulence, {1.0, 1.5, 1.6, -1.6, 0.001, 1.0}) == "..!!..");
  CHECK(Run().Hits({{RuleKind::kTurbulence, 0.0}}, {1.0, 1.0, 1.000001}) == "..!");
  CHECK(Run().Hits({{RuleKind::kTurbulence, std::nullopt}}, {1.0, 100.0}) == "..");
}

TEST_CASE("an alarm names rule, record, statistic, value and the mean before it") {
  Run run;
  run.Step(kTurbulence, {NormRecord(0, 9, 7), NormRecord(0, 1)});
  const std::vector<Alarm> alarms = run.Step(kTurbulence, {NormRecord(0, 9, 7), NormRecord(0, 100)});
  REQUIRE(alarms.size() == 1);
  CHECK(alarms[0].rule == RuleKind::kTurbulence);
  CHECK(alarms[0].position == 1);
  CHECK(alarms[0].value.stat == Stat::kNorm);
  CHECK(alarms[0].value.f64 == 100);
}

TEST_CASE("NaN is an alarm, an infinity or a large value only with a threshold") {
  CHECK(Run().Hits(kNanAlone, {1.0, kNan, kInf, 1e300, kNan}) == ".!..!");
  CHECK(Run().Hits({{RuleKind::kNan, 10.0}}, {1.0, kNan, kInf, -kInf, 10.0, -10.5}) == ".!!!.!");
}

TEST_CASE("NaN and infinities do not spoil the history") {
  Run run;
  CHECK(run.Hits(kTurbulence, {1.0, kNan, kInf, -kInf, 1.4, 1.6}) == "..!!.!");
  CHECK(run.Hits(kTurbulence, {1.0, 1.6}) == ".!");
}

TEST_CASE("a history whose first values are NaN begins with the first finite one") {
  Run run;
  CHECK(std::isnan(run.Step(kNanAlone, kNan).at(0).mean));
  CHECK(run.Hits(kTurbulence, {kInf, 1.0, 1.6}) == "..!");
}

TEST_CASE("a history that starts at zero begins with the first value that is not zero") {
  CHECK(Run().Hits(kTurbulence, {0.0, 0.0, 3.0, 3.0, 3.0, 4.6}) == ".....!");
  CHECK(Run().Hits(kTurbulence, {0.0, 1e-30, 1e-30, 0.0, 1e-30}) == ".....");
}

TEST_CASE("turbulence looks at norm and mean, and a later rule still sees the other statistics") {
  const std::vector<Rule> both = {{RuleKind::kTurbulence, 0.1}, {RuleKind::kNan, std::nullopt}};
  Run run;
  const auto values = [](double factor, double nan_or_one) {
    return std::vector<Record>{RecordOf({Real(Stat::kMean, factor), Real(Stat::kMax, factor * nan_or_one),
                                         Real(Stat::kMin, factor), Real(Stat::kZeros, factor / 100)})};
  };
  run.Step(both, values(1, 1));
  const std::vector<Alarm> alarms = run.Step(both, values(50, kNan));
  REQUIRE(alarms.size() == 2);
  CHECK(alarms[0].rule == RuleKind::kTurbulence);
  CHECK(alarms[0].value.stat == Stat::kMean);
  CHECK(alarms[1].rule == RuleKind::kNan);
  CHECK(alarms[1].value.stat == Stat::kMax);
}

TEST_CASE("the first rule that hits makes the one alarm of a value") {
  const Rule turbulence{RuleKind::kTurbulence, 0.1};
  const Rule high{RuleKind::kNan, 5.0};
  for (const auto& [rules, expected] : {std::pair{std::vector<Rule>{turbulence, high}, RuleKind::kTurbulence},
                                        std::pair{std::vector<Rule>{high, turbulence}, RuleKind::kNan}}) {
    Run run;
    run.Step(rules, 1.0);
    const std::vector<Alarm> alarms = run.Step(rules, 10.0);
    REQUIRE(alarms.size() == 1);
    CHECK(alarms[0].rule == expected);
  }
}

TEST_CASE("a missing tensor is no NaN and leaves no trace in the history") {
  Run run;
  Record missing = NormRecord(0, kNan);
  missing.flags = Record::kMissing;
  CHECK(run.Step(kNanAlone, {missing}).empty());
  run.Step(kTurbulence, 1.0);
  CHECK(run.Step(kTurbulence, {missing}).empty());
  CHECK(run.Hits(kTurbulence, {1.6}) == "!");
}

TEST_CASE("shape, dtype, id and the statistics of an empty tensor are not judged") {
  Run run;
  const std::vector<Rule> strict = {{RuleKind::kNan, 0.0}};
  CHECK(run.Step(strict, {RecordOf({Real(Stat::kId, 7)}, {})}).empty());
  CHECK(run.Step(kNanAlone, {RecordOf({Real(Stat::kMean, kNan), Real(Stat::kMax, kNan)}, {3, 0})}).empty());
  CHECK(run.Step(kNanAlone, {RecordOf({Real(Stat::kStd, kNan)}, {1, 1})}).empty());
  CHECK(run.Step(kNanAlone, {RecordOf({Real(Stat::kStd, kNan)}, {2})}).size() == 1);
}

TEST_CASE("counts are judged as numbers") {
  Run run;
  const std::vector<Rule> few = {{RuleKind::kNan, 2.0}};
  CHECK(run.Step(few, {RecordOf({Integer(Stat::kNans, 2)})}).empty());
  CHECK(run.Step(few, {RecordOf({Integer(Stat::kNans, 3)})}).at(0).value.i64 == 3);
}

TEST_CASE("each micro-step, element, call, kind, chunk and statistic has its own history") {
  Run run;
  run.layout = Layout(
      {Site(SiteKind::kActv, "m.input", 0, Port::kInput), Site(SiteKind::kActv, "m.output", 0, Port::kOutput),
       Site(SiteKind::kActv, "m.input", 0, Port::kInput, 1), Site(SiteKind::kActvGrad, "m.input", 0, Port::kInput)});
  std::vector<Record> records(7, NormRecord(0, 1));
  records[1].micro_step = 1;
  records[2].element = 0;
  records[3].call = 1;
  for (SiteId site : {1, 2, 3}) records[site + 3].site = site;
  double norm = 1;
  for (Record& record : records) {
    record.values[0].f64 = norm;
    AddValue(&record, Real(Stat::kMean, norm * 1000));
    norm *= 10;
  }
  for (int i = 0; i < 3; ++i) CHECK(run.Step(kTurbulence, records).empty());
}

TEST_CASE("a kind without micro-step has one history whatever the records say") {
  Run run;
  run.Step(kTurbulence, {NormRecord(0, 1, 0)});
  CHECK(run.Step(kTurbulence, {NormRecord(0, 2, 5)}).size() == 1);
}

TEST_CASE("histories outlive plans, whatever the number of a site becomes") {
  Run run;
  run.Step(kTurbulence, 1.0);
  run.layout = Layout({Site(SiteKind::kGradReduced, "other", 1), Site(SiteKind::kGradReduced, "w", 0)});
  run.layout.plan_id = 2;
  CHECK(run.Step(kTurbulence, {NormRecord(0, 100), NormRecord(1, 2)}).size() == 1);
  run.layout = OneWeight(3);
  CHECK(run.Hits(kTurbulence, {1.5, 2}) == ".!");
}

TEST_CASE("without rules nothing is judged") {
  CHECK(Run().Step({}, kNan).empty());
}

TEST_CASE("rules are known by the names of the config") {
  CHECK(RuleFromName("AnomalyNan") == RuleKind::kNan);
  CHECK(RuleFromName("AnomalyTurbulence") == RuleKind::kTurbulence);
  CHECK_FALSE(RuleFromName("AnomalyOther"));
}

}  // namespace
}  // namespace stepwatch::alerts
