#include "operations/log_intake/log_request.h"

#include <string>

#include "src/logs/write_record.h"
#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::operations {
namespace {

using testing::Has;

SentLines Accepted(const std::string& body, const LogRequestNames& names = {}) {
  Result<SentLines> sent = ReadLogRequest(body, names);
  INFO(sent.status().message());
  REQUIRE(sent.ok());
  return std::move(sent).value();
}

SentLine OnlyLine(const std::string& body, const LogRequestNames& names = {}) {
  SentLines sent = Accepted(body, names);
  REQUIRE(sent.lines.size() == 1);
  return sent.lines[0];
}

TEST_CASE("a line as Fluent Bit sends it has its file, offset and time") {
  const SentLine line =
      OnlyLine(R"({"@timestamp":"2026-11-28T09:00:00.500Z","log.file.path":"/logs/rank3.log","log.offset":4096,)"
               R"("message":"step 12 loss 2.5"})"
               "\n");
  CHECK(line.text == "step 12 loss 2.5");
  CHECK(line.source == "/logs/rank3.log");
  CHECK(line.t == 1795856400.5);
  CHECK(line.id.size() == 32);
}

TEST_CASE("a line as Vector sends it has its host, and an id of its request") {
  const std::string body =
      R"({"@timestamp":"2026-11-28T09:00:00.123456789Z","host.name":"n7","log.file.path":"/l/a.log","message":"a"})"
      "\n"
      R"({"@timestamp":"2026-11-28T09:00:00.123456789Z","host.name":"n7","log.file.path":"/l/a.log","message":"a"})"
      "\n";
  const SentLines sent = Accepted(body);
  REQUIRE(sent.lines.size() == 2);
  CHECK(sent.lines[0].host == "n7");
  CHECK(sent.lines[0].id != sent.lines[1].id);
  CHECK(Accepted(body).lines[1].id == sent.lines[1].id);
}

TEST_CASE("a line as Filebeat sends it through Logstash has nested members") {
  const SentLine line = OnlyLine(
      R"({"@timestamp":"2026-11-28T09:00:00.000Z","message":"hello","host":{"name":"n1","os":{"type":"linux"}},)"
      R"("log":{"offset":17,"file":{"path":"/l/b.log","fingerprint":"ab"}}})");
  CHECK(line.text == "hello");
  CHECK(line.host == "n1");
  CHECK(line.source == "/l/b.log");
  CHECK(line.id.size() == 32);
}

TEST_CASE("the same offset with another text, as after a rotation, has another id") {
  const auto id = [](const std::string& text) {
    return OnlyLine(R"({"message":")" + text +
                    R"(","log.file.path":"/l","log.offset":0,"@timestamp":"2026-11-28T09:00:00Z"})")
        .id;
  };
  CHECK(id("a") == id("a"));
  CHECK(id("a") != id("b"));
}

TEST_CASE("the run and the rank come from the line, from its labels, or from the request") {
  const LogRequestNames names{"r0", 7};
  CHECK(OnlyLine(R"({"message":"a"})", names).run == "r0");
  CHECK(OnlyLine(R"({"message":"a"})", names).rank == 7);
  CHECK(OnlyLine(R"({"message":"a","run":"r1","rank":2})", names).run == "r1");
  CHECK(OnlyLine(R"({"message":"a","run":"r1","rank":2})", names).rank == 2);
  CHECK(OnlyLine(R"({"message":"a","labels":{"run":"r2","rank":"3"}})", names).run == "r2");
  CHECK(OnlyLine(R"({"message":"a","labels":{"run":"r2","rank":"3"}})", names).rank == 3);
  CHECK(OnlyLine(R"({"message":"a","rank":-1})", names).rank == 7);
}

TEST_CASE("a line without a time and an offset has no id, since it may be written twice") {
  CHECK(OnlyLine(R"({"message":"a"})").id.empty());
}

TEST_CASE("a record with an exception is read as a whole, with the id that it has") {
  logs::Record record;
  record.id = "f1:17";
  record.source = "/l/a";
  record.message = "it failed";
  record.exception = logs::Exception{"ValueError", "bad", "Traceback\nValueError: bad"};
  const SentLine line = OnlyLine(logs::EcsJson(record, {"r1", "train"}));
  CHECK(line.id == "f1:17");
  CHECK(line.run == "r1");
  CHECK(Has(line.text, "error.stack_trace"));
}

