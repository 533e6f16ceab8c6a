// Values that are unusable and yet accepted: the warnings, their places, and the values used instead.

#include "tests/config/config_cases.h"
#include "tests/rounds.h"

namespace stepwatch::config {
namespace {

using Kind = Warning::Kind;

// Accepts the text, which must give exactly one warning: of this kind, at the '^', with these words.
Config CheckOneWarning(const std::string& text_marked, Kind kind, const std::string& key,
                       const std::vector<std::string>& words) {
  const MarkedText marked = Unmark(text_marked);
  const ParsedConfig parsed = Accepted(marked.text);
  INFO(marked.text);
  REQUIRE(parsed.warnings.size() == 1);
  const Warning& warning = parsed.warnings[0];
  INFO(warning.message);
  CHECK(warning.kind == kind);
  CHECK(warning.place.key == key);
  CHECK(warning.place.line == marked.line);
  CHECK(warning.place.column == marked.column);
  for (const std::string& word : words) CHECK(Has(warning.message, word));
  return parsed.config;
}

struct Count {
  const char* key;
  int64_t Config::*member;
  int64_t instead;
};
constexpr Count kCounts[] = {{"start_step", &Config::start_step, 0},
                             {"collect_times", &Config::collect_times, kCollectTimesForever},
                             {"step_interval", &Config::step_interval, 1}};

TEST_CASE("unusable counts are replaced by their defaults, whatever they are") {
  const std::pair<const char*, const char*> unusable[] = {
      {"-1", "-1 (an integer)"},
      {"true", "true (a boolean)"},
      {"false", "false (a boolean)"},
      {"null", "null"},
      {"1.0", "1.0 (a number"},
      {"1e3", "1e3 (a number"},
      {"\"5\"", "\"5\" (a string)"},
      {"[]", "an empty list"},
      {"{}", "an empty object"},
      {"[1, 2]", "a list of 2"},
      {"9223372036854775808", "9223372036854775808 (an integer beyond 64 bits)"},
      {"-9223372036854775809", "(an integer beyond 64 bits)"},
      {"100000000000000000000000000000000000000000000", "(an integer beyond 64 bits)"},
  };
  for (const Count& count : kCounts)
    for (const auto& [value, found] : unusable) {
      const std::string text = std::string("{\n\"") + count.key + "\":  ^" + value + "}";
      const Config config =
          CheckOneWarning(text, Kind::kReplaced, count.key,
                          {found, "accepted: an integer", std::to_string(count.instead) + " is used"});
      CHECK(config.*count.member == count.instead);
    }
  CHECK(CheckOneWarning(R"({"step_interval": ^0})", Kind::kReplaced, "step_interval", {"found 0"}).step_interval == 1);
  CHECK(Accepted(R"({"start_step": 0, "collect_times": 0})").warnings.empty());
}

TEST_CASE("monitor_mbs_grad falls back to false") {
  for (const char* value : {"\"true\"", "1", "0", "null", "[true]"}) {
    const std::string text = std::string("{\"monitor_mbs_grad\": ^") + value + "}";
    CHECK_FALSE(CheckOneWarning(text, Kind::kReplaced, "monitor_mbs_grad", {"true or false", "false is used"})
                    .monitor_mbs_grad);
  }
}

TEST_CASE("an unknown format becomes csv") {
  for (const char* value : {"\"CSV\"", "\"\"", "null", "3", "[\"csv\"]"}) {
    const std::string text = std::string("{\"format\": ^") + value + "}";
    CHECK(CheckOneWarning(text, Kind::kReplaced, "format", {"\"tensorboard\" or \"api\"; \"csv\" is used"}).format ==
          OutputFormat::kCsv);
  }
}

TEST_CASE("unknown statistics are left out and the nearest is named") {
  const Config config = CheckOneWarning(R"({"ops": ["max", ^"nrom", "min"]})", Kind::kReplaced, "ops[1]",
                                        {"found \"nrom\" (a string)", "it is left out", "did you mean \"norm\"?"});
  CHECK(config.ops == std::vector<Stat>{Stat::kMax, Stat::kMin, Stat::kShape, Stat::kDtype});
  CheckOneWarning(R"({"ops": ["max", ^3]})", Kind::kReplaced, "ops[1]", {"found 3 (an integer)"});
  CheckOneWarning(R"({"ops": ["max", ^"max"]})", Kind::kReplaced, "ops[1]", {"each statistic once"});
  CheckOneWarning(R"({"ops": ["max", ^"Max"]})", Kind::kReplaced, "ops[1]", {});
}

TEST_CASE("norm is used if no statistic is left") {
  const ParsedConfig parsed = Accepted(R"({"ops": ["a", []]})");
  CHECK(parsed.config.ops == std::vector<Stat>{Stat::kNorm, Stat::kShape, Stat::kDtype});
  REQUIRE(parsed.warnings.size() == 3);
  CHECK(parsed.warnings[0].place.key == "ops");
  CHECK(Has(parsed.warnings[0].message, "\"norm\" is used"));
  CHECK(Accepted(R"({"ops": []})").warnings.empty());
}

TEST_CASE("unknown keys are ignored and the nearest known one is named") {
  CheckOneWarning(R"({^"collect_time": 3})", Kind::kUnknownKey, "collect_time", {"did you mean \"collect_times\"?"});
  CheckOneWarning(R"({^"Targets": 3})", Kind::kUnknownKey, "Targets", {"did you mean \"targets\"?"});
  CheckOneWarning(R"({"stepwatch": {^"eps_mod": "x"}})", Kind::kUnknownKey, "stepwatch.eps_mod", {"\"eps_mode\"?"});
  CheckOneWarning(R"({"alert": {"rules": [], ^"dumps": 1}})", Kind::kUnknownKey, "alert.dumps", {"\"dump\"?"});
  const std::string nothing_near = "{^\"wholly_other_thing_altogether\": 3}";
  CheckOneWarning(nothing_near, Kind::kUnknownKey, "wholly_other_thing_altogether", {"unknown key, ignored"});
  CHECK_FALSE(Has(Accepted(Unmark(nothing_near).text).warnings[0].message, "did you mean"));
  CHECK(Accepted(R"({"$schema": "config.schema.json"})").warnings.empty());
}

TEST_CASE("alarm rules that msProbe drops are dropped, with a warning") {
  const std::pair<const char*, std::string> dropped[] = {
      {R"(^{"rule_name": "AnomalyTurbulence"})", "alert.rules[0]"},
      {R"(^{"rule_name": "AnomalyTurbulence", "args": {}})", "alert.rules[0]"},
      {R"({"rule_name": "AnomalyNan", "args": ^{"x": 1, "threshold": 2}})", "alert.rules[0].args"},
  };
  for (const auto& [rule, key] : dropped) {
    const std::string text = R"({"alert": {"rules": [)" + std::string(rule) + "]}}";
    CHECK(CheckOneWarning(text, Kind::kReplaced, key, {"threshold", "the rule is left out"}).alert.rules.empty());
  }
}

TEST_CASE("images without TensorBoard give a warning that names their key, unless they are switched off") {
  CheckOneWarning(R"({"ur_distribution": ^true})", Kind::kNotEffective, "ur_distribution",
                  {"not effective", "images need \"format\": \"tensorboard\""});
  CheckOneWarning(R"({"format": "api", "ur_distribution": ^true})", Kind::kNotEffective, "ur_distribution",
                  {"images need \"format\": \"tensorboard\""});
  CHECK(Accepted(R"({"ur_distribution": true, "format": "tensorboard"})").warnings.empty());
  CHECK(Accepted(R"({"ur_distribution": false})").warnings.empty());
}

TEST_CASE("effective fields give no warning") {
  CHECK(Accepted(R"({"targets": {"a": {}}, "dynamic_on": true, "start_step": 1, "collect_times": 2, "step_interval": 3,
                     "print_struct": true, "module_ranks": [0], "xy_distribution": true, "all_xy": true,
                     "forward_only": true, "backward_only": false, "mv_distribution": true, "wg_distribution": true,
                     "monitor_mbs_grad": true, "param_distribution": true, "mg_direction": true, "ops": ["std"],
                     "eps": 0.5, "ndigits": 3, "step_count_per_record": 4, "squash_name": true,
                     "append_output": ["Dec03_21-34-40", "Dec03_21-34-41"], "format": "tensorboard",
                     "alert": {"rules": [{"rule_name": "AnomalyNan"}], "dump": true},
                     "stepwatch": {"columns": ["plan_id"]}})")
            .warnings.empty());
  // The plan, which knows the front end, warns of features that it lacks.
  CHECK(Accepted(R"({"stack_info": true, "cc_distribution": {"enable": true, "cc_log_only": true},
                     "recording_l2_features": true, "l2_targets": {"linear_hook": []}, "sa_order": "b,s,h,d"})")
            .warnings.empty());
}

