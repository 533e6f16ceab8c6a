#include "controller/cli/why.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "controller/cli/text/text_table.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::cli {
namespace {
constexpr double kNoticed = 1767225600;  // 2026-01-01T00:00:00Z
const ConfigText kNothingKept = [](const std::string&) { return std::nullopt; };

Json Line(const char* outcome, const char* time, int64_t plan_id, int64_t step) {
  return {{"version", 1}, {"time", time}, {"outcome", outcome}, {"plan_id", plan_id}, {"step", step}};
}

TEST_CASE("the edits before it went wrong are listed, the last ones first, with their authors") {
  Json first = Line("applied", "2025-12-31T23:00:00Z", 1, 5);
  first["owner_uid"] = 1000;
  Json second = Line("applied", "2025-12-31T23:59:00Z", 2, 97);
  second["peer"] = {{"uid", 0}, {"exe", "/usr/bin/stepwatch"}};
  const Json later = Line("applied", "2026-01-01T00:01:00Z", 3, 200);
  const Json end = Line("finished", "2025-12-31T23:59:30Z", 2, 98);
  const auto lines = EditLines({first, second, end, later, Json(3)}, {100, kNoticed}, kNothingKept);
  CHECK(lines == std::vector<std::string>{"plan 2 began at step 97, 3 steps before the last good step, by uid 0 with "
                                          "/usr/bin/stepwatch",
                                          "plan 1 began at step 5, 95 steps before the last good step, by uid 1000"});
}

TEST_CASE("an edit may have begun with the last good step, or after it") {
  const Json line = Line("applied", "2025-12-31T23:59:00Z", 2, 100);
  CHECK(EditLines({line}, {100, kNoticed}, kNothingKept).front() == "plan 2 began at step 100, the last good step");
  CHECK(EditLines({line}, {99, kNoticed}, kNothingKept).front() ==
        "plan 2 began at step 100, 1 step after the last good step");
  CHECK(EditLines({line}, {-1, kNoticed}, kNothingKept).front() ==
        "plan 2 began at step 100, 1 m 00 s before detection");
  CHECK(EditLines({Line("stopping", "2025-12-31T23:59:00Z", 2, -1)}, {99, kNoticed}, kNothingKept).front() ==
        "plan 2 stopped 1 m 00 s before detection");
}

TEST_CASE("the keys in which the configs differ are shown with both values") {
  Json line = Line("applied", "2025-12-31T23:59:00Z", 2, 100);
  line["old_sha256"] = "old";
  line["sha256"] = "new";
  const ConfigText kept = [](const std::string& sha256) -> std::optional<std::string> {
    return sha256 == "old" ? R"({"step_interval": 1, "ops": ["norm"]})" : R"({"step_interval": 10, "ops": ["max"]})";
  };
  const std::string text = EditLines({line}, {100, kNoticed}, kept).front();
  CHECK(text.find("step_interval 1 -> 10") != std::string::npos);
  CHECK(text.find(R"(ops ["norm","shape","dtype"] -> ["max","shape","dtype"])") != std::string::npos);
  const ConfigText broken = [](const std::string&) { return std::optional<std::string>("{"); };
  CHECK(EditLines({line}, {100, kNoticed}, broken).front() == "plan 2 began at step 100, the last good step");
}

TEST_CASE("a jump of the learning rate near the last good step is shown, its schedule is not") {
  const auto points = [](std::vector<double> rates) {
    Json list = Json::array();
    int64_t step = 0;
    for (const double rate : rates) {
      list.push_back({{"step_first", step}, {"step_last", step}, {"last", rate}});
      ++step;
    }
    return list;
  };
  CHECK(LearningRateJump(points({1e-4, 1.01e-4, 1e-3, 0.99e-3}), {2, kNoticed}) ==
        "the learning rate went from 0.000101 to 0.001 at step 2");
  CHECK(LearningRateJump(points({1e-4, 1.1e-4, 1.2e-4}), {2, kNoticed}).empty());
  CHECK(LearningRateJump(points({1e-4, 1e-4, 1e-4, 1e-3}), {1, kNoticed}).empty());
  CHECK(LearningRateJump(points({0, 1e-4}), {1, kNoticed}).empty());
  CHECK(LearningRateJump(Json(3), {1, kNoticed}).empty());
}

Json Latest() {
  return Json::parse(R"({"version": 1, "kind": "actv", "values": [
    {"name": "embedding", "step": 10, "values": {"norm": 1.5, "nans": 0}},
    {"name": "layers.0", "step": 10, "values": {"norm": "NaN", "nans": 4}},
    {"name": "layers.1", "step": 10, "values": {"norm": 9.25, "nans": 2}},
    {"name": "head", "step": 10, "values": {"norm": 2.5, "nans": 0}}]})");
}

