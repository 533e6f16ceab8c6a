#include "src/alerts/alarm_text.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::alerts {
namespace {

using nlohmann::json;
using namespace sinks::test;

std::string Entry(const std::string& name, const std::vector<int>& group) {
  const RecordLayout layout = Layout({Site(SiteKind::kGradReduced, name, 0, Port::kNone, 1)});
  Record record = NormRecord(0, 1);
  record.step = 7;
  const alerts::Alarm alarm{alerts::RuleKind::kNan, 12, Real(Stat::kNorm, 2.5), 1.0};
  std::string entry;
  AppendAnomaly(layout, record, alarm, {3, 2, group}, TextOf(layout, record, alarm, 3), &entry);
  return entry;
}

std::string Sentence(const StatValue& value, double mean) {
  const RecordLayout layout = Layout({Site(SiteKind::kGradReduced, "w", 0)});
  return TextOf(layout, NormRecord(0, 1), {alerts::RuleKind::kNan, 0, value, mean}, 0).sentence;
}

TEST_CASE("an entry has the layout of msProbe's file, to the byte") {
  CHECK("{\n" + Entry("fc.weight", {0, 4}) + "\n}" == R"({
 "1:fc.weight/rank3/post_grad_norm_step_7_call_12": {
  "rank": 3,
  "step": 7,
  "micro_step": 0,
  "pp_stage": 2,
  "vpp_stage": 1,
  "call_id": 12,
  "tag_name": "1:fc.weight/rank3/post_grad",
  "message": "Rule AnomalyNan reports anomaly signal in )"
                                                      R"(('1:fc.weight/rank3/post_grad', 'norm') at step 7, )"
                                                      R"(current value 2.5, history mean 1.0.",
  "group_mates": [
   0,
   4
  ]
 }
})");
}

TEST_CASE("an entry is JSON whatever a name holds") {
  for (const char* name : {"a\"b", "a\\b", "a\nb", "caf\xc3\xa9", "caf\xe9", "\x7f\x01", ""}) {
    const std::string text = "{" + Entry(name, {}) + "}";
    INFO(text);
    const json parsed = json::parse(text);
    REQUIRE(parsed.size() == 1);
    CHECK(parsed.begin().value()["group_mates"] == json::array());
  }
  const json parsed = json::parse("{" + Entry("a\"\\\n\xc3\xa9", {}) + "}");
  CHECK(parsed.begin().value()["tag_name"] == "1:a\"\\\n\xc3\xa9/rank3/post_grad");
}

TEST_CASE("values and means read as Python writes them") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::string head = "Rule AnomalyNan reports anomaly signal in ('0:w/rank0/post_grad', ";
  CHECK(Sentence(Real(Stat::kMean, 1e-7), 3) == head + "'mean') at step 0, current value 1e-07, history mean 3.0.");
  CHECK(Sentence(Integer(Stat::kNans, 3), 0) == head + "'nans') at step 0, current value 3, history mean 0.0.");
  CHECK(Sentence(Real(Stat::kMax, -1.0 / 0.0), kNan) ==
        head + "'max') at step 0, current value -inf, history mean nan.");
}

}  // namespace
}  // namespace stepwatch::alerts
