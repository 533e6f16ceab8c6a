#include "controller/cli/text/incident_text.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "controller/cli/text/time_text.h"
#include "operations/vocabulary/names.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

namespace stepwatch::cli {
namespace {

using testing::Has;

Json Run(const std::string& id, const std::string& state, int64_t open) {
  return {{"id", id},     {"state", state},       {"end_reason", nullptr}, {"world", 8},
          {"step", 1041}, {"step_seconds", 0.35}, {"heard_t", 995.0},      {"incidents_open", open}};
}

Json NanIncident() {
  return Json::parse(R"({"t": 1000, "incident": "loss_nonfinite", "state": "opened", "run": "r1", "ranks": [3, 0],
    "since_step": 9, "id": "1a2b3c4d5e6f", "severity": "critical", "evidence": {"step": 10, "value": "nan"},
    "opened_t": 990, "acknowledged": null, "silenced_by": null})");
}

TEST_CASE("the table of runs shows phase, step and last report of each") {
  CHECK(RunsText({Run("r1", "train", 2)}, {Run("r1", "train", 2)}, 1000) ==
        "RUN  STATE  WORLD  STEP  STEP TIME  INCIDENTS  LAST REPORT\n"
        "r1   train  8      1041  350.0 ms   2 open     5 s ago\n");
}

TEST_CASE("what is not known of a run is a dash, and its end has a reason") {
  Json run = Run("r1", "ended", 0);
  run["end_reason"] = "signal";
  run["world"] = run["step"] = run["step_seconds"] = nullptr;
  CHECK(Has(RunsText({run}, {run}, 1000), "\nr1   ended (signal)  -      -     -          -          5 s ago\n"));
}

TEST_CASE("answers of another form are shown as far as they go") {
  CHECK_FALSE(RunsText({Json::object(), Json(3), Json("x")}, {Json(3)}, 1000).empty());
  CHECK_FALSE(IncidentsText({Json::object(), Json::array(), Json("\x1b[2J")}, 1000).empty());
  CHECK_FALSE(ChangeLine("opened", Json(3)).empty());
}

TEST_CASE("a run of interest has not ended, or something of it is open") {
  CHECK(IsOfInterest(Run("r", "paused", 0)));
  CHECK(IsOfInterest(Run("r", "ended", 1)));
  CHECK_FALSE(IsOfInterest(Run("r", "ended", 0)));
}

TEST_CASE("the table of incidents has kind, run, culprits, the last good step and the acknowledgement") {
  CHECK(IncidentsText({NanIncident()}, 1000) ==
        "ID            SEVERITY  KIND            RUN  RANKS  SINCE  OPEN FOR  NOTE\n"
        "1a2b3c4d5e6f  critical  loss_nonfinite  r1   3,0    9      10 s      -\n");
  Json seen = NanIncident();
  seen["acknowledged"] = {{"by", "kim"}, {"note", "looking\x1b[2J"}, {"t", 995}};
  seen["silenced_by"] = "77";
  seen["ranks"] = {7, 6, 5, 4, 3};
  const std::string text = IncidentsText({seen}, 1000);
  CHECK(Has(text, "  7,6,5 +2  "));
  CHECK(Has(text, "acknowledged by kim: looking\\x1b[2J; si"));
  CHECK_FALSE(Has(text, "\x1b"));
}

TEST_CASE("a resolved incident shows how long it was open") {
  Json resolved = NanIncident();
  resolved["state"] = "resolved";
  resolved["evidence"]["open_seconds"] = 125;
  CHECK(Has(IncidentsText({resolved}, 1030), "  2 m 05 s  resolved 30 s ago\n"));
  CHECK(OpenSeconds(resolved, 5000) == 125);
  CHECK_FALSE(IsOpen(resolved));
}

TEST_CASE("a change is a line with its time, its evidence and the id") {
  const std::string line = ChangeLine("opened", NanIncident());
  CHECK(line.starts_with(LocalTimeText(1000)));
  CHECK(Has(line, "opened        critical  loss_nonfinite in r1, ranks 3, 0, since step 9 [1a2b3c4d5e6f] "));
  CHECK(Has(line, "the loss was nan at step 10"));
  Json resolved = NanIncident();
  resolved["state"] = "resolved";
  resolved["evidence"]["open_seconds"] = 10;
  resolved["evidence"]["resolved_by"] = "finite again";
  CHECK(Has(ChangeLine("resolved", resolved), "[1a2b3c4d5e6f] after 10 s: finite again"));
  Json seen = NanIncident();
  seen["acknowledged"] = {{"by", "kim"}, {"note", ""}, {"t", 995}};
  CHECK(ChangeLine("acknowledged", seen).starts_with(LocalTimeText(995)));
  CHECK(Has(ChangeLine("acknowledged", seen), "[1a2b3c4d5e6f] acknowledged by kim"));
}

TEST_CASE("the worst incident is open, critical, seen to by nobody, and the oldest") {
  const auto made = [](const char* severity, double opened_t, const char* state = "opened") {
    Json json = NanIncident();
    json["severity"] = severity;
    json["opened_t"] = opened_t;
    json["state"] = state;
    return json;
  };
  Json seen = made("critical", 1);
  seen["acknowledged"] = {{"by", "kim"}};
  std::vector<Json> all = {
      made("warning", 5), made("critical", 9, "resolved"), seen, made("critical", 7), made("critical", 6),
      made("info", 0)};
  std::stable_sort(all.begin(), all.end(), IsWorse);
  std::vector<double> order;
  for (const Json& each : all) order.push_back(each["opened_t"].get<double>());
  CHECK(order == std::vector<double>{6, 7, 1, 5, 0, 9});
}

Json Incident(const char* kind, const char* evidence, const char* ranks = "[]") {
  return {{"incident", kind}, {"ranks", Json::parse(ranks)}, {"evidence", Json::parse(evidence)}};
}

TEST_CASE("every kind of incident has a meaning, advice and sentences about its evidence") {
  for (const vocabulary::IncidentKindText& kind : vocabulary::kIncidentKindTexts) {
    const std::string name(kind.name);
    CHECK(operations::IncidentKindNamed(name));
    CHECK(TextOfKind(name).meaning == kind.meaning);
    CHECK_FALSE(kind.meaning.empty());
    CHECK_FALSE(kind.advice.empty());
    CHECK_FALSE(SentencesOfKind(name).empty());
    // On a line of 80 characters with its severity and its id.
    CHECK(("critical " + name + ": " + std::string(kind.meaning) + "  [1a2b3c4d5e6f]").size() <= 80);
  }
  CHECK_FALSE(TextOfKind("of_a_later_release").meaning.empty());
}

TEST_CASE("the documentation has a section on every kind of incident") {
  std::string headings;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(STEPWATCH_SOURCE_DIR "/docs")) {
    if (entry.path().filename() != "incidents.md") continue;
    std::istringstream page(testing::Contents(entry.path()));
    for (std::string line; std::getline(page, line);)
      if (line.starts_with("#")) headings += line + "\n";
  }
  for (const vocabulary::IncidentKindText& kind : vocabulary::kIncidentKindTexts)
    CHECK(Has(headings, "`" + std::string(kind.name) + "`"));
}

