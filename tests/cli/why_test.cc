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

TEST_CASE("one screen says what happened, since when, who and where first, what was changed, and what to do") {
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

TEST_CASE("what is not known is said, and why") {
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

TEST_CASE("an incident that is over says when it was, and a run may be forgotten or well") {
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