TEST_CASE("forward_only with backward_only is noted at the later of the two") {
  CheckOneWarning(R"({"forward_only": true, "backward_only": ^true})", Kind::kNote, "backward_only",
                  {"no activations are collected"});
  CheckOneWarning(R"({"backward_only": true, "forward_only": ^true})", Kind::kNote, "forward_only", {});
}

TEST_CASE("warnings come in file order") {
  const ParsedConfig parsed = Accepted(
      "{\"ops\": [\"x\", \"y\"], \"backward_only\": true, \"forward_only\": true,\n\"stat_step\": 1,\n\"start_step\": "
      "-1}");
  std::vector<std::string> keys;
  for (const Warning& warning : parsed.warnings) keys.push_back(warning.place.key);
  CHECK(keys == std::vector<std::string>{"ops", "ops[0]", "ops[1]", "forward_only", "stat_step", "start_step"});
}

TEST_CASE("a file that is wrong from end to end gives about a hundred warnings and the number of the others") {
  constexpr int kKeys = testing::Rounds(60000);
  std::string text = "{";
  for (int i = 0; i < kKeys; ++i) text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":1";
  const ParsedConfig parsed = Accepted(text + "}");
  REQUIRE(parsed.warnings.size() == 101);
  CHECK(parsed.warnings[99].place.key == "k99");
  CHECK(parsed.warnings[100].kind == Kind::kNote);
  CHECK(parsed.warnings[100].message == "and " + std::to_string(kKeys - 100) + " further warnings, not shown");
}

}  // namespace
}  // namespace stepwatch::config