TEST_CASE("the first site with NaN is that of the model's order, backwards the last one") {
  CHECK(FirstNonfinite(Latest(), false) ==
        "layers.0 (actv, step 10): the first of 2 sites with NaN or infinities among 4 measured");
  CHECK(FirstNonfinite(Latest(), true)->starts_with("layers.1 "));
  CHECK_FALSE(FirstNonfinite(Json::object(), false));
  CHECK_FALSE(FirstNonfinite(Json::parse(R"({"values": [3, {"values": {"norm": 1}}]})"), false));
}

TEST_CASE("the largest norm is found among those that are numbers") {
  CHECK(LargestNorm(Latest()) == "layers.1 has the largest norm of actv in step 10: 9.25");
  CHECK_FALSE(LargestNorm(Json::object()));
}

TEST_CASE("the innermost frame of a stack is its last") {
  CHECK(InnermostFrame("Traceback\n  File \"a.py\", line 1, in f\n    g()\n  File \"b.py\", line 7, in g\n    x\n") ==
        "File \"b.py\", line 7, in g");
  CHECK(InnermostFrame("no frames").empty());
}

TEST_CASE("a layer is that of the incident, or the last module of the rank") {
  const Json stuck = Json::parse(R"({"incident": "stuck", "ranks": [1], "evidence": {"module": "layers.3"}})");
  CHECK(FindLayer({}, Json::object(), stuck).text == "last module entered: layers.3");
  const Json lost = Json::parse(R"({"incident": "process_lost", "ranks": [1], "evidence": {}})");
  const Json run = Json::parse(R"({"ranks": [{"rank": 0, "module": "a"}, {"rank": 1, "module": "b"}]})");
  CHECK(FindLayer({}, run, lost).text == "last module entered: b");
  const LayerFound none = FindLayer({}, Json::object(), lost);
  CHECK(none.text.empty());
  CHECK_FALSE(none.unknown.empty());
}

TEST_CASE("an incident without a layer shows none, and one of numbers shows why it is unknown") {
  const auto of = [](const char* kind) { return FindLayer({}, Json::object(), {{"incident", kind}}); };
  CHECK(of("throughput_drop").text.empty());
  CHECK(of("throughput_drop").unknown.empty());
  CHECK(of("grad_explosion").unknown.find("no job of the run responds") != std::string::npos);
}

using testing::Has;

constexpr size_t kWidth = 80;
constexpr long kHeight = 24;

// The words of a label that take several lines, in one.
std::string Unbroken(const std::string& text) {
  const std::string next_line = "\n" + std::string(10, ' ');
  std::string one;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(next_line, at), text.size());
    one.append(text, at, end - at).append(end < text.size() ? " " : "");
    at = end + next_line.size();
  }
  return one;
}

WhyFacts Stopped() {
  WhyFacts facts;
  facts.run = "r1";
  facts.detail = {{"id", "r1"}, {"state", "train"}, {"end_reason", nullptr}, {"world", 2},
                  {"step", 41}, {"heard_t", 999.0}, {"step_seconds", 0.5},   {"restarts", 0}};
  facts.incidents.push_back(Json::parse(R"({"incident": "stuck", "state": "opened", "severity": "critical", "run": "r1",
    "id": "1a2b3c4d5e6f", "ranks": [1], "since_step": 41, "t": 990, "opened_t": 990, "acknowledged": null,
    "silenced_by": null, "evidence": {"phase": "train", "witness": "process_state", "process_state": "T",
    "standstill_seconds": 9.5, "deadline_seconds": 6.5, "step_seconds": 0.5, "waiting_ranks": [0],
    "stacks_of_rank_1": "Thread 7\n  forward (gpt.py:12)\u001b[2J"}})"));
  facts.changes.lines = {"plan 2 began at step 40, 1 step before the last good step, by uid 0: step_interval 1 -> 10"};
  facts.layer.text = "last module entered: layers.3.attn";
  return facts;
}

void CheckFits(const std::string& text) {
  CHECK(std::count(text.begin(), text.end(), '\n') <= kHeight);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(WidthOf(line) <= kWidth);
}

