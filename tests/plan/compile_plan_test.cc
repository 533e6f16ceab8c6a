#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/compiled.h"

namespace stepwatch::plan {
namespace {

using config::Config;

// root, two layers of which the tenth looks like the first, a frozen parameter
SiteIndex SmallModel() {
  SiteIndex index;
  index.modules = {{0, "", "Net", true}, {0, "layers.1", "Linear", true}, {0, "layers.10", "Linear", true}};
  index.parameters = {{0, "layers.1.weight", DType::kFloat32, {2, 3}, true},
                      {0, "layers.1.bias", DType::kFloat32, {2}, true},
                      {0, "layers.10.weight", DType::kFloat32, {2, 3}, true},
                      {0, "scale", DType::kFloat32, {}, false}};
  return index;
}

Config Targets(std::vector<std::string> keys) {
  Config config;
  config.targets = std::move(keys);
  config.ops = {Stat::kNorm, Stat::kShape, Stat::kDtype};
  return config;
}

// "actv .input, actv .output, ..." in site order.
std::string Sites(const Plan& plan) {
  std::string text;
  for (const PlannedSite& site : plan.layout.sites)
    text += (text.empty() ? "" : ", ") + std::string(SiteKindName(site.kind)) + " " + site.name;
  return text;
}

std::string SitesOf(const Config& config) {
  return Sites(*Compile(config, SmallModel()).plan);
}

std::string OnlyWarning(const Config& config, const SiteIndex& index) {
  const CompiledPlan compiled = Compile(config, index);
  if (compiled.warnings.size() != 1) return std::to_string(compiled.warnings.size()) + " warnings";
  CHECK(compiled.warnings[0].kind == config::Warning::Kind::kNote);
  return compiled.warnings[0].place.key + ": " + compiled.warnings[0].message;
}

TEST_CASE("each switch brings its sites") {
  const std::string forward = "actv layers.1.input, actv layers.1.output";
  const std::string backward = "actv_grad layers.1.input, actv_grad layers.1.output";
  const std::pair<std::vector<bool Config::*>, std::string> cases[] = {
      {{}, ""},
      {{&Config::xy_distribution}, forward + ", " + backward},
      {{&Config::xy_distribution, &Config::forward_only}, forward},
      {{&Config::xy_distribution, &Config::backward_only}, backward},
      {{&Config::xy_distribution, &Config::forward_only, &Config::backward_only}, ""},
      {{&Config::wg_distribution},
       "grad_unreduced layers.1.weight, grad_reduced layers.1.weight, "
       "grad_unreduced layers.1.bias, grad_reduced layers.1.bias"},
      {{&Config::param_distribution},
       "param_origin layers.1.weight, param_updated layers.1.weight, "
       "param_origin layers.1.bias, param_updated layers.1.bias"},
      {{&Config::mv_distribution},
       "exp_avg layers.1.weight, exp_avg_sq layers.1.weight, exp_avg layers.1.bias, exp_avg_sq layers.1.bias"},
      {{&Config::mg_direction}, "other layers.1.weight, other layers.1.bias"}};
  for (const auto& [switches, sites] : cases) {
    Config config = Targets({"layers.1"});
    for (const auto each : switches) config.*each = true;
    CHECK(SitesOf(config) == sites);
  }
}

TEST_CASE("without targets all modules and all parameters with a gradient are watched") {
  Config config = Targets({});
  config.xy_distribution = config.forward_only = config.mg_direction = true;
  CHECK(SitesOf(config) ==
        "actv .input, actv .output, actv layers.1.input, actv layers.1.output, actv layers.10.input, "
        "actv layers.10.output, other layers.1.weight, other layers.1.bias, other layers.10.weight");
}

TEST_CASE("all_xy watches all modules whatever the targets, which still select parameters") {
  Config config = Targets({"layers.10"});
  config.xy_distribution = config.all_xy = config.forward_only = config.mg_direction = true;
  CHECK(SitesOf(config) ==
        "actv .input, actv .output, actv layers.1.input, actv layers.1.output, actv layers.10.input, "
        "actv layers.10.output, other layers.10.weight");
}

TEST_CASE("the empty key is the root module and every parameter") {
  Config config = Targets({""});
  config.xy_distribution = config.forward_only = config.mg_direction = true;
  CHECK(SitesOf(config) ==
        "actv .input, actv .output, other layers.1.weight, other layers.1.bias, other layers.10.weight");
}

TEST_CASE("a site knows its owner, port and chunk") {
  SiteIndex index = SmallModel();
  index.modules.push_back({1, "layers.1", "Linear", true});
  index.parameters.push_back({1, "layers.1.weight", DType::kFloat32, {2}, true});
  Config config = Targets({"1:layers.1"});
  config.xy_distribution = config.backward_only = config.mg_direction = true;
  const auto sites = Compile(config, index).plan->layout.sites;
  REQUIRE(sites.size() == 3);
  CHECK((sites[0].port == Port::kInput && sites[1].port == Port::kOutput && sites[2].port == Port::kNone));
  CHECK((sites[0].owner == 3 && sites[1].owner == 3 && sites[2].owner == 4));
  CHECK((sites[0].chunk == 1 && sites[2].chunk == 1));
}

TEST_CASE("config values reach the plan") {
  Config config = Targets({"layers.1"});
  config.start_step = 7;
  config.step_interval = 3;
  config.collect_times = 11;
  config.eps = 0.5;
  config.own.eps_mode = EpsMode::kExact;
  config.own.plan_id_column = true;
  config.step_count_per_record = 20;
  config.monitor_mbs_grad = true;
  config.append_output = {"a", "b"};
  PlanInputs inputs;
  inputs.plan_id = 9;
  inputs.dynamic = GENERATE(false, true);
  inputs.config_sha256 = "abc";
  const auto plan = Compile(config, SmallModel(), inputs).plan;
  CHECK((plan->rule.start == 7 && plan->rule.interval == 3 && plan->rule.times == 11));
  CHECK((plan->eps == 0.5 && plan->eps_mode == EpsMode::kExact));
  CHECK((plan->layout.plan_id == 9 && plan->layout.plan_id_column && plan->layout.ndigits == -1));
  CHECK((plan->layout.step_count_per_record == 20 && plan->layout.micro_step_in_grad_unreduced));
  CHECK(plan->layout.stats == config.ops);
  CHECK(plan->append_output == config.append_output);
  CHECK(plan->config_sha256 == "abc");
  config.ndigits = 0;
  CHECK(Compile(config, SmallModel()).plan->layout.ndigits == 0);
}

TEST_CASE("ranks outside module_ranks count steps and write nothing") {
  Config config = Targets({"no such name"});
  config.xy_distribution = config.wg_distribution = config.print_struct = true;
  config.module_ranks = {0, 2};
  config.collect_times = 5;
  PlanInputs inputs;
  for (int rank : {0, 1, 2, 3}) {
    inputs.rank = rank;
    const CompiledPlan compiled = Compile(config, SmallModel(), inputs);
    const bool writes = rank % 2 == 0;
    CHECK(compiled.plan->rank_writes == writes);
    CHECK(compiled.plan->requests.structure == writes);
    CHECK(compiled.plan->rule.times == 5);
    CHECK(compiled.warnings.empty() != writes);
  }
  config.targets = {};
  CHECK(Compile(config, SmallModel(), inputs).plan->layout.sites.empty());
}

TEST_CASE("rows of a step are counted from sites and micro-batches") {
  Config config = Targets({"layers.1.weight", "layers.10"});
  config.xy_distribution = config.wg_distribution = config.param_distribution = true;
  // layers.10: 4 module sites; two parameters with 4 sites each
  CHECK(Compile(config, SmallModel()).plan->RowsPerStep(1) == 4 + 8);
  CHECK(Compile(config, SmallModel()).plan->RowsPerStep(3) == 4 * 3 + 8);
  config.monitor_mbs_grad = true;
  CHECK(Compile(config, SmallModel()).plan->RowsPerStep(3) == 4 * 3 + 2 * 3 + 6);
}

TEST_CASE("squashed names print and select, and collisions are kept apart") {
  SiteIndex index;
  for (const char* name : {"a.layers.0", "b.layers.0", "layers.0", "c.layers.1", "layers.1", "d.layers.1"})
    index.modules.push_back({0, name, "Linear", true});
  index.modules.push_back({1, "a.layers.0", "Linear", true});
  for (const char* name : {"a.layers.7.w", "b.layers.7.w"})
    index.parameters.push_back({0, name, DType::kFloat32, {1}, true});
  Config config = Targets({});
  config.squash_name = config.xy_distribution = config.forward_only = config.mg_direction = true;
  const auto sites = Compile(config, index).plan->layout.sites;
  std::vector<std::string> names;
  for (const PlannedSite& site : sites)
    if (site.port != Port::kOutput) names.push_back(site.name);
  // "layers.0" and "layers.1" are raw names of others, so no short form takes them.
  CHECK(names == std::vector<std::string>{"a.layers.0.input", "b.layers.0.input", "layers.0.input", "c.layers.1.input",
                                          "layers.1.input", "d.layers.1.input", "layers.0.input", "layers.7.w",
                                          "b.layers.7.w"});
  std::set<std::pair<int, std::string>> distinct;
  for (const PlannedSite& site : sites) distinct.emplace(site.chunk, site.name);
  CHECK(distinct.size() == sites.size());

  config.targets = {"layers.0"};
  CHECK(Compile(config, index).plan->layout.sites.size() == 4 * 2);  // every module with this raw or short name
  config.squash_name = false;
  CHECK(Compile(config, index).plan->layout.sites.size() == 1 * 2);
}

SiteIndex WrappedModel() {
  SiteIndex index;
  index.modules = {{0, "", "OptimizedModule", true, ""},
                   {0, "_orig_mod", "Net", true, ""},
                   {0, "_orig_mod.a", "CheckpointWrapper", false, "a"},
                   {0, "_orig_mod.a._checkpoint_wrapped_module", "Linear", true, "a"}};
  index.parameters = {{0, "_orig_mod.a._checkpoint_wrapped_module.weight", DType::kFloat32, {1}, true, "a.weight"}};
  return index;
}

TEST_CASE("rows have the names that the user wrote, and a wrapper that cannot be watched leaves its name to others") {
  Config config = Targets({});
  config.xy_distribution = config.forward_only = config.mg_direction = true;
  CHECK(Sites(*Compile(config, WrappedModel()).plan) ==
        "actv .input, actv .output, actv _orig_mod.input, actv _orig_mod.output, actv a.input, actv a.output, "
        "other a.weight");
  config.own.names = config::NameSource::kTorch;
  CHECK(Sites(*Compile(config, WrappedModel()).plan) ==
        "actv .input, actv .output, actv _orig_mod.input, actv _orig_mod.output, "
        "actv _orig_mod.a._checkpoint_wrapped_module.input, actv _orig_mod.a._checkpoint_wrapped_module.output, "
        "other _orig_mod.a._checkpoint_wrapped_module.weight");
}

TEST_CASE("targets and groups of sites take a name in either spelling") {
  for (const char* key : {"a", "_orig_mod.a._checkpoint_wrapped_module"}) {
    for (const auto names : {config::NameSource::kModel, config::NameSource::kTorch}) {
      Config config = Targets({key});
      config.mg_direction = true;
      config.own.names = names;
      const CompiledPlan compiled = Compile(config, WrappedModel());
      CHECK(compiled.plan->layout.sites.size() == 1);
      CHECK(compiled.warnings.empty());
    }
  }
}

TEST_CASE("a name as the user wrote it is not given to two, nor taken from another that has it") {
  SiteIndex index;
  index.parameters = {{0, "a._orig_mod.w", DType::kFloat32, {1}, true, "a.w"},
                      {0, "b._orig_mod.w", DType::kFloat32, {1}, true, "b.w"},
                      {0, "b._fsdp_wrapped_module.w", DType::kFloat32, {1}, true, "b.w"},
                      {0, "a.w", DType::kFloat32, {1}, true}};
  Config config = Targets({});
  config.mg_direction = true;
  CHECK(Sites(*Compile(config, index).plan) ==
        "other a._orig_mod.w, other b.w, other b._fsdp_wrapped_module.w, other a.w");
}

TEST_CASE("a key that matches nothing is named with the nearest name") {
  Config config = Targets({"layer.1"});
  config.wg_distribution = true;
  CHECK(OnlyWarning(config, SmallModel()) ==
        "targets: \"layer.1\" matches no module and no parameter; it selects nothing (did you mean \"layers.1\"?)");
  config.targets = {"completely different"};
  CHECK(OnlyWarning(config, SmallModel()) ==
        "targets: \"completely different\" matches no module and no parameter; it selects nothing");
  config.targets = {"1:layers.1"};
  CHECK(OnlyWarning(config, SmallModel()).find("\"1:layers.1\" matches no module") != std::string::npos);
  config.targets = {"x\x1b[2J\n"};
  CHECK(OnlyWarning(config, SmallModel()).find('\x1b') == std::string::npos);
  CHECK(OnlyWarning(config, SiteIndex{}).find("matches no module") != std::string::npos);
}

TEST_CASE("a key that only parameters match is fine for them and not enough for xy_distribution alone") {
  Config config = Targets({"layers.1.weight", "layers"});
  config.param_distribution = config.xy_distribution = true;
  SiteIndex index = SmallModel();
  CHECK(Compile(config, index).warnings.empty());
  config.param_distribution = false;
  const auto warnings = Compile(config, index).warnings;
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].message ==
        "\"layers.1.weight\" is not the exact name of a module, and xy_distribution selects modules by exact names "
        "only; it selects nothing (did you mean \"layers.1\"?)");
  CHECK(warnings[1].message.find("(did you mean \"layers.1\"?)") != std::string::npos);
}

