#include "src/logs/write_record.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "src/logs/reader.h"
#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

Record Sample() {
  Record record;
  record.id = "1-2-3";
  record.t = 1705314615.25;
  record.observed_t = 1705314616;
  record.host = "node1";
  record.rank = 3;
  record.level = Level::kInfo;
  record.message = "text";
  record.progress = Progress{10, false, {{"loss", std::nan("")}, {"lr", 0.5}}};
  record.exception = Exception{"ValueError", "bad", "Traceback"};
  record.anomalies.push_back(
      {"nccl_timeout", vocabulary::Severity::kCritical, Role::kRoot, 7, {{"operation", "ALLREDUCE"}}});
  record.attributes = {{"a", "1"}, {"a", "2"}};
  return record;
}

TEST_CASE("a record has the fields of ECS") {
  const Json json = json::Parse(EcsJson(Sample(), {"run1", "train"})).value();
  CHECK(json["@timestamp"] == "2024-01-15T10:30:15.250Z");
  CHECK(json["log.level"] == "info");  // as printed; the anomaly has its own
  CHECK(json["event.severity"] == 17);
  CHECK(json["message"] == "text");
  CHECK(json["ecs.version"].is_string());
  CHECK(json["service.name"] == "train");
  CHECK(json["run.id"] == "run1");
  CHECK(json["host.name"] == "node1");
  CHECK(json["event.id"] == "1-2-3");
  CHECK(json["rank"] == 3);
  CHECK(json["step"] == 10);
  CHECK(json["error.type"] == "ValueError");
  CHECK(json["error.stack_trace"] == "Traceback");
  CHECK(json["anomaly.name"] == Json::array({"nccl_timeout"}));
  CHECK(json["anomaly.culprit_rank"] == 7);
  CHECK(json["progress"]["loss"] == "nan");
  CHECK(json["labels"]["a"] == Json::array({"1", "2"}));
}

TEST_CASE("a line of ECS reads back as the same record") {
  const Recogniser recogniser;
  Reader reader(recogniser);
  std::vector<Record> records;
  const std::string line = EcsJson(Sample(), {"run1", "train"});
  reader.Add({.text = line, .observed_t = 1705314616}, &records);
  REQUIRE(records.size() == 1);
  CHECK(records[0].t == 1705314615.25);
  CHECK(records[0].rank == 3);
  CHECK(records[0].message == "text");
  REQUIRE(records[0].progress);
  CHECK(records[0].progress->step == 10);
  REQUIRE(records[0].exception);
  CHECK(records[0].exception->type == "ValueError");
}

TEST_CASE("a record has the fields of OpenTelemetry") {
  const std::vector<Record> records = {Sample()};
  const Json json = json::Parse(OtlpRequest(records, {"run1", "train"})).value();
  const Json& log = json["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
  CHECK(log["timeUnixNano"] == "1705314615250000000");
  CHECK(log["severityNumber"] == 17);
  CHECK(log["severityText"] == "info");
  CHECK(log["body"]["stringValue"] == "text");
  CHECK(OtelJson(records[0], {"run1", "train"}) == json::Dump(log));
  bool has_loss = false;
  for (const Json& attribute : log["attributes"])
    if (attribute["key"] == "progress.loss") has_loss = attribute["value"]["doubleValue"] == "NaN";
  CHECK(has_loss);
}

TEST_CASE("a record without anything is valid") {
  const Record record;
  const Json json = json::Parse(EcsJson(record, {})).value();
  CHECK(json["@timestamp"] == "1970-01-01T00:00:00.000Z");
  CHECK_FALSE(json.contains("log.level"));
  CHECK_FALSE(json.contains("service.name"));
  CHECK(json::Parse(OtelJson(record, {})).ok());
}

}  // namespace
}  // namespace stepwatch::logs
