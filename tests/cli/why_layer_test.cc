#include "controller/cli/why_layer.h"

#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::cli {
namespace {

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