TEST_CASE("modules that cannot be hooked give no sites and one warning") {
  SiteIndex index = SmallModel();
  for (ModuleEntry& module : index.modules) module.watchable = false;
  index.modules.push_back({0, "act", "GELU", false});
  index.modules.push_back({0, "head", "Linear", true});
  index.unwatchable_advice = "take another type";
  Config config = Targets({});
  config.xy_distribution = config.forward_only = true;
  CHECK(Sites(*Compile(config, index).plan) == "actv head.input, actv head.output");
  const std::string warning = OnlyWarning(config, index);
  CHECK(warning.find("xy_distribution: 4 of 5 selected modules") == 0);
  CHECK(warning.find("\"\" (Net), \"layers.1\" (Linear), \"layers.10\" (Linear) and 1 more") != std::string::npos);
  CHECK(warning.find("and 1 more; take another type") != std::string::npos);
  config.targets = {"head"};
  CHECK(Compile(config, index).warnings.empty());
}

TEST_CASE("a config that switches nothing on gives a warning") {
  Config config = Targets({});
  CHECK(OnlyWarning(config, SmallModel()).find("collects nothing") != std::string::npos);
  config.ur_distribution = true;
  CHECK(Compile(config, SmallModel()).warnings.empty());
  config.ur_distribution = false;
  config.print_struct = true;
  const CompiledPlan compiled = Compile(config, SmallModel());
  CHECK(compiled.warnings.empty());
  CHECK(compiled.plan->requests.structure);
  CHECK(compiled.plan->layout.sites.empty());
}

