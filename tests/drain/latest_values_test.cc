#include "src/drain/latest_values.h"

#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

// "s0 t3 m1 e2 c1=7; " for site, step, micro-step, element and call, without what is 0 or none.
std::string Text(const std::vector<LatestValue>& values) {
  std::string text;
  for (const LatestValue& value : values) {
    const Record& record = value.record;
    text += "s" + std::to_string(record.site) + " t" + std::to_string(record.step);
    if (record.micro_step != 0) text += " m" + std::to_string(record.micro_step);
    if (record.element != kNoElement) text += " e" + std::to_string(record.element);
    if (record.call != 0) text += " c" + std::to_string(record.call);
    text += "=" + std::to_string(record.dims[0]) + "; ";
  }
  return text;
}

Record Seen(SiteId site, int64_t step, int value, int32_t micro_step = 0) {
  Record record{.step = step, .plan_id = 1, .site = site, .micro_step = micro_step};
  record.dims[0] = value;
  return record;
}

struct Table {
  std::shared_ptr<const plan::Plan> plan = MakePlan({1, {}, 3});
  LatestValues values;

  void Add(const std::vector<Record>& records) { values.Add(plan, records); }
  std::string text() const { return Text(values.Of(SiteKind::kGradReduced, 0)); }
};

TEST_CASE("all records of a site's last step are kept, in the order in which they were produced") {
  Table table;
  Record element = Seen(0, 1, 12, 1);
  element.element = 3;
  Record call = element;
  call.call = 2;
  table.Add({Seen(1, 1, 10), Seen(0, 1, 11), element, call, Seen(1, 1, 13, 1)});
  CHECK(table.text() == "s0 t1=11; s0 t1 m1 e3=12; s0 t1 m1 e3 c2=12; s1 t1=10; s1 t1 m1=13; ");
}

TEST_CASE("a site that is not seen for a while keeps what it had, one that is seen again has that step's alone") {
  Table table;
  table.Add({Seen(0, 1, 10), Seen(0, 1, 11, 1), Seen(2, 1, 12), Seen(2, 1, 13, 1)});
  table.Add({Seen(0, 4, 20)});
  CHECK(table.text() == "s0 t4=20; s2 t1=12; s2 t1 m1=13; ");
}

TEST_CASE("a step that comes again is known better, and an earlier one changes nothing") {
  Table table;
  Record late = Seen(0, 2, 10);
  late.flags = Record::kPending;
  table.Add({late, Seen(0, 2, 11, 1)});
  CHECK(table.text() == "s0 t2 m1=11; ");
  table.Add({Seen(0, 2, 10), Seen(0, 2, 11, 1), Seen(0, 2, 12, 2)});
  CHECK(table.text() == "s0 t2=10; s0 t2 m1=11; s0 t2 m2=12; ");
  table.Add({Seen(0, 1, 5), Seen(1, 1, 6)});
  CHECK(table.text() == "s0 t2=10; s0 t2 m1=11; s0 t2 m2=12; s1 t1=6; ");
}

TEST_CASE("what was seen twice in one place of a step is given once, as it was last") {
  Table table;
  table.Add({Seen(0, 1, 10), Seen(0, 1, 11, 1), Seen(0, 1, 12)});
  CHECK(table.text() == "s0 t1=12; s0 t1 m1=11; ");
}

TEST_CASE("records of an older plan, and of sites that the plan does not have, change nothing") {
  Table table;
  table.Add({Seen(0, 1, 10)});
  table.values.Add(MakePlan({0, {}, 3}), {Seen(0, 2, 20)});
  table.Add({Seen(7, 2, 30)});
  CHECK(table.text() == "s0 t1=10; ");
}

TEST_CASE("values have the tags that alarms and TensorBoard give them") {
  Table table;
  table.Add({Seen(0, 1, 10)});
  const std::vector<LatestValue> values = table.values.Of(SiteKind::kGradReduced, 3);
  REQUIRE(values.size() == 1);
  CHECK(values[0].tag == "0:p/rank3/post_grad");
  CHECK(values[0].name == "p");
}

}  // namespace
}  // namespace stepwatch::drain
