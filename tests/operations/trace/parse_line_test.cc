// Lines of a trace in both directions, and the errors of invalid ones.

#include "operations/trace/parse_line.h"

#include <cmath>

#include "operations/trace/write_line.h"
#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("a beat has its known numbers, its module, and any other number as reported") {
  const Result<Line> line = ParseLine(
      R"({"t":12.5,"run":"r1","rank":0,"beat":{"step":40,"phase":"train","loss":"nan","lr":1e-4,"module":"a.b",)"
      R"("x":3,"y":"inf","z":[1]}})");
  REQUIRE(line.ok());
  const Beat& beat = std::get<Beat>(line.value().what);
  CHECK(line.value().t == 12.5);
  CHECK(beat.step == 40);
  CHECK(beat.phase == RunPhase::kTrain);
  CHECK(std::isnan(*beat.loss));
  CHECK_FALSE(beat.grad_norm);
  CHECK(beat.module == "a.b");
  REQUIRE(beat.reported.size() == 2);
  CHECK(std::isinf(beat.reported[1].second));
}

TEST_CASE("the rank of an event stands with the line or in the event") {
  for (const char* text : {R"({"t":1,"run":"r","rank":3,"event":{"kind":"process_gone"}})",
                           R"({"t":1,"run":"r","event":{"kind":"process_gone","rank":3}})"})
    CHECK(ParseLine(text).value().rank == 3);
}

TEST_CASE("what is written reads back as the same text") {
  for (
      const char* text :
      {R"({"t":1.5,"run":"r","rank":0,"beat":{"step":4,"phase":"eval","loss":"-inf","module":"m","own":1.0}})",
       R"({"t":1.0,"run":"r","event":{"kind":"start","world":8,"host":"h1"}})",
       R"({"t":1.0,"run":"r","event":{"kind":"start","host":"h1","owner":"ada","partition":"a100"}})",
       R"({"t":1.0,"run":"r","rank":2,"event":{"kind":"exception","type":"E","message":"m","stack":"s"}})",
       R"({"t":1.0,"run":"r","rank":2,"event":{"kind":"gpu","uuid":"u","field":"xid","value":79.0}})",
       R"({"t":1.0,"run":"r","event":{"kind":"pause","expires_seconds":60.0}})",
       R"({"t":1.0,"run":"r","event":{"kind":"host","oom_kill":1.0,"psi":3.5}})",
       R"({"t":1.0,"run":"r","event":{"kind":"host","cgroup_oom_kill":1.0,"cgroup_bytes":7.0,"cgroup_bytes_max":8.0}})",
       R"({"t":1.0,"run":"r","event":{"kind":"clock_step","seconds":-3600.0}})",
       R"({"t":1.0,"event":{"kind":"clock_step","seconds":60.0}})",
       R"({"t":1.0,"run":"r","rank":1,"event":{"kind":"process_state","state":"T"}})",
       R"({"t":1.0,"run":"r","rank":1,"event":{"kind":"collective_wait","operation":"all_reduce","waits":true}})",
       R"({"t":1.0,"run":"r","event":{"kind":"end","reason":"signal"}})"}) {
    const Result<Line> line = ParseLine(text);
    REQUIRE(line.ok());
    CHECK(LineJson(line.value()) == text);
  }
}

TEST_CASE("a line with a value of 120,000 levels, wherever it stands, is refused") {
  const std::string deep = std::string(120000, '[') + std::string(120000, ']');
  const std::string deep_object = [] {
    std::string text;
    for (int i = 0; i < 120000; ++i) text += "{\"a\":";
    return text + "1" + std::string(120000, '}');
  }();
  for (const std::string& value : {deep, deep_object})
    for (const std::string& line :
         {R"({"t":1,"run":"r","rank":0,"event":{"kind":"exception","type":"E","message":)" + value + "}}",
          R"({"t":1,"run":"r","rank":0,"event":{"kind":"stacks","text":)" + value + "}}",
          R"({"t":1,"run":"r","rank":0,"event":{"kind":)" + value + "}}",
          R"({"t":1,"run":"r","rank":0,"beat":{"step":1,"own":)" + value + "}}",
          R"({"t":1,"run":)" + value + R"(,"rank":0,"beat":{"step":1}})", R"({"t":NaN,"x":)" + value + "}", value})
      CHECK_FALSE(ParseLine(line).ok());
}