TEST_CASE("a plan that cannot work is refused") {
  Config config = Targets({});
  config.step_interval = 0;
  const auto refused = CompilePlan(config, SmallModel(), {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == StatusCode::kOutOfRange);
  CHECK(refused.status().ToString().find("\"step_interval\": found 0; accepted: an integer, at least 1") == 0);
  config.step_interval = 1;
  config.step_count_per_record = -1;
  CHECK_FALSE(CompilePlan(config, SmallModel(), {}).ok());
}

TEST_CASE("a sampling makes the interval longer and leaves kinds out, and the config stays what it is") {
  Config config = Targets({"layers.10"});
  config.wg_distribution = config.param_distribution = true;
  config.step_interval = 3;
  PlanInputs inputs;
  inputs.sampling = {7, {SiteKind::kGradUnreduced, SiteKind::kParamOrigin}};
  const auto plan = Compile(config, SmallModel(), inputs).plan;
  CHECK(plan->rule.interval == 21);
  CHECK(plan->config.step_interval == 3);
  CHECK(plan->sampling == inputs.sampling);
  CHECK(Sites(*plan) == "grad_reduced layers.10.weight, param_updated layers.10.weight");
  // No interval is too long for that.
  config.step_interval = std::numeric_limits<int64_t>::max() / 2;
  CHECK(Compile(config, SmallModel(), inputs).plan->rule.interval == std::numeric_limits<int64_t>::max());
}

TEST_CASE("the same inputs give the same plan") {
  Config config = Targets({"layers.10", "layers.1", "typo"});
  config.xy_distribution = config.wg_distribution = config.squash_name = true;
  const CompiledPlan first = Compile(config, SmallModel());
  const CompiledPlan second = Compile(config, SmallModel());
  CHECK(Sites(*first.plan) == Sites(*second.plan));
  REQUIRE(first.warnings.size() == second.warnings.size());
  for (size_t i = 0; i < first.warnings.size(); ++i) CHECK(first.warnings[i].message == second.warnings[i].message);
  // The order of the keys decides nothing but the order of warnings.
  std::reverse(config.targets.begin(), config.targets.end());
  CHECK(Sites(*Compile(config, SmallModel()).plan) == Sites(*first.plan));
}

}  // namespace
}  // namespace stepwatch::plan
