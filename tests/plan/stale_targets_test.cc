// Names in a config that the model does not have: the warnings about them, which are few.

#include <string>
#include <vector>

#include "tests/plan/compiled.h"

namespace stepwatch::plan {
namespace {

using config::Config;

SiteIndex Layers(int count) {
  SiteIndex index;
  index.features = true;
  for (int i = 0; i < count; ++i) {
    const std::string name = "model.layers." + std::to_string(i) + ".attention";
    index.modules.push_back({0, name, "Attention", true});
    index.parameters.push_back({0, name + ".weight", DType::kFloat32, {1}, true});
  }
  return index;
}

std::vector<std::string> StaleNames(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("model.layer." + std::to_string(i) + ".attention");
  return names;
}

std::vector<config::Warning> WarningsOf(const Config& config, const SiteIndex& index) {
  return Compile(config, index).warnings;
}

TEST_CASE("of many stale targets ten are named with a suggestion and one warning counts the rest") {
  Config config;
  config.wg_distribution = true;
  config.targets = StaleNames(2000);
  const auto warnings = WarningsOf(config, Layers(20));
  REQUIRE(warnings.size() == 11);
  for (size_t i = 0; i < 10; ++i) {
    CHECK(warnings[i].place.key == "targets");
    CHECK(warnings[i].message.find("\"" + config.targets[i] + "\" matches no module and no parameter") == 0);
    CHECK(warnings[i].message.find("did you mean \"model.layers." + std::to_string(i) + ".attention\"?") !=
          std::string::npos);
  }
  CHECK(warnings[10].place.key == "targets");
  CHECK(warnings[10].message ==
        "1990 further names select nothing either, among them \"model.layer.10.attention\", "
        "\"model.layer.11.attention\" and \"model.layer.12.attention\"");
}

TEST_CASE("stale names of one feature give the warnings of stale targets") {
  Config config;
  config.recording_l2_features = true;
  config.l2_targets["attention_hook"] = StaleNames(12);
  const auto warnings = WarningsOf(config, Layers(20));
  REQUIRE(warnings.size() == 11);
  CHECK(warnings[0].message.find("did you mean \"model.layers.0.attention\"?") != std::string::npos);
  CHECK(warnings[10].place.key == "l2_targets.attention_hook");
  CHECK(warnings[10].message ==
        "2 further names select nothing either: \"model.layer.10.attention\" and \"model.layer.11.attention\"");
}

TEST_CASE("eleven stale targets are ten and one more") {
  Config config;
  config.wg_distribution = true;
  config.targets = StaleNames(11);
  const auto warnings = WarningsOf(config, Layers(1));
  REQUIRE(warnings.size() == 11);
  CHECK(warnings[10].message == "1 further name selects nothing either: \"model.layer.10.attention\"");
  config.targets = StaleNames(10);
  CHECK(WarningsOf(config, Layers(1)).size() == 10);
}

TEST_CASE("stale names among good ones take nothing from what is selected") {
  Config config;
  config.wg_distribution = config.xy_distribution = config.forward_only = true;
  config.targets = StaleNames(50);
  for (const int layer : {3, 7}) config.targets.push_back("model.layers." + std::to_string(layer) + ".attention");
  const CompiledPlan compiled = Compile(config, Layers(20));
  CHECK(compiled.plan->layout.sites.size() == 2 * 2 + 2 * 2);
  CHECK(compiled.warnings.size() == 11);
}

}  // namespace
}  // namespace stepwatch::plan
