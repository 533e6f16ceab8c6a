#include "controller/cli/incident_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/has.h"

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

TEST_CASE("the table of runs says what each does, and when it was heard") {
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

TEST_CASE("the table of incidents names kind, run, culprits, the last good step and who sees to it") {
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

TEST_CASE("an incident that is resolved says for how long it was open") {
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

TEST_CASE("a time that is none is empty") {
  CHECK(LocalTimeText(0).empty());
  CHECK(LocalTimeText(1e300).empty());
  CHECK(LocalTimeText(1e9).size() == 19);
}

}  // namespace
}  // namespace stepwatch::cli