TEST_CASE("the documentation names the severity of every kind of incident") {
  std::map<std::string, std::string> rows;  // by severity
  std::istringstream page(testing::Contents(STEPWATCH_SOURCE_DIR "/docs/operate/incidents.md"));
  for (std::string line; std::getline(page, line);)
    for (const char* severity : {"critical", "warning"})
      if (Has(line, "| `" + std::string(severity) + "` |")) rows[severity] += line;
  for (const vocabulary::IncidentKindText& kind : vocabulary::kIncidentKindTexts) {
    const std::string severity(operations::NameOf(kind.severity));
    CHECK(Has(rows[severity], "`" + std::string(kind.name) + "`"));
  }
}

TEST_CASE("evidence is shown in sentences, times and shares with their units") {
  CHECK(EvidenceText(Incident("stuck", R"({"phase": "train", "witness": "collective_wait", "module": "layers.3",
          "process_state": "T", "standstill_seconds": 34.25, "deadline_seconds": 90, "step_seconds": 0.5,
          "waiting_ranks": [0, 2]})")) ==
        std::vector<std::string>{"no step for 34.25 s; the limit is 1 m 30 s",
                                 "its peers wait in a collective, and it does not",
                                 "in phase train; last module entered: layers.3", "process state T (stopped)",
                                 "ranks 0, 2 wait for it", "the usual step time is 500.0 ms"});
  CHECK(
      EvidenceText(Incident("throughput_drop",
                            R"({"measure": "tokens_per_second", "rate": 61, "rate_baseline": 100, "ratio": 0.61})")) ==
      std::vector<std::string>{"61 tokens per second, 61 % of the 100 before"});
}

TEST_CASE("a sentence without its evidence is left out, and evidence without a sentence is shown as it is") {
  CHECK(EvidenceText(
            Incident("loss_nonfinite", R"({"step": 10, "value": "nan", "loss_nonfinite_on": [3], "new": 0.5})")) ==
        std::vector<std::string>{"the loss was nan at step 10", "loss_nonfinite_on 3, new 0.5"});
  CHECK(EvidenceText(Incident("of_a_later_release", R"({"a": true, "b": {"c": 1}})")) ==
        std::vector<std::string>{R"(a yes, b {"c":1})"});
  CHECK(EvidenceText(Json(3)).empty());
}

TEST_CASE("symptoms come last, stacks and the end are not evidence in words") {
  CHECK(EvidenceText(Incident("exception", R"({"type": "ValueError", "message": "bad\u001b[2J", "stack": "File x",
          "fingerprint": "77", "symptoms": ["process_lost on rank 3"], "resolved_by": "x", "open_seconds": 3})")) ==
        std::vector<std::string>{"ValueError: bad\\x1b[2J", "consequences: process_lost on rank 3"});
}

TEST_CASE("long lists are cut") {
  const std::string text =
      EvidenceText(Incident("stuck", R"({"waiting_ranks": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]})")).front();
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

TEST_CASE("long ids are cut to what no other has, short ones are whole") {
  CHECK(ShortIds({"r1", "my-run", "0123456789abcdef"}) == std::vector<std::string>{"r1", "my-run", "0123456789abcdef"});
  CHECK(ShortIds({"0123456789abcdef0", "0123456789abXXXXX", "fedcba9876543210f"}) ==
        std::vector<std::string>{"0123456789abc", "0123456789abX", "fedcba98"});
  CHECK(ShortIds({"0123456789abcdef0", "0123456789abcdef0"}) == std::vector<std::string>{"01234567", "01234567"});
  CHECK(ShortIds({}).empty());
}

}  // namespace
}  // namespace stepwatch::cli
