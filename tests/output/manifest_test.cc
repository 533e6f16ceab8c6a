#include "src/output/manifest.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace stepwatch::output {
namespace {

SiteIndex ExampleSites() {
  SiteIndex sites;
  sites.modules = {{0, "", "Model", true}, {1, "layers.0", "Linear", false, "written"}};
  sites.parameters = {{0, "layers.0.weight", DType::kBFloat16, {3, 4}, true},
                      {1, "scale", DType::kFloat32, {}, false, ""}};
  sites.operators = {"all_reduce", "send"};
  sites.features = sites.stacks = sites.heatmaps = true;
  return sites;
}

Manifest Example() {
  Manifest manifest;
  manifest.run_id = "abc";
  manifest.rank = 3;
  manifest.world_size = 8;
  manifest.grad_acc_steps = 4;
  manifest.dynamic = true;
  manifest.sites = std::make_shared<SiteIndex>(ExampleSites());
  ManifestPlan plan;
  plan.plan_id = 2;
  plan.state = "drained";
  plan.first_step = 5;
  plan.last_step = 9;
  plan.collected = 2;
  plan.ledger = Ledger{10, 8, {2, 0, 0, 0}};
  manifest.plans = {plan};
  return manifest;
}

TEST_CASE("the site index of a manifest reads back as it was written") {
  const auto read = SitesFromManifest(ManifestText(Example()));
  REQUIRE(read.ok());
  const SiteIndex& sites = read.value().sites;
  CHECK(read.value().grad_acc_steps == 4);
  REQUIRE(sites.modules.size() == 2);
  CHECK(sites.modules[0].name.empty());
  CHECK(sites.modules[1].chunk == 1);
  CHECK(sites.modules[1].type == "Linear");
  CHECK_FALSE(sites.modules[1].watchable);
  CHECK_FALSE(sites.modules[0].as_written.has_value());
  CHECK(sites.modules[1].as_written == "written");
  REQUIRE(sites.parameters.size() == 2);
  CHECK(sites.parameters[0].dtype == DType::kBFloat16);
  CHECK(sites.parameters[0].shape == std::vector<int64_t>{3, 4});
  CHECK(sites.parameters[1].shape.empty());
  CHECK_FALSE(sites.parameters[1].requires_grad);
  CHECK_FALSE(sites.parameters[0].as_written.has_value());
  CHECK(sites.parameters[1].as_written == "");
  CHECK(sites.operators == std::vector<std::string>{"all_reduce", "send"});
  CHECK(sites.features);
  CHECK(sites.stacks);
  CHECK(sites.heatmaps);
}

TEST_CASE("a manifest of a version before communication, features and stacks is one of a front end without them") {
  const auto read = SitesFromManifest(R"({"sites": {"modules": [], "parameters": []}})");
  REQUIRE(read.ok());
  CHECK(read.value().sites.operators.empty());
  CHECK_FALSE(read.value().sites.features);
  CHECK_FALSE(read.value().sites.stacks);
  CHECK_FALSE(read.value().sites.heatmaps);
}

TEST_CASE("a manifest holds a plan's steps, its end and its ledger") {
  const auto json = nlohmann::json::parse(ManifestText(Example()));
  CHECK(json["rank"] == 3);
  REQUIRE(json["plans"].size() == 1);
  CHECK(json["plans"][0]["first_step"] == 5);
  CHECK(json["plans"][0]["ledger"]["produced"] == 10);
  CHECK(json["plans"][0]["ledger"]["dropped"]["ring_full"] == 2);
}

TEST_CASE("a manifest names the segments that are closed") {
  Manifest manifest = Example();
  manifest.segments = {{1, 40, {"actv_0-99.csv"}}, {2, 80, {}}};
  const auto segments = nlohmann::json::parse(ManifestText(manifest)).at("segments");
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].at("last_step") == 40);
  CHECK(segments[0].at("files").at(0) == "actv_0-99.csv");
  CHECK(segments[1].at("segment") == 2);
}

TEST_CASE("names that are not UTF-8 do not keep a manifest from being written") {
  Manifest manifest = Example();
  SiteIndex sites = ExampleSites();
  sites.modules[1].name = "bad\xff\xfename";
  manifest.sites = std::make_shared<SiteIndex>(sites);
  manifest.config_path = "/tmp/\xc3";
  CHECK(SitesFromManifest(ManifestText(manifest)).ok());
}

TEST_CASE("a manifest is indented as JSON usually is, whatever it lacks") {
  Manifest bare;
  for (const Manifest& manifest : {Example(), bare}) {
    const std::string text = ManifestText(manifest);
    CHECK(nlohmann::ordered_json::parse(text).dump(1) + "\n" == text);
  }
}

TEST_CASE("every dtype keeps its name") {
  for (int i = 0; i <= static_cast<int>(DType::kOther); ++i) {
    Manifest manifest = Example();
    SiteIndex sites = ExampleSites();
    sites.parameters[0].dtype = static_cast<DType>(i);
    manifest.sites = std::make_shared<SiteIndex>(sites);
    CHECK(SitesFromManifest(ManifestText(manifest)).value().sites.parameters[0].dtype == static_cast<DType>(i));
  }
}

TEST_CASE("a text that is no manifest is refused with a sentence") {
  for (const char* text :
       {"", "{", "[]", "7", "{}", R"({"sites": 1})", R"({"sites": {"modules": [], "parameters": [{}]}})",
        R"({"sites": {"modules": [{"name": 1}], "parameters": []}})",
        R"({"sites": {"modules": [7], "parameters": []}})", R"({"grad_acc_steps": "x", "sites": {}})",
        R"({"sites": {"modules": [], "parameters": [{"name": "w", "shape": ["x"]}]}})"}) {
    INFO(text);
    const auto read = SitesFromManifest(text);
    CHECK_FALSE(read.ok());
    CHECK(read.status().message().find("manifest.json") != std::string::npos);
  }
}

}  // namespace
}  // namespace stepwatch::output