TEST_CASE("one screen shows the incident, its time, culprit and layer, the changes before it, and advice") {
  const std::string text = WhyText(Stopped(), 1000, kWidth);
  CHECK(Has(text, "run       r1: train, step 41, 2 ranks, 500.0 ms per step, last report 1 s ago\n"));
  CHECK(Has(text, "\ncritical stuck: the run makes no progress  [1a2b3c4d5e6f]\n"));
  CHECK(Has(text, "\nsince     last good step 41; noticed 10 s ago, "));
  CHECK(Has(text, "\nfirst     rank 1\n"));
  CHECK(Has(text, "\nlayer     last module entered: layers.3.attn\n"));
  CHECK(Has(text, "\nchanged   plan 2 began at step 40, 1 step before the last good step, by uid 0:"));
  CHECK(Has(Unbroken(text), "by uid 0: step_interval 1 -> 10\n"));
  CHECK(Has(Unbroken(text), "\nevidence  no step for 9.50 s; the limit is 6.50 s; its process is stopped, or waits"));
  CHECK(Has(text, "\nstacks    rank 1; shown by stepwatch why r1 --stacks\n"));
  CHECK(Has(Unbroken(text), "\nnext      Read the stacks (--stacks): "));
  CHECK(Has(Unbroken(text), "A process in state T was stopped: kill -CONT PID."));
  CheckFits(text);
}

TEST_CASE("unknown facts are shown with the reason") {
  WhyFacts facts = Stopped();
  facts.changes = {{}, "nobody answers"};
  facts.layer = {"", "no hooks"};
  const std::string text = WhyText(facts, 1000, kWidth);
  CHECK(Has(text, "\nchanged   edits unknown: nobody answers\n"));
  CHECK(Has(text, "\nlayer     unknown: no hooks\n"));
  facts.changes = {};
  CHECK(Has(WhyText(facts, 1000, kWidth), "\nchanged   no plan began or stopped before it\n"));
}

TEST_CASE("other incidents that are open have two lines each, and the screen still fits") {
  WhyFacts facts = Stopped();
  Json other = facts.incidents.front();
  other["incident"] = "straggler";
  other["severity"] = "warning";
  other["id"] = "77";
  other["evidence"] = {{"step_seconds", 3.0}, {"step_seconds_median", 1.0}, {"ranks_reporting", 2}};
  facts.incidents.push_back(other);
  const std::string text = WhyText(facts, 1000, kWidth);
  CHECK(Has(text, "\nalso open warning straggler, rank 1, since step 41, 10 s: its own part of a step"));
  CheckFits(text);
  for (int i = 0; i < 10; ++i) facts.incidents.push_back(other);
  CHECK(Has(WhyText(facts, 1000, kWidth), "and 7 more: stepwatch incidents --run r1\n"));
}

TEST_CASE("a resolved incident shows its time, and a run may be forgotten or well") {
  WhyFacts facts = Stopped();
  facts.incidents.front()["state"] = "resolved";
  facts.incidents.front()["evidence"]["open_seconds"] = 65;
  facts.incidents.front()["evidence"]["resolved_by"] = "training goes on";
  facts.detail = Json::object();
  const std::string text = WhyText(facts, 5000, kWidth);
  CHECK(Has(Unbroken(text), ", resolved after 1 m 05 s: training goes on\n"));
  CHECK(Has(text, "stepwatchd keeps only its incidents"));
  facts.incidents.clear();
  CHECK(Has(WhyText(facts, 5000, kWidth), "no incidents"));
}

TEST_CASE("stacks are printed in full, and cannot steer a terminal") {
  CHECK(WhyStacksText(Stopped()) == "\nstack of rank 1:\nThread 7\n  forward (gpt.py:12)\\x1b[2J\n");
  CHECK(WhyStacksText({}).empty());
}

TEST_CASE("words are as long as they are, and a screen that is too narrow is wider") {
  WhyFacts facts = Stopped();
  facts.layer.text = std::string(500, 'x');
  CheckFits(WhyText(facts, 1000, kWidth));
  CHECK_FALSE(WhyText(facts, 1000, 0).empty());
}

TEST_CASE("as JSON there are the incidents with words, and null for what is not known") {
  const Json json = WhyJson(Stopped());
  CHECK(json["version"] == 1);
  CHECK(json["run"]["id"] == "r1");
  CHECK(json["incidents"][0]["id"] == "1a2b3c4d5e6f");
  CHECK(json["incidents"][0]["what"] == "the run makes no progress");
  CHECK(json["incidents"][0]["evidence_words"].size() == 6);
  CHECK(json["layer"] == "last module entered: layers.3.attn");
  CHECK(json["changed"].size() == 1);
  CHECK(json["changed_unknown"].is_null());
  CHECK(WhyJson({})["incidents"].empty());
}

}  // namespace
}  // namespace stepwatch::cli
