#include "controller/cli/why_facts.h"

#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::cli {
namespace {
constexpr double kNoticed = 1767225600;  // 2026-01-01T00:00:00Z
const ConfigText kNothingKept = [](const std::string&) { return std::nullopt; };

Json Line(const char* outcome, const char* time, int64_t plan_id, int64_t step) {
  return {{"version", 1}, {"time", time}, {"outcome", outcome}, {"plan_id", plan_id}, {"step", step}};
}

TEST_CASE("the edits before it went wrong are told, the last ones first, with who made them") {
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

TEST_CASE("the keys in which the configs differ are told with both values") {
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

TEST_CASE("a jump of the learning rate near the last good step is told, its schedule is not") {
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

TEST_CASE("a layer is what the incident says, or where the rank was last") {
  const Json stuck = Json::parse(R"({"incident": "stuck", "ranks": [1], "evidence": {"module": "layers.3"}})");
  CHECK(FindLayer({}, Json::object(), stuck).text == "last module entered: layers.3");
  const Json lost = Json::parse(R"({"incident": "process_lost", "ranks": [1], "evidence": {}})");
  const Json run = Json::parse(R"({"ranks": [{"rank": 0, "module": "a"}, {"rank": 1, "module": "b"}]})");
  CHECK(FindLayer({}, run, lost).text == "last module entered: b");
  const LayerFound none = FindLayer({}, Json::object(), lost);
  CHECK(none.text.empty());
  CHECK_FALSE(none.unknown.empty());
}

TEST_CASE("an incident of no layer has none, and one of numbers says why it is not known") {
  const auto of = [](const char* kind) { return FindLayer({}, Json::object(), {{"incident", kind}}); };
  CHECK(of("throughput_drop").text.empty());
  CHECK(of("throughput_drop").unknown.empty());
  CHECK(of("grad_explosion").unknown.find("no job of the run responds") != std::string::npos);
}

}  // namespace
}  // namespace stepwatch::cli
