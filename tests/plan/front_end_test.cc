// Requests of a config to a front end beside tensors of modules and parameters: L2 features, communication, stacks,
// heat maps.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/compiled.h"

namespace stepwatch::plan {
namespace {

using config::Config;
using Names = std::vector<std::string>;

// Everything can be watched: two chunks with an attention and a router, one linear head.
SiteIndex Everything() {
  SiteIndex index;
  index.modules = {{0, "", "Net", true},
                   {0, "model.layers.0.attn", "Attention", true},
                   {0, "model.layers.0.router", "Router", true},
                   {1, "model.layers.0.attn", "Attention", true},
                   {1, "head", "Linear", true}};
  index.parameters = {{0, "head.weight", DType::kFloat32, {2, 3}, true}};
  index.operators = {"send", "all_reduce"};
  index.features = index.stacks = index.heatmaps = true;
  return index;
}

Config Nothing() {
  Config config;
  config.ops = {Stat::kNorm, Stat::kShape, Stat::kDtype};
  return config;
}

Config Recording(std::map<std::string, Names> targets) {
  Config config = Nothing();
  config.recording_l2_features = true;
  config.l2_targets = std::move(targets);
  return config;
}

Config Communication() {
  Config config = Nothing();
  config.cc_distribution.enable = true;
  return config;
}

CompiledPlan CompileFor(const Config& config, const SiteIndex& index = Everything(), int rank = 0) {
  PlanInputs inputs;
  inputs.rank = rank;
  return Compile(config, index, inputs);
}

// "attention_hook 0:layers.0.attn.attention, ..." in site order.
std::string SitesOf(const CompiledPlan& compiled) {
  std::string text;
  for (const PlannedSite& site : compiled.plan->layout.sites)
    text += (text.empty() ? "" : ", ") + std::string(SiteKindName(site.kind)) + " " + std::to_string(site.chunk) + ":" +
            site.name;
  return text;
}

TEST_CASE("each hook of l2_targets watches the modules that it names exactly") {
  CHECK(SitesOf(CompileFor(Recording({{"attention_hook", {"model.layers.0.attn"}}}))) ==
        "attention_hook 0:model.layers.0.attn.attention, attention_hook 1:model.layers.0.attn.attention");
  CHECK(SitesOf(CompileFor(Recording({{"attention_hook", {"1:model.layers.0.attn"}}}))) ==
        "attention_hook 1:model.layers.0.attn.attention");
  CHECK(SitesOf(CompileFor(Recording({{"linear_hook", {"head", ""}}}))) ==
        "linear_hook 0:.linear, linear_hook 1:head.linear");
  CHECK(SitesOf(CompileFor(Recording({{"moe_router_weight_hook", {"model.layers.0.router"}},
                                      {"moe_router_logit_hook", {"model.layers.0.router"}}}))) ==
        "moe_router_weight_hook 0:model.layers.0.router.moe_router, "
        "moe_router_logit_hook 0:model.layers.0.router.moe_router");
  CHECK(SitesOf(CompileFor(Recording({{"attention_hook", {"model.layers.0"}}}))).empty());
}

TEST_CASE("squashed names select features and are printed") {
  Config config = Recording({{"attention_hook", {"0:layers.0.attn"}}});
  CHECK(SitesOf(CompileFor(config)).empty());
  config.squash_name = true;
  CHECK(SitesOf(CompileFor(config)) == "attention_hook 0:layers.0.attn.attention");
  config.l2_targets = {{"attention_hook", {"0:model.layers.0.attn"}}};
  CHECK(SitesOf(CompileFor(config)) == "attention_hook 0:layers.0.attn.attention");
}

TEST_CASE("an empty list is every module for linear_hook and none for the others, with a warning") {
  CHECK(CompileFor(Recording({{"linear_hook", {}}})).plan->layout.sites.size() == 5);
  CHECK(CompileFor(Recording({{"linear_hook", {}}})).warnings.empty());
  const CompiledPlan compiled = CompileFor(Recording({{"attention_hook", {}}}));
  CHECK(compiled.plan->layout.sites.empty());
  REQUIRE(compiled.warnings.size() == 1);
  CHECK(compiled.warnings[0].place.key == "l2_targets.attention_hook");
  CHECK(compiled.warnings[0].message.find("an empty list selects no module") == 0);
}

TEST_CASE("a name of l2_targets that no module has gives a warning with the nearest one") {
  const CompiledPlan compiled =
      CompileFor(Recording({{"linear_hook", {"heads", "head"}}, {"attention_hook", {"2:model.layers.0.attn"}}}));
  REQUIRE(compiled.warnings.size() == 2);
  CHECK(compiled.warnings[0].place.key == "l2_targets.attention_hook");
  CHECK(compiled.warnings[0].message.find("\"2:model.layers.0.attn\" is not the exact name of a module") == 0);
  CHECK(compiled.warnings[1].message ==
        "\"heads\" is not the exact name of a module; it selects nothing (did you mean \"head\"?)");
}

TEST_CASE("l2_targets do nothing while features are not recorded, and name nothing either") {
  Config config = Recording({{"linear_hook", {"no such name"}}});
  config.recording_l2_features = false;
  config.wg_distribution = true;
  const CompiledPlan compiled = CompileFor(config);
  CHECK(SitesOf(compiled) == "grad_unreduced 0:head.weight, grad_reduced 0:head.weight");
  CHECK(compiled.warnings.empty());
}

TEST_CASE("features of a module come behind its activations, parameters and operators behind all modules") {
  Config config = Recording({{"linear_hook", {"head"}}});
  config.xy_distribution = config.all_xy = config.forward_only = config.mg_direction = true;
  config.cc_distribution.enable = true;
  SiteIndex index = Everything();
  index.modules = {{1, "head", "Linear", true}, {1, "blind", "Linear", false}};
  const CompiledPlan compiled = CompileFor(config, index);
  CHECK(SitesOf(compiled) ==
        "actv 1:head.input, actv 1:head.output, linear_hook 1:head.linear, other 0:head.weight, "
        "communication 0:send.post, communication 0:all_reduce.post");
  const std::vector<PlannedSite>& sites = compiled.plan->layout.sites;
  CHECK((sites[2].owner == 0 && sites[2].port == Port::kNone));
  CHECK((sites[4].owner == 0 && sites[5].owner == 1 && sites[5].port == Port::kOutput));
}

TEST_CASE("communication operators are watched after the call, and with cc_pre_hook before it as well") {
  Config config = Communication();
  CHECK(SitesOf(CompileFor(config)) == "communication 0:send.post, communication 0:all_reduce.post");
  config.cc_distribution.cc_pre_hook = true;
  CHECK(SitesOf(CompileFor(config)) ==
        "communication 0:send.pre, communication 0:send.post, communication 0:all_reduce.pre, "
        "communication 0:all_reduce.post");
  config.cc_distribution.enable = false;
  CHECK(SitesOf(CompileFor(config)).empty());
}

TEST_CASE("cc_log_only requests stacks of operators and no tensors") {
  Config config = Communication();
  config.cc_distribution.cc_log_only = true;
  config.cc_distribution.cc_codeline = {"train.py\\[23\\]"};
  const CompiledPlan compiled = CompileFor(config);
  CHECK(compiled.plan->layout.sites.empty());
  CHECK(compiled.plan->requests.communication);
  CHECK(compiled.plan->requests.communication_log_only);
  CHECK(compiled.plan->requests.communication_codeline == config.cc_distribution.cc_codeline);
  CHECK(compiled.warnings.empty());
}

TEST_CASE("images of updates and ratios are drawn of the selected parameters, for TensorBoard alone, and are no rows") {
  Config config = Nothing();
  config.ur_distribution = true;
  config.mg_direction = true;
  SiteIndex index = Everything();
  index.parameters.push_back({0, "frozen", DType::kFloat32, {2}, false});
  for (const OutputFormat format : {OutputFormat::kCsv, OutputFormat::kApi}) {
    config.format = format;
    CHECK(SitesOf(CompileFor(config, index)) == "other 0:head.weight");
    CHECK(CompileFor(config, index).warnings.empty());  // the reader of the config warns
  }
  config.format = OutputFormat::kTensorBoard;
  const CompiledPlan compiled = CompileFor(config, index);
  CHECK(SitesOf(compiled) == "other 0:head.weight, adam_update 0:head.weight, adam_ratio 0:head.weight");
  CHECK(compiled.plan->RowsPerStep(4) == 1);
  CHECK(compiled.plan->RecordsPerStep(4) == 1);
  CHECK(compiled.warnings.empty());
}

TEST_CASE("the requests of the config reach the front end") {
  Config config = Nothing();
  FrontEndRequests requests = CompileFor(config).plan->requests;
  CHECK_FALSE((requests.structure || requests.exit_after_structure || requests.stacks || requests.communication ||
               requests.communication_log_only || requests.batch_first_attention));
  config.print_struct = config.stack_info = true;
  config.sa_order = "b,s,h,d";
  requests = CompileFor(config).plan->requests;
  CHECK((requests.structure && requests.exit_after_structure && requests.stacks && requests.batch_first_attention));
  config.own.exit_after_struct = false;
  requests = CompileFor(config).plan->requests;
  CHECK((requests.structure && !requests.exit_after_structure));
}

TEST_CASE("structure and stacks have the names of rows, each once, without the wrappers that share one") {
  SiteIndex index = Everything();
  index.modules = {{0, "", "Wrapper", false},
                   {0, "_orig_mod", "Net", true, ""},
                   {0, "_orig_mod.fc", "Linear", true, "fc"},
                   {0, "_orig_mod.blind", "Linear", false, "blind"},
                   {1, "", "Net", true}};
  Config config = Nothing();
  CHECK(CompileFor(config, index).plan->requests.module_names.empty());
  using Shown = std::vector<std::optional<std::string>>;
  const auto names = [&] { return CompileFor(config, index).plan->requests.module_names; };
  config.print_struct = true;
  CHECK(names() == Shown{std::nullopt, "", "fc", "blind", ""});
  config.squash_name = true;
  CHECK(names() == Shown{std::nullopt, "", "fc", "blind", ""});
  config.print_struct = false;
  config.stack_info = true;
  config.own.names = config::NameSource::kTorch;
  CHECK(names() == Shown{"", "_orig_mod", "_orig_mod.fc", "_orig_mod.blind", ""});
}

TEST_CASE("a rank that module_ranks leaves out collects nothing, and ends where the others end") {
  Config config = Communication();
  config.print_struct = config.stack_info = true;
  config.cc_distribution.cc_log_only = true;
  config.module_ranks = {0};
  const FrontEndRequests requests = CompileFor(config, Everything(), 1).plan->requests;
  CHECK_FALSE((requests.structure || requests.stacks || requests.communication));
  CHECK(requests.exit_after_structure);
  CHECK(requests.communication_log_only);
}

TEST_CASE("what the front end cannot do gives one warning for each key, and no sites") {
  Config config = Recording({{"linear_hook", {"no such name"}}});
  config.cc_distribution.enable = config.cc_distribution.cc_log_only = config.stack_info = true;
  config.ur_distribution = true;
  config.format = OutputFormat::kTensorBoard;
  SiteIndex index = Everything();
  index.operators.clear();
  index.features = index.stacks = index.heatmaps = false;
  const CompiledPlan compiled = CompileFor(config, index);
  CHECK(compiled.plan->layout.sites.empty());
  CHECK_FALSE((compiled.plan->requests.communication || compiled.plan->requests.communication_log_only ||
               compiled.plan->requests.stacks));
  std::vector<std::string> keys;
  for (const config::Warning& warning : compiled.warnings) {
    CHECK(warning.kind == config::Warning::Kind::kNotEffective);
    keys.push_back(warning.place.key);
  }
  CHECK(keys == Names{"recording_l2_features", "cc_distribution.enable", "stack_info", "ur_distribution"});
  CHECK(compiled.warnings[1].message ==
        "accepted, but not effective with this front end: it watches no communication operators");
  CHECK(CompileFor(config).plan->requests.stacks);
}

TEST_CASE("rows count micro-batches of features, records the calls of operators") {
  const auto rows = [](const Config& config, int micro_batches) {
    return CompileFor(config).plan->RowsPerStep(micro_batches);
  };
  CHECK(rows(Recording({{"attention_hook", {"model.layers.0.attn"}}}), 4) == 2 * 4);
  CHECK(rows(Recording({{"linear_hook", {"head"}}}), 4) == 1);
  CHECK(rows(Recording({{"moe_router_weight_hook", {"head"}}}), 4) == 1);
  CHECK(rows(Recording({{"moe_router_logit_hook", {"head"}}}), 4) == 4);
  CHECK(rows(Communication(), 4) == 2);
  const uint64_t one = CompileFor(Communication()).plan->RecordsPerStep(1);
  CHECK(one >= 2 * 16);
  CHECK(CompileFor(Communication()).plan->RecordsPerStep(4) == 4 * one);
  CHECK(CompileFor(Recording({{"linear_hook", {}}})).plan->RecordsPerStep(4) == 5);
}

}  // namespace
}  // namespace stepwatch::plan