TEST_CASE("an invalid line is rejected with the reason") {
  const auto message = [](const std::string& text) { return ParseLine(text).status().message(); };
  CHECK(message("[1]") == "the line is not a JSON object");
  CHECK(message(R"({"run":"r","event":{"kind":"start"}})") ==
        "\"t\", the time of the observer's clock in seconds, is missing");
  CHECK(message(R"({"t":"nan","run":"r","event":{"kind":"start"}})") ==
        "\"t\" must be a time in seconds, from -1e12 to 1e12");
  CHECK(message(R"({"t":1,"run":"r","beat":{}})") == "\"rank\" is missing; a beat must have one");
  CHECK(message(R"({"t":1,"run":"r","rank":-1,"beat":{}})") == "\"rank\" must be 0 to 16777215");
  CHECK(message(R"({"t":1,"rank":0,"beat":{}})") == "\"run\", the name of the run, is missing");
  CHECK(message(R"({"t":1,"run":"r","rank":0,"beat":{"step":"high"}})") == "\"step\" must be a whole number");
  CHECK(message(R"({"t":1,"run":"r","event":{"kind":"party"}})") == "unknown kind of event \"party\"");
  CHECK(message(R"({"t":1,"rank":0,"beat":{},"run":")" + std::string(kRunBytesMax + 1, 'r') + "\"}") ==
        "\"run\" must have 1 to 200 bytes");
  CHECK(ParseLine(R"({"t":1,"rank":0,"beat":{},"run":")" + std::string(kRunBytesMax, 'r') + "\"}").ok());
  CHECK(ParseLine(std::string(kLineBytesMax + 1, ' ')).status().code() == StatusCode::kExhausted);
}

TEST_CASE("a malformed number of a beat is absent, and the beat still counts") {
  const auto beat = [](const std::string& members) {
    const Result<Line> line = ParseLine(R"({"t":1,"run":"r","rank":0,"beat":{"step":3,)" + members + "}}");
    REQUIRE(line.ok());
    return std::get<Beat>(line.value().what);
  };
  for (const char* nan : {R"("loss":"NaN")", R"("loss":NaN)", R"("loss":"nan")"}) CHECK(std::isnan(*beat(nan).loss));
  for (const char* inf : {R"("loss":"Infinity")", R"("loss":-Infinity)"}) CHECK(std::isinf(*beat(inf).loss));
  for (const char* none : {R"("loss":"high")", R"("loss":true)", R"("phase":"sleep")", R"("module":7)"}) {
    CHECK_FALSE(beat(none).loss);
    CHECK_FALSE(beat(none).phase);
    CHECK(beat(none).step == 3);
  }
}

TEST_CASE("the texts of a failure are taken in any form") {
  const auto exception = [](const std::string& members) {
    const Result<Line> line = ParseLine(R"({"t":1,"run":"r","event":{"kind":"exception",)" + members + "}}");
    REQUIRE(line.ok());
    return std::get<ExceptionEvent>(std::get<Event>(line.value().what));
  };
  CHECK(exception(R"("stack":["a","b"])").stack == "a\nb");
  CHECK(exception(R"("message":17)").message == "17");
  CHECK(exception(R"("message":"a\udcffb")").message ==
        "a\xEF\xBF\xBD"
        "b");
  CHECK(exception(R"("message":"\ud83d\ude00\udcff")").message == "\xF0\x9F\x98\x80\xEF\xBF\xBD");
  CHECK(exception("\"message\":\"a\xFF\"").message == "a\xEF\xBF\xBD");
  const Result<Line> end = ParseLine(R"({"t":1,"run":"r","event":{"kind":"end","reason":"killed"}})");
  REQUIRE(end.ok());
  CHECK(std::get<EndEvent>(std::get<Event>(end.value().what)).reason == EndReason::kSignal);
}

TEST_CASE("events of the observer, of a host and of a GPU need no run") {
  CHECK(ParseLine(R"({"t":1,"event":{"kind":"clock_step","seconds":-3600}})").ok());
  CHECK(ParseLine(R"({"t":1,"event":{"kind":"host","oom_kill":3}})").ok());
  CHECK(ParseLine(R"({"t":1,"rank":2,"event":{"kind":"gpu","field":"xid","value":79}})").ok());
  CHECK_FALSE(ParseLine(R"({"t":1,"event":{"kind":"process_gone"}})").ok());
}

TEST_CASE("long texts are cut between characters") {
  const std::string text =
      R"({"t":1,"run":"r","event":{"kind":"exception","type":")" + std::string(199, 'a') + "\u00e4\"}}";
  const Result<Line> line = ParseLine(text);
  REQUIRE(line.ok());
  CHECK(std::get<ExceptionEvent>(std::get<Event>(line.value().what)).type == std::string(199, 'a'));
}

TEST_CASE("an incident is one JSON object, and a sentence that cannot steer a terminal") {
  Incident incident;
  incident.t = 15;
  incident.run = "r\x1b[2J";
  incident.ranks = {3};
  incident.since_step = 41;
  incident.id = "ab";
  incident.severity = Severity::kCritical;
  incident.evidence.Set("value", std::nan(""));
  CHECK(IncidentJson(incident).find(R"("incident":"stuck","state":"opened")") != std::string::npos);
  CHECK(IncidentJson(incident).find(R"("evidence":{"value":"nan"})") != std::string::npos);
  CHECK(IncidentSentence(incident).find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace stepwatch::operations
