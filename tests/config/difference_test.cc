// The keys in which two configs differ.

#include "src/config/difference.h"

#include <algorithm>

#include "src/config/fields.h"
#include "tests/config/config_cases.h"
#include "tests/rounds.h"

namespace stepwatch::config {
namespace {

std::string DifferencesText(const std::string& was, const std::string& now) {
  std::string text;
  for (const KeyDifference& each : DifferencesOf(Accepted(was).config, Accepted(now).config))
    text += each.key + ": " + each.was + " -> " + each.now + "\n";
  return text;
}

TEST_CASE("the same config differs in nothing, however it is written") {
  CHECK(DifferencesText("{}", "{}").empty());
  CHECK(DifferencesText("{}", R"({"step_interval": 1, "ops": ["norm"], "stepwatch": {"eps_mode": "parity"}})").empty());
  CHECK(DifferencesText(R"({"collect_times": 5, "start_step": 2})",
                        "{\"start_step\": 2, // from here\n\"collect_times\": 5}")
            .empty());
}

TEST_CASE("each key that differs is named with both values") {
  CHECK(DifferencesText(R"({"step_interval": 10, "ops": ["norm", "max"]})", R"({"ops": ["norm"], "ndigits": 6})") ==
        "step_interval: 10 -> 1\n"
        "ops: [\"norm\",\"max\",\"shape\",\"dtype\"] -> [\"norm\",\"shape\",\"dtype\"]\n"
        "ndigits: null -> 6\n");
  CHECK(DifferencesText(R"({"targets": {"fc\u001b": {}}})", R"({"stepwatch": {"coordination": "local"}})") ==
        "targets: [\"fc\\u001b\"] -> []\nstepwatch.coordination: \"strict\" -> \"local\"\n");
  CHECK(DifferencesText(R"({"stepwatch": {"on_restart": "once"}})", "{}") ==
        "stepwatch.on_restart: \"once\" -> \"start\"\n");
  CHECK(
      DifferencesText("{}", R"({"stepwatch": {"sites": [{"match": "a.*", "kinds": ["mg_direction"], "every": 0}]}})") ==
      "stepwatch.sites: [] -> [{\"match\":\"a.*\",\"kinds\":[\"mg_direction\"],\"every\":0}]\n");
}

TEST_CASE("every key of the table can differ") {
  std::vector<std::string> there;
  for (const ConfigValue& value : ValuesOf(Config())) there.push_back(value.key);
  const auto has = [&](const std::string& key) {
    return std::any_of(there.begin(), there.end(), [&](const std::string& each) {
      return each == key || each.compare(0, key.size() + 1, key + ".") == 0;
    });
  };
  for (const auto rules : {SelectionFields(), WindowFields(), OutputFields(), AlertFields(), FeatureFields()})
    for (const KeyRule<Config>& rule : rules) {
      INFO(rule.text.key);
      CHECK(has(std::string(rule.text.key)));
    }
  for (const auto& rule : InsideAlert()) CHECK(has("alert." + std::string(rule.text.key)));
  for (const auto& rule : InsideCcDistribution()) CHECK(has("cc_distribution." + std::string(rule.text.key)));
  for (const auto& rule : InsideStepwatch()) CHECK(has("stepwatch." + std::string(rule.text.key)));
}

TEST_CASE("configs differ in no key if and only if they are equal") {
  std::vector<Config> configs;
  for (const auto& path : ExampleFiles("good")) configs.push_back(Accepted(ReadExample(path)).config);
  REQUIRE(configs.size() > 5);
  // Each with itself in any case.
  for (size_t i = 0; i < configs.size(); ++i)
    for (size_t k = i % testing::Every(5); k < configs.size(); k += testing::Every(5))
      CHECK(DifferencesOf(configs[i], configs[k]).empty() == (configs[i] == configs[k]));
}

}  // namespace
}  // namespace stepwatch::config
