#include "controller/cli/incident_words.h"

#include <nlohmann/json.hpp>

#include "operations/vocabulary/names.h"
#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::cli {
namespace {

Json Incident(const char* kind, const char* evidence, const char* ranks = "[]") {
  return {{"incident", kind}, {"ranks", Json::parse(ranks)}, {"evidence", Json::parse(evidence)}};
}

TEST_CASE("every kind of incident has words, and nothing else has") {
  REQUIRE(AllIncidentWords().size() == operations::kIncidentKinds);
  for (size_t i = 0; i < operations::kIncidentKinds; ++i) {
    const IncidentWords& words = AllIncidentWords()[i];
    CHECK(words.kind == operations::NameOf(static_cast<operations::IncidentKind>(i)));
    CHECK_FALSE(std::string(words.what).empty());
    CHECK_FALSE(std::string(words.next).empty());
    CHECK_FALSE(words.sentences.empty());
    // On a line of 80 characters with its severity and its id.
    CHECK((std::string("critical ") + words.kind + ": " + words.what + "  [1a2b3c4d5e6f]").size() <= 80);
  }
}

TEST_CASE("evidence is told in sentences, times and shares with their units") {
  CHECK(EvidenceWords(Incident("stuck", R"({"phase": "train", "witness": "collective_wait", "module": "layers.3",
          "process_state": "T", "standstill_seconds": 34.25, "deadline_seconds": 90, "step_seconds": 0.5,
          "waiting_ranks": [0, 2]})")) ==
        std::vector<std::string>{"no step for 34.25 s; the limit is 1 m 30 s",
                                 "its peers wait in a collective, and it does not",
                                 "in phase train; last module entered: layers.3", "process state T (stopped)",
                                 "ranks 0, 2 wait for it", "the usual step time is 500.0 ms"});
  CHECK(
      EvidenceWords(Incident("throughput_drop",
                             R"({"measure": "tokens_per_second", "rate": 61, "rate_baseline": 100, "ratio": 0.61})")) ==
      std::vector<std::string>{"61 tokens per second, 61 % of the 100 before"});
}

TEST_CASE("a sentence whose evidence is missing is left out, and what no sentence speaks of is told as it is") {
  CHECK(EvidenceWords(
            Incident("loss_nonfinite", R"({"step": 10, "value": "nan", "loss_nonfinite_on": [3], "new": 0.5})")) ==
        std::vector<std::string>{"the loss was nan at step 10", "loss_nonfinite_on 3, new 0.5"});
  CHECK(EvidenceWords(Incident("of_a_later_release", R"({"a": true, "b": {"c": 1}})")) ==
        std::vector<std::string>{R"(a yes, b {"c":1})"});
  CHECK(EvidenceWords(Json(3)).empty());
}

TEST_CASE("symptoms come last, stacks and the end are not evidence in words") {
  CHECK(EvidenceWords(Incident("exception", R"({"type": "ValueError", "message": "bad\u001b[2J", "stack": "File x",
          "fingerprint": "77", "symptoms": ["process_lost on rank 3"], "resolved_by": "x", "open_seconds": 3})")) ==
        std::vector<std::string>{"ValueError: bad\\x1b[2J", "consequences: process_lost on rank 3"});
}

TEST_CASE("long lists are cut") {
  const std::string text =
      EvidenceWords(Incident("stuck", R"({"waiting_ranks": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]})")).front();
  CHECK(text == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more wait for it");
}

TEST_CASE("stacks say whose they are") {
  const auto stacks =
      StacksOf(Incident("stuck", R"({"stacks_of_rank_3": "a", "stacks": "b", "stack": "c", "x": "d"})"));
  REQUIRE(stacks.size() == 3);
  CHECK(stacks[0].of == "rank 3");
  CHECK(stacks[0].text_untrusted == "a");
  CHECK(stacks[1].of == "the run");
  CHECK(stacks[2].of == "the exception");
}

TEST_CASE("ranks are named, many of them are counted") {
  CHECK(CulpritsText(Incident("stuck", "{}")) == "no culprit rank identified");
  CHECK(CulpritsText(Incident("stuck", "{}", "[3]")) == "rank 3");
  CHECK(CulpritsText(Incident("stuck", "{}", "[3, 4, 5, 6, 7]")) == "ranks 3, 4, 5, 6 and 1 more");
  CHECK(ShortCulpritsText(Incident("stuck", "{}")) == "-");
  CHECK(ShortCulpritsText(Incident("stuck", "{}", "[3, 4, 5, 6]")) == "3,4,5 +1");
}

}  // namespace
}  // namespace stepwatch::cli
