#include <algorithm>
#include <nlohmann/json.hpp>

#include "controller/cli/top/keys.h"
#include "controller/cli/top/view.h"
#include "controller/status/status_json.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::cli {
namespace {
using testing::Has;

Json ValueOf(const std::string& name, int64_t step, const Json& values) {
  return {{"name", name}, {"tag", "0:" + name}, {"chunk", 0}, {"step", step}, {"micro_step", 0}, {"values", values}};
}

TopAnswers Answers() {
  status::JobStatus status;
  status.reload.run_id = "0123456789";
  status.world_size = 4;
  status.uptime_seconds = 61;
  status.monitor.state = RunState::kCollecting;
  status.monitor.plan_id = 3;
  status.monitor.step = 1041;
  status.monitor.collected = 5;
  status.reload.in_force =
      status::PlanStatus{.plan_id = 3, .config_sha256 = "abc", .collect_times = 100, .rows_per_step = 12};
  status.step_seconds = 0.35;
  TopAnswers answers;
  answers.job = "7-1";
  answers.status = status::StatusJson(status);
  answers.ranks = {{"world_size", 4}, {"ranks", {{{"rank", 0}, {"state", "COLLECTING"}, {"step", 1041}}}}};
  answers.kind = "grad_reduced";
  answers.latest = {{"values",
                     {ValueOf("fc1.weight", 1040, {{"norm", 0.5}, {"max", 3}}),
                      ValueOf("fc1.bias", 1040, {{"norm", "NaN"}, {"max", "Infinity"}}),
                      ValueOf("fc2.weight", 1038, {{"norm", 1234567.0}, {"nans", 2}})}}};
  return answers;
}

std::string Screen(const TopAnswers& answers, const TopChoice& choice, TopSize size) {
  std::string screen;
  for (const std::string& line : TopLines(answers, choice, size)) screen += line + "\n";
  return screen;
}

std::vector<std::string> Names(const TopAnswers& answers, const TopChoice& choice) {
  std::vector<std::string> names;
  for (const TopRow& row : ChosenRows(TableOf(answers.latest), choice)) names.push_back(row.name);
  return names;
}

using Strings = std::vector<std::string>;

TEST_CASE("what measuring takes is a table of its own, by kinds, and sorts like the others") {
  TopAnswers answers = Answers();
  answers.kind = kCostKind;
  answers.latest = CostAsLatest(answers.status);
  CHECK(Has(Screen(answers, {}, {80, 12}), "cost: no values yet"));
  status::JobStatus status;
  status.cost.total = {.collected = 4, .steps = 40, .elapsed_ns = 20'500'000'000};
  const auto cost = [&](size_t part, uint64_t ns, double per_collected) {
    status.cost.total.ns[part] = ns;
    status.cost.per_collected[part] = per_collected;
  };
  cost(static_cast<size_t>(SiteKind::kActv), 100'000'000, 0.025);
  cost(step::kBoundaryCost, 100'000'000, 0.025);
  cost(static_cast<size_t>(SiteKind::kGradReduced), 300'000'000, 0.05);
  answers.status["cost"] = status::StatusJson(status)["cost"];
  answers.latest = CostAsLatest(answers.status);
  CHECK(Names(answers, {.sort = "ms/step"}) == Strings{"grad_reduced", "actv", "boundary"});
  CHECK(Names(answers, {.sort = "ms/step", .ascending = true}) == Strings{"actv", "boundary", "grad_reduced"});
  const std::string screen = Screen(answers, {.sort = "ms/step"}, {80, 12});
  CHECK(Has(screen, "cost: 3 rows, sorted by ms/step\n"));
  CHECK(Has(screen, "grad_reduced                               -          50          50         0.3\n"));
  for (const Json& odd : {Json{{"cost", 3}}, Json{{"cost", {{"per_collected_step", 2}}}},
                          Json{{"cost", {{"per_collected_step", {{"actv", "x"}, {"b", {1}}}}}}}})
    CHECK(CostAsLatest(odd) == Json{{"values", Json::array()}});
}

TEST_CASE("a small terminal shows who, what, the table and the keys") {
  CHECK(Screen(Answers(), {.sort = "norm"}, {80, 10}) ==
        "stepwatch top  7-1, rank 0 of 4, run 01234567, up 1 m 01 s\n"
        "COLLECTING, plan 3: 5/100 steps collected\n"
        "step 1041, 350.0 ms per step recently; 12 rows per collected step\n"
        "grad_reduced: 3 rows, sorted by norm\n"
        "SITE                                    STEP       *norm         max        nans\n"
        "fc1.bias                                1040         nan         inf           -\n"
        "fc2.weight                              1038  1.2346e+06           -           2\n"
        "fc1.weight                              1040         0.5           3           -\n"
        "\n"
        "q quit  Tab kind  < > sort  r reverse  / filter  arrows, Home, End\n");
}

TEST_CASE("a screen of any size is filled and never overflows") {
  for (const size_t width : {0, 1, 8, 20, 25, 30, 37, 38, 80, 200}) {
    for (const size_t height : {0, 1, 2, 5, 7, 24}) {
      const auto lines = TopLines(Answers(), {.sort = "nans"}, {width, height});
      CHECK(lines.size() == height);
      for (const std::string& line : lines) CHECK(WidthOf(line) <= width);
    }
  }
  // The statistic that sorts is among those that fit.
  CHECK(Has(Screen(Answers(), {.sort = "nans"}, {40, 10}), "*nans"));
}

TEST_CASE("rows are sorted by any statistic, and what is no number comes first") {
  CHECK(Names(Answers(), {}) == Strings{"fc1.weight", "fc1.bias", "fc2.weight"});
  CHECK(Names(Answers(), {.ascending = true}) == Strings{"fc2.weight", "fc1.bias", "fc1.weight"});
  CHECK(Names(Answers(), {.sort = "norm"}) == Strings{"fc1.bias", "fc2.weight", "fc1.weight"});
  CHECK(Names(Answers(), {.sort = "norm", .ascending = true}) == Strings{"fc1.bias", "fc1.weight", "fc2.weight"});
  CHECK(Names(Answers(), {.sort = "max"}) == Strings{"fc1.bias", "fc1.weight", "fc2.weight"});
  CHECK(Names(Answers(), {.sort = "norm", .filter = "weight"}) == Strings{"fc2.weight", "fc1.weight"});
  CHECK(Names(Answers(), {.sort = "no such"}) == Strings{"fc1.weight", "fc1.bias", "fc2.weight"});
}

TEST_CASE("several ranks have a line") {
  TopAnswers answers = Answers();
  answers.ranks = {{"world_size", 4},
                   {"ranks",
                    {{{"rank", 0}, {"state", "COLLECTING"}, {"step", 10}},
                     {{"rank", 1}, {"state", "COLLECTING"}, {"step", 12}},
                     {{"rank", 2}, {"state", "FAILED"}, {"step", 11}}}}};
  CHECK(Has(Screen(answers, {}, {80, 24}), "\nranks 3 of 4: 2 COLLECTING 1 FAILED, steps 10 to 12\n"));
  CHECK(TopPage(answers, {80, 24}) == TopPage(Answers(), {80, 24}) - 1);
}

TEST_CASE("trouble takes the place of the state, and what was known stays") {
  TopAnswers answers = Answers();
  answers.trouble = "the job does not respond; retrying";
  const std::string screen = Screen(answers, {}, {80, 24});
  CHECK(Has(screen, "\nthe job does not respond; retrying\n"));
  CHECK(Has(screen, "fc1.weight"));
}

TEST_CASE("everything is printed where there is no screen") {
  TopAnswers answers = Answers();
  for (int i = 0; i < 100; ++i) answers.latest["values"].push_back(ValueOf(std::string(90, 'x'), 1, {{"norm", i}}));
  const auto lines = TopLinesOfAll(answers, {});
  CHECK(lines.size() == 5 + 103);
  CHECK(Has(lines.back(), std::string(90, 'x') + " "));
}

TEST_CASE("values of any shape are shown as far as they go, and cannot write to the terminal") {
  for (const char* odd :
       {"{}", R"({"values": 3})", R"({"values": [1, {}, {"values": []}, {"name": 3, "values": {"a": {}}}]})"}) {
    TopAnswers answers;
    answers.latest = Json::parse(odd);
    answers.status = Json::parse(odd);
    answers.ranks = Json::parse(R"({"ranks": [1, [], {"state": 3}]})");
    CHECK(TopLines(answers, {.sort = "a"}, {80, 24}).size() == 24);
  }
  TopAnswers answers = Answers();
  answers.latest["values"][0]["name"] = "\x1b[2J\r\n";
  answers.latest["values"][0]["values"]["\x1b[2J"] = 1;
  answers.status["state"] = "\x1b[2J";
  CHECK_FALSE(Has(Screen(answers, {}, {200, 24}), "\x1b"));
}

// --- keys ---

// Types on a page of 2 rows.
TopChoice Typed(TopChoice choice, const std::string& bytes, TopWish wish = TopWish::kNone) {
  TopWish last = TopWish::kNone;
  for (const TopPress& press : PressesIn(bytes)) last = Press(press, TableOf(Answers().latest), 2, &choice);
  CHECK(last == wish);
  return choice;
}

TEST_CASE("what a terminal sends is taken apart into keys, and what is no key is passed over") {
  const auto keys = [](const std::string& bytes) {
    std::vector<TopKey> found;
    for (const TopPress& press : PressesIn(bytes)) found.push_back(press.key);
    return found;
  };
  using K = TopKey;
  CHECK(keys("\x1b[A\x1bOB\x1b[C\x1b[D") == std::vector<K>{K::kUp, K::kDown, K::kRight, K::kLeft});
  CHECK(keys("\x1b[5~\x1b[6~\x1b[H\x1b[4~") == std::vector<K>{K::kPageUp, K::kPageDown, K::kHome, K::kEnd});
  CHECK(keys("\t\x1b[Z\r\x7f") == std::vector<K>{K::kTab, K::kBackTab, K::kEnter, K::kErase});
  CHECK(keys("\x1b[15;2~\x1b[200~q\x01\xc3\xa4") == std::vector<K>{K::kLetter});
  CHECK(keys("\x1b") == std::vector<K>{K::kEscape});
  CHECK(keys("\x1bq") == std::vector<K>{K::kEscape, K::kLetter});
  CHECK(keys("\x1b[").empty());
  CHECK(PressesIn("q") == std::vector<TopPress>{{TopKey::kLetter, 'q'}});
}

TEST_CASE("keys leave, change the kind, sort and reverse") {
  Typed({}, "q", TopWish::kQuit);
  Typed({}, "k", TopWish::kNextKind);
  Typed({}, "\t", TopWish::kNextKind);
  Typed({}, "\x1b[Z", TopWish::kPreviousKind);
  CHECK(Typed({}, ">").sort == "norm");
  CHECK(Typed({}, "\x1b[C>").sort == "max");
  CHECK(Typed({}, ">>>>").sort.empty());
  CHECK(Typed({}, "<").sort == "nans");
  CHECK(Typed({.sort = "gone"}, ">").sort == "norm");
  CHECK(Typed({}, "r").ascending);
}

TEST_CASE("a filter is typed, kept and cleared, and its letters are no commands") {
  TopChoice choice = Typed({}, "/q.bia\x7f");
  CHECK(choice.is_typing);
  CHECK(choice.filter == "q.bi");
  CHECK(Has(Screen(Answers(), choice, {80, 24}),
            "grad_reduced: 0 of 3 rows, sorted by the plan's order, filter: q.bi_\n"));
  choice = Typed(choice, "\r");
  CHECK_FALSE(choice.is_typing);
  CHECK(choice.filter == "q.bi");
  CHECK(Typed(choice, "\x1b").filter.empty());
  CHECK(Typed({}, "/abc\x1b").filter.empty());
  CHECK(Typed({}, "/" + std::string(1000, 'a')).filter.size() == 100);
}

TEST_CASE("scrolling ends at both ends, also when rows have gone meanwhile") {
  CHECK(Typed({}, "\x1b[B").first == 1);
  CHECK(Typed({}, "\x1b[B\x1b[B\x1b[B").first == 1);
  CHECK(Typed({}, "\x1b[A").first == 0);
  CHECK(Typed({}, "\x1b[6~").first == 1);
  CHECK(Typed({}, "\x1b[F").first == 1);
  CHECK(Typed({.first = 1}, "\x1b[H").first == 0);
  CHECK(Typed({.first = 1000}, "\x1b[A").first == 0);
  CHECK(Has(Screen(Answers(), {.first = 1000}, {80, 8}), "fc2.weight"));
}

}  // namespace
}  // namespace stepwatch::cli
