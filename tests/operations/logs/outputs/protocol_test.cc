// Requests with records, and replies to them: by status, by item, and those that are no reply.
#include "operations/logs/outputs/protocol.h"

#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::operations::outputs {
namespace {

using delivery::Reply;
using testing::Has;

const std::string kThree =
    LineOf("a", R"({"message":"1"})") + LineOf("b", R"({"message":"2"})") + LineOf("", R"({"message":"3"})");

OutputSettings Bulk() {
  OutputSettings settings;
  settings.type = OutputType::kElasticsearch;
  settings.url = "https://es.example.org:9200/prefix";
  settings.index = "logs-stepwatch-default";
  return settings;
}

Reply Items(const std::string& statuses) {
  Reply reply;
  reply.status = 200;
  reply.body = R"({"errors":true,"items":[)" + statuses + "]}";
  return reply;
}

std::string Item(int status, const std::string& type = "") {
  const std::string error = type.empty() ? "" : R"(,"error":{"type":")" + type + R"(","reason":"because"})";
  return R"({"create":{"status":)" + std::to_string(status) + error + "}}";
}

TEST_CASE("a line of the spool has an id and JSON, and neither can end it early") {
  const std::string line = LineOf("x\ty\n", "{\"a\":\n\t1}");
  CHECK(line == "x_y_\t{\"a\":  1}\n");
  const std::string lines = line + "no tab\n" + LineOf("", "{}") + "c\t{\"half\":";
  const auto entries = EntriesOf(lines);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].id == "x_y_");
  CHECK(entries[1].id.empty());
  CHECK(entries[1].json == "{}");
}

TEST_CASE("a bulk request creates each record under its id") {
  const delivery::Outgoing request = MakeBulk(Bulk(), kThree);
  CHECK(request.url.starts_with("https://es.example.org:9200/prefix/logs-stepwatch-default/_bulk?filter_path="));
  CHECK(request.headers == std::vector<std::string>{"Content-Type: application/x-ndjson"});
  CHECK(request.body ==
        "{\"create\":{\"_id\":\"a\"}}\n{\"message\":\"1\"}\n{\"create\":{\"_id\":\"b\"}}\n{\"message\":\"2\"}\n"
        "{\"create\":{}}\n{\"message\":\"3\"}\n");
  CHECK(Has(MakeBulk(Bulk(), LineOf(std::string(513, 'i'), "{}")).body, "{\"create\":{}}\n"));
  CHECK(Has(MakeBulk(Bulk(), LineOf("q\"\\", "{}")).body, R"("_id":"q\"\\")"));
}

TEST_CASE("each item of a bulk reply counts by its status, and only busy ones are sent again") {
  const Outcome mixed = JudgeBulk(
      Items(Item(201) + "," + Item(429, "es_rejected_execution_exception") + "," + Item(400, "mapper_parsing")),
      kThree);
  CHECK(mixed.step == Step::kGoOn);
  CHECK(mixed.accepted == 1);
  CHECK(mixed.rejected == 1);
  CHECK(mixed.again == LineOf("b", R"({"message":"2"})"));
  CHECK(Has(mixed.reason, "mapper_parsing: because"));
  const Outcome again =
      JudgeBulk(Items(Item(409, "version_conflict_engine_exception") + "," + Item(503) + "," + Item(200)), kThree);
  CHECK(again.duplicates == 1);
  CHECK(again.accepted == 1);
  CHECK(again.rejected == 0);
  CHECK(again.again == LineOf("b", R"({"message":"2"})"));
}

TEST_CASE("a bulk reply that has no result for each record loses none of them") {
  for (const char* body : {"", "ok", "[]", R"({"errors":false})", R"({"items":{}})", R"({"items":[{},{}]})"}) {
    Reply reply;
    reply.status = 200;
    reply.body = body;
    const Outcome outcome = JudgeBulk(reply, kThree);
    CHECK(outcome.step == Step::kAgain);
    CHECK(outcome.accepted == 0);
  }
  const Outcome strange = JudgeBulk(Items("1,{},{\"create\":[]}"), kThree);
  CHECK(strange.rejected == 3);
  Reply cut = Items(Item(201) + "," + Item(201) + "," + Item(201));
  cut.error = "connection reset";
  CHECK(JudgeBulk(cut, kThree).step == Step::kAgain);
}

TEST_CASE("a status decides whether a request is repeated, split or waits") {
  const auto step = [](int status, bool is_bulk) {
    Reply reply;
    reply.status = status;
    reply.body = "why\x1b[31m";
    reply.retry_after = 7;
    const Outcome outcome = is_bulk ? JudgeBulk(reply, kThree) : JudgeOtlpLogs(reply, kThree);
    CHECK(outcome.retry_after == 7);
    CHECK(Has(outcome.reason, "status " + std::to_string(status) + ": why\\x1b"));
    return outcome.step;
  };
  for (const int status : {302, 401, 403, 404, 408, 429, 500, 502, 503, 504}) {
    CHECK(step(status, true) == Step::kAgain);
    CHECK(step(status, false) == Step::kAgain);
  }
  CHECK(step(413, true) == Step::kSendLess);
  CHECK(step(413, false) == Step::kSendLess);
  CHECK(step(400, true) == Step::kAgain);  // the index, not a record
  CHECK(step(400, false) == Step::kSendLess);
  Reply none;
  none.error = "es:9200: timeout";
  CHECK(JudgeBulk(none, kThree).reason == "es:9200: timeout");
}

TEST_CASE("an OTLP request wraps the records, and its reply may reject some of them") {
  OutputSettings settings;
  settings.url = "http://loki:3100/otlp";
  const delivery::Outgoing request = MakeOtlpLogs(settings, kThree);
  CHECK(request.url == "http://loki:3100/otlp/v1/logs");
  CHECK(Has(request.body, R"("logRecords":[{"message":"1"},{"message":"2"},{"message":"3"}]}]}]})"));
  Reply reply;
  reply.status = 204;
  CHECK(JudgeOtlpLogs(reply, kThree).accepted == 3);
  reply.status = 200;
  for (const char* body : {"{}", R"({"partialSuccess":{}})", R"({"partialSuccess":{"rejectedLogRecords":"0"}})"}) {
    reply.body = body;
    CHECK(JudgeOtlpLogs(reply, kThree).accepted == 3);
  }
  for (const char* body : {R"({"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"too old"}})",
                           R"({"partialSuccess":{"rejectedLogRecords":2,"errorMessage":"too old"}})"}) {
    reply.body = body;
    const Outcome outcome = JudgeOtlpLogs(reply, kThree);
    CHECK(outcome.step == Step::kGoOn);
    CHECK(outcome.accepted == 1);
    CHECK(outcome.rejected == 2);
    CHECK(Has(outcome.reason, "too old"));
  }
  reply.body = R"({"partialSuccess":{"rejectedLogRecords":"99"}})";
  CHECK(JudgeOtlpLogs(reply, kThree).rejected == 3);
}

}  // namespace
}  // namespace stepwatch::operations::outputs