TEST_CASE("numbers without a message are read as a whole") {
  CHECK(Has(OnlyLine(R"({"step":3,"loss":2.5})").text, "\"loss\":2.5"));
}

TEST_CASE("a line of docker has its text under another name") {
  CHECK(OnlyLine(R"({"log":"hello\n","stream":"stderr","time":"2026-11-28T09:00:00Z"})").text == "hello");
}

TEST_CASE("a list of objects, and an object on several lines, are accepted") {
  CHECK(Accepted(R"([{"message":"a"},{"message":"b"}])").lines.size() == 2);
  CHECK(OnlyLine("{\n  \"message\": \"a\"\n}\n").text == "a");
}

TEST_CASE("lines that are no objects are refused with their numbers, and the others accepted") {
  const SentLines sent = Accepted("{\"message\":\"a\"}\n\nplain\n[1]\n{}\n{\"message\":\"b\"}\n");
  CHECK(sent.lines.size() == 2);
  CHECK(sent.refused == 3);
  REQUIRE(sent.refusals.size() == 3);
  CHECK(sent.refusals[0].first == 3);
  CHECK(sent.refusals[1].first == 4);
}

TEST_CASE("a body without any usable line is an error, and an empty one is not") {
  CHECK_FALSE(ReadLogRequest("plain text", {}).ok());
  CHECK_FALSE(ReadLogRequest("{\"message\":", {}).ok());
  CHECK_FALSE(ReadLogRequest("[1, 2]", {}).ok());
  CHECK_FALSE(ReadLogRequest("[", {}).ok());
  CHECK(Accepted("").lines.empty());
  CHECK(Accepted(" \n\n").lines.empty());
}

TEST_CASE("a request with too many lines is an error of its own") {
  std::string body;
  for (size_t i = 0; i <= kLogLinesMax; ++i) body += "{\"message\":\"a\"}\n";
  CHECK(ReadLogRequest(body, {}).status().code() == StatusCode::kExhausted);
}

TEST_CASE("nesting beyond the limit is refused") {
  std::string deep = R"({"message":"a","x":)";
  for (int i = 0; i < 100; ++i) deep += '[';
  for (int i = 0; i < 100; ++i) deep += ']';
  CHECK_FALSE(ReadLogRequest(deep + "}", {}).ok());
}

TEST_CASE("a request of OTLP has resources, scopes and records") {
  const SentLines sent = Accepted(R"({"resourceLogs":[{"resource":{"attributes":[
      {"key":"host.name","value":{"stringValue":"n1"}},{"key":"run.id","value":{"stringValue":"r1"}}]},
    "scopeLogs":[{"scope":{},"logRecords":[
      {"timeUnixNano":"1795856400500000000","severityNumber":17,"body":{"stringValue":"step 1 loss nan"},
       "attributes":[{"key":"log.file.path","value":{"stringValue":"/l/a"}},{"key":"rank","value":{"intValue":"4"}}]},
      {"observedTimeUnixNano":1795856401000000000,"body":{"kvlistValue":{"values":[
        {"key":"step","value":{"intValue":"2"}},{"key":"loss","value":{"doubleValue":1.5}}]}}},
      {"timeUnixNano":"1"}]}]}]})");
  CHECK(sent.is_otlp);
  CHECK(sent.refused == 1);
  REQUIRE(sent.lines.size() == 2);
  CHECK(sent.lines[0].text == "step 1 loss nan");
  CHECK(sent.lines[0].host == "n1");
  CHECK(sent.lines[0].run == "r1");
  CHECK(sent.lines[0].rank == 4);
  CHECK(sent.lines[0].source == "/l/a");
  CHECK(sent.lines[0].level == logs::Level::kError);
  CHECK(sent.lines[0].t == 1795856400.5);
  CHECK(sent.lines[1].text == R"({"step":2,"loss":1.5})");
  CHECK(sent.lines[1].t == 1795856401.0);
}

TEST_CASE("our own requests of OTLP are read back") {
  logs::Record record;
  record.id = "f1:17";
  record.message = "boom";
  record.rank = 3;
  record.exception = logs::Exception{"ValueError", "bad", "Traceback"};
  const std::vector<logs::Record> records = {record};
  const SentLine line = OnlyLine(logs::OtlpRequest(records, {"r1", "train"}));
  CHECK(line.id == "f1:17");
  CHECK(line.run == "r1");
  CHECK(line.rank == 3);
  CHECK(Has(line.text, "ValueError"));
}

}  // namespace
}  // namespace stepwatch::operations
