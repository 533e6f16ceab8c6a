#include "operations/discovery/beat_answer.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

const std::string kHead = R"({"version":1,"run":"r1","rank":3,"next":9,"newest":11,"lost":2,"dropped":1,"beats":[)";

TEST_CASE("a page of beats is lines, and where to go on") {
  const auto answer =
      ParseBeatAnswer(kHead + R"({"t":1.5,"run":"r1","rank":3,"beat":{"step":4,"loss":"nan","note":"}]{\"[\\"}},)"
                              R"({"t":2,"run":"r1","rank":3,"event":{"kind":"checkpoint","step":4}}]})");
  REQUIRE(answer.ok());
  CHECK(answer.value().run == "r1");
  CHECK(answer.value().rank == 3);
  CHECK(answer.value().next == 9);
  CHECK(answer.value().newest == 11);
  CHECK(answer.value().lost == 2);
  REQUIRE(answer.value().lines.size() == 2);
  CHECK(std::get<Beat>(answer.value().lines[0].what).step == 4);
  CHECK(KindOf(answer.value().lines[1]) == "checkpoint");
}

TEST_CASE("a process reports its own run and rank alone") {
  const auto answer =
      ParseBeatAnswer(kHead + R"({"t":1,"run":"other","rank":0,"event":{"kind":"end","reason":"ok"}}]})");
  REQUIRE(answer.ok());
  CHECK(answer.value().lines[0].run == "r1");
  CHECK(answer.value().lines[0].rank == 3);
}

TEST_CASE("a malformed line is counted, and those around it are kept") {
  const auto answer = ParseBeatAnswer(kHead + R"({"t":"x"},{"a":{}},{"t":1,"run":"r","rank":0,"beat":{"step":1}}]})");
  REQUIRE(answer.ok());
  CHECK(answer.value().lines.size() == 1);
  CHECK(answer.value().refused == 2);
}

TEST_CASE("garbage is no page of beats") {
  for (const std::string& text : std::vector<std::string>{
           "", "[]", "{}", "\"beats\":[", kHead, kHead + "]", kHead.substr(0, 40), kHead + "{", kHead + "{\"a\":\"",
           kHead + "7]}", R"({"run":5,"rank":0,"beats":[]})", R"({"run":"r","rank":-1,"beats":[]})",
           R"({"run":"r","rank":"0","beats":[]})", std::string(100, '['), std::string(5000, ' ') + "\"beats\":[]}"}) {
    INFO(text);
    const auto answer = ParseBeatAnswer(text);
    CHECK((!answer.ok() || (text == kHead + "]" && answer.value().lines.empty())));
  }
}

TEST_CASE("a run's name is fit for logs, whatever it is") {
  const auto answer = ParseBeatAnswer(R"({"run":"a\u001b[2J","rank":0,"beats":[]})");
  REQUIRE(answer.ok());
  CHECK(answer.value().run == "a\\x1b[2J");
}

}  // namespace
}  // namespace stepwatch::operations
