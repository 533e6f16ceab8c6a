#include "src/logs/record_filter.h"

#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::logs {
namespace {

using testing::Has;

Record Line(const std::string& message) {
  Record record;
  record.message = message;
  record.observed_t = 500;
  return record;
}

bool Selects(const RecordFilter::Options& options, const Record& record) {
  const Result<RecordFilter> filter = RecordFilter::Make(options);
  REQUIRE(filter.ok());
  return filter.value().Selects(record);
}

TEST_CASE("A filter without options selects each record") {
  CHECK(RecordFilter::Make({}).value().selects_all());
  CHECK(Selects({}, Line("")));
  CHECK_FALSE(RecordFilter::Make({.rank = 0}).value().selects_all());
}

TEST_CASE("A rank selects its records, and those of the local rank where there is no other") {
  Record record = Line("x");
  CHECK_FALSE(Selects({.rank = 3}, record));
  record.local_rank = 3;
  CHECK(Selects({.rank = 3}, record));
  record.rank = 11;
  CHECK_FALSE(Selects({.rank = 3}, record));
  CHECK(Selects({.rank = 11}, record));
}

TEST_CASE("A time selects by the line's own time, else by the time of reading") {
  Record record = Line("x");
  CHECK(Selects({.since_t = 500}, record));
  CHECK_FALSE(Selects({.since_t = 501}, record));
  record.t = 400;
  CHECK_FALSE(Selects({.since_t = 500}, record));
}

TEST_CASE("A level selects higher ones too, and an anomaly counts with its severity") {
  Record record = Line("x");
  record.level = Level::kInfo;
  CHECK_FALSE(Selects({.level_min = Level::kWarning}, record));
  record.anomalies.push_back({"loss_nonfinite", vocabulary::Severity::kCritical, Role::kRoot, std::nullopt, {}});
  CHECK(Selects({.level_min = Level::kError}, record));
  CHECK_FALSE(Selects({.level_min = Level::kFatal}, record));
}

TEST_CASE("A pattern selects by the message and by the stack") {
  Record record = Line("NCCL watchdog timeout");
  CHECK(Selects({.pattern = "NCCL.*timeout"}, record));
  CHECK_FALSE(Selects({.pattern = "loader"}, record));
  record.exception = Exception{"RuntimeError", "x", "File \"loader.py\""};
  CHECK(Selects({.pattern = "loader"}, record));
}

TEST_CASE("A pattern that is unusable is refused with the reason") {
  CHECK(Has(RecordFilter::Make({.pattern = "a(b"}).status().message(), "\"a(b\" is not a regular expression"));
  CHECK(Has(RecordFilter::Make({.pattern = std::string(1001, 'a')}).status().message(), "at most 1000"));
  CHECK_FALSE(RecordFilter::Make({.pattern = "((((a{100}){100}){100}){100})"}).ok());
}

}  // namespace
}  // namespace stepwatch::logs
