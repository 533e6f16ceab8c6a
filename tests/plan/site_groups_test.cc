// Groups of sites: which sites a plan has because of them, how often, and with which columns.

#include "src/plan/site_groups.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/compiled.h"
#include "tests/random_seed.h"
#include "tests/rounds.h"

namespace stepwatch::plan {
namespace {

using config::Config;
using config::SiteGroup;

SiteIndex GroupedModel() {
  SiteIndex index;
  index.modules = {{0, "", "Net", true},
                   {0, "layers", "ModuleList", false},
                   {0, "layers.0.attn", "Attention", true},
                   {0, "layers.1.attn", "Attention", true},
                   {0, "head", "Linear", true}};
  index.parameters = {{0, "layers.0.attn.weight", DType::kFloat32, {2, 3}, true},
                      {0, "layers.0.attn.bias", DType::kFloat32, {2}, true},
                      {0, "layers.1.attn.weight", DType::kFloat32, {2, 3}, true},
                      {0, "head.weight", DType::kFloat32, {2, 3}, true},
                      {0, "scale", DType::kFloat32, {}, false}};
  return index;
}

Config With(std::vector<SiteGroup> groups) {
  Config config;
  config.ops = {Stat::kNorm, Stat::kShape, Stat::kDtype};
  config.own.sites = std::move(groups);
  return config;
}

SiteGroup Group(std::string match, std::vector<SiteKind> kinds = {}, int64_t every = 1, std::vector<Stat> ops = {}) {
  return {std::move(match), {}, std::move(kinds), every, std::move(ops)};
}

CompiledPlan CompileGroups(const Config& config, const SiteIndex& index = GroupedModel()) {
  return Compile(config, index);
}

// "actv head.input 1, ...": with the group, where there is one.
std::string GroupedSites(const Config& config) {
  std::string text;
  const auto plan = CompileGroups(config).plan;
  for (const PlannedSite& site : plan->layout.sites) {
    text += (text.empty() ? "" : ", ") + std::string(TraitsOf(site.kind).task) + " " + site.name;
    if (site.group > 0) text += " " + std::to_string(site.group);
  }
  return text;
}

std::vector<std::string> Warnings(const Config& config) {
  std::vector<std::string> texts;
  const CompiledPlan compiled = CompileGroups(config);
  for (const config::Warning& warning : compiled.warnings) texts.push_back(warning.place.key + ": " + warning.message);
  return texts;
}

TEST_CASE("a group with kinds collects sites that no other field selects") {
  CHECK(GroupedSites(With({Group("layers.*.attn", {SiteKind::kActv})})) ==
        "actv layers.0.attn.input 1, actv layers.0.attn.output 1, "
        "actv layers.1.attn.input 1, actv layers.1.attn.output 1");
  CHECK(GroupedSites(With({Group("head", {SiteKind::kGradReduced, SiteKind::kMgDirection})})) ==
        "post_grad head.weight 1, mg_direction head.weight 1");
  CHECK(GroupedSites(With({Group("scale", {SiteKind::kParamOrigin})})) == "");  // it requires no gradient
}

TEST_CASE("a group with kinds adds to what targets select") {
  Config config = With({Group("**.bias", {SiteKind::kGradReduced})});
  config.targets = {"head"};
  config.wg_distribution = true;
  CHECK(GroupedSites(config) == "post_grad layers.0.attn.bias 1, acc_grad head.weight, post_grad head.weight");
}

TEST_CASE("a group without kinds selects nothing, and decides about what others select") {
  Config config = With({Group("**", {}, 10)});
  CHECK(GroupedSites(config) == "");
  config.targets = {"head"};
  config.wg_distribution = true;
  CHECK(GroupedSites(config) == "acc_grad head.weight 1, post_grad head.weight 1");
  config.own.sites.push_back(Group("head", {SiteKind::kExpAvg}, 3));
  config.own.sites.push_back(Group("head", {SiteKind::kExpAvgSq}, 0));  // selects nothing
  CHECK(GroupedSites(config) == "acc_grad head.weight 1, post_grad head.weight 1, exp_avg head.weight 1");
}

TEST_CASE("the first group that is about a site decides") {
  Config config = With({Group("layers.0.**", {SiteKind::kParamOrigin}, 5), Group("**.weight", {}, 7),
                        Group("layers.**", {SiteKind::kGradReduced}, 9)});
  config.wg_distribution = true;
  CHECK(GroupedSites(config) ==
        "acc_grad layers.0.attn.weight 2, post_grad layers.0.attn.weight 2, param_origin layers.0.attn.weight 1, "
        "acc_grad layers.0.attn.bias, post_grad layers.0.attn.bias 3, param_origin layers.0.attn.bias 1, "
        "acc_grad layers.1.attn.weight 2, post_grad layers.1.attn.weight 2, "
        "acc_grad head.weight 2, post_grad head.weight 2");
}

TEST_CASE("a group that collects nothing leaves out what others would collect") {
  Config config = With({Group("**.bias", {}, 0), Group("layers.**", {SiteKind::kGradReduced})});
  config.targets = {"layers.0"};
  config.wg_distribution = true;
  CHECK(GroupedSites(config) ==
        "acc_grad layers.0.attn.weight, post_grad layers.0.attn.weight 2, post_grad layers.1.attn.weight 2");
  config.targets = {};
  CHECK(GroupedSites(config).find("bias") == std::string::npos);
}

TEST_CASE("what a group excludes is decided by the groups behind it, and by the other fields") {
  Config config = With({Group("**", {}, 10), Group("**", {SiteKind::kGradReduced})});
  config.own.sites[0].exclude = {"layers.*", "nothing"};
  config.param_distribution = true;
  config.targets = {"head", "layers.1"};
  CHECK(GroupedSites(config) ==
        "post_grad layers.0.attn.weight 2, post_grad layers.0.attn.bias 2, "
        "post_grad layers.1.attn.weight 2, param_origin layers.1.attn.weight, param_updated layers.1.attn.weight, "
        "post_grad head.weight 1, param_origin head.weight 1, param_updated head.weight 1");
  CHECK(Warnings(config) ==
        std::vector<std::string>{
            R"(stepwatch.sites[0].exclude[1]: "nothing" leaves out no name that this group matches)"});
}

TEST_CASE("patterns see short names beside the long ones") {
  SiteIndex index = GroupedModel();
  for (ModuleEntry& module : index.modules) module.name = "model." + module.name;
  Config config = With({Group("layers.0.attn", {SiteKind::kActv})});
  CHECK(CompileGroups(config, index).plan->layout.sites.empty());
  config.squash_name = true;
  CHECK(CompileGroups(config, index).plan->layout.sites.size() == 2);
}

TEST_CASE("a group is due in the first of so many collected steps") {
  const auto plan =
      CompileGroups(With({Group("head", {SiteKind::kActv}, 1), Group("layers.0.attn", {SiteKind::kActv}, 2),
                          Group("layers.1.attn", {SiteKind::kActv}, 3), Group("**", {}, 0)}))
          .plan;
  const auto due = [&](int64_t round) {
    std::string groups;
    for (uint8_t group = 0; group <= 4; ++group)
      if (HasGroup(plan->DueGroups(round), group)) groups += std::to_string(group);
    return groups;
  };
  CHECK(due(0) == "0123");
  CHECK(due(1) == "01");
  CHECK(due(2) == "012");
  CHECK(due(3) == "013");
  CHECK(due(6) == "0123");
  const StepRule rule{100, 5, 10};
  CHECK(rule.Round(100) == 0);
  CHECK(rule.Round(115) == 3);
  CHECK(CompileGroups(With({})).plan->DueGroups(7) == kAllGroups);
}

std::vector<Stat> ColumnsFor(const Plan& plan, SiteKind kind) {
  const Columns columns = ColumnsOf(plan.layout, kind);
  return {columns.begin(), columns.end()};
}

TEST_CASE("a kind's files have the columns of all groups of the kind, and each site its own statistics") {
  Config config = With({Group("nowhere", {SiteKind::kActv}, 1, {Stat::kMax, Stat::kNorm, Stat::kShape, Stat::kDtype}),
                        Group("head", {}, 1, {Stat::kNans, Stat::kShape, Stat::kDtype}),
                        Group("head", {SiteKind::kExpAvg}, 0, {Stat::kStd, Stat::kShape, Stat::kDtype}),
                        Group("**", {SiteKind::kMgDirection}, 1, {Stat::kMin, Stat::kShape, Stat::kDtype})});
  config.wg_distribution = true;
  const auto plan = CompileGroups(config).plan;
  // The same on a rank whose model has nothing of the group.
  CHECK(ColumnsFor(*plan, SiteKind::kActv) ==
        std::vector<Stat>{Stat::kNorm, Stat::kMax, Stat::kNans, Stat::kShape, Stat::kDtype});
  CHECK(ColumnsFor(*plan, SiteKind::kActvGrad) == config.ops);
  CHECK(ColumnsFor(*plan, SiteKind::kGradReduced) ==
        std::vector<Stat>{Stat::kNorm, Stat::kNans, Stat::kShape, Stat::kDtype});
  CHECK(ColumnsFor(*plan, SiteKind::kExpAvg) == config.ops);
  // They share their files.
  CHECK(ColumnsFor(*plan, SiteKind::kCommunication) == ColumnsFor(*plan, SiteKind::kMgDirection));
  for (size_t i = 0; i < plan->layout.sites.size(); ++i) {
    const PlannedSite& site = plan->layout.sites[i];
    INFO(site.name);
    CHECK(StatsOf(plan->layout, static_cast<SiteId>(i)) ==
          (site.group == 0 ? config.ops : config.own.sites[site.group - 1u].ops));
  }
}

TEST_CASE("columns that a user has placed stay where they are") {
  Config config = With({Group("**", {SiteKind::kActv}, 1, {Stat::kMax, Stat::kShape, Stat::kDtype})});
  config.ops = {Stat::kShape, Stat::kNorm, Stat::kDtype};
  CHECK(ColumnsFor(*CompileGroups(config).plan, SiteKind::kActv) ==
        std::vector<Stat>{Stat::kShape, Stat::kNorm, Stat::kMax, Stat::kDtype});
}

TEST_CASE("a group that does nothing gives a warning with the reason") {
  Config config = With({Group("layer.*.atn", {SiteKind::kActv}), Group("re:never", {SiteKind::kActv}),
                        Group("head", {SiteKind::kActv}), Group("head", {SiteKind::kActv}, 5), Group("layers.*.attn"),
                        Group("scale", {SiteKind::kActv}), Group("layers", {SiteKind::kActv})});
  config.own.sites[2].exclude = {"head"};
  const auto warnings = Warnings(config);
  REQUIRE(warnings.size() == 6);
  CHECK(warnings[0] == R"(stepwatch.sites[2]: has no effect: "exclude" leaves out all 2 names that it matches)");
  CHECK(warnings[1] ==
        "stepwatch.sites[4]: has no effect: neither the other fields nor the \"kinds\" of a group select any of "
        "the 5 names that it matches");
  CHECK(warnings[2].find("stepwatch.sites[5]: has no effect: its \"kinds\" do not fit the names that it matches") == 0);
  CHECK(warnings[3] ==
        "stepwatch.sites[6]: 1 of the modules that it selects have a type that is not hooked and produce no rows, such "
        "as \"layers\"");
  CHECK(warnings[4] ==
        "stepwatch.sites: \"layer.*.atn\" matches no module and no parameter; it selects nothing (did you mean "
        "\"layers.0.attn\"?)");
  CHECK(warnings[5] == "stepwatch.sites: \"re:never\" matches no module and no parameter; it selects nothing");

  config = With({Group("head", {SiteKind::kActv}), Group("head", {SiteKind::kActv}, 5)});
  CHECK(Warnings(config) ==
        std::vector<std::string>{"stepwatch.sites[1]: has no effect: earlier groups cover all of its sites"});
}

TEST_CASE("many groups that do nothing give a few warnings") {
  std::vector<SiteGroup> groups;
  for (int i = 0; i < 30; ++i) groups.push_back(Group("x" + std::to_string(i), {SiteKind::kActv}));
  for (int i = 0; i < 30; ++i) groups.push_back(Group("head"));
  CHECK(Warnings(With(groups)).size() == 10 + 1 + 10 + 1);
}

// The rules of the documentation, site by site.
std::optional<uint8_t> SlowPlace(const Config& config, const std::string& name, bool module, SiteKind kind, bool on) {
  const auto matches = [&](const std::string& pattern) {
    config::PatternFault fault;
    const auto compiled = config::NamePattern::Compile(pattern, &fault);
    return module ? compiled->MatchesModule(0, name) : compiled->MatchesParameter(0, name);
  };
  std::vector<size_t> matching;
  for (size_t i = 0; i < config.own.sites.size(); ++i) {
    const SiteGroup& group = config.own.sites[i];
    const bool names_kind = std::find(group.kinds.begin(), group.kinds.end(), kind) != group.kinds.end();
    if (!matches(group.match) || std::any_of(group.exclude.begin(), group.exclude.end(), matches)) continue;
    on = on || (names_kind && group.every != 0);
    if (names_kind || group.kinds.empty()) matching.push_back(i);
  }
  if (!on || matching.empty()) return on ? std::optional<uint8_t>(0) : std::nullopt;
  if (config.own.sites[matching[0]].every == 0) return std::nullopt;
  return static_cast<uint8_t>(matching[0] + 1);
}

TEST_CASE("random groups place every site by the rules of the documentation") {
  std::mt19937 random(static_cast<unsigned>(test::RandomSeed()));
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::vector<std::string> patterns = {"**",       "layers.**", "layers.*.attn", "head",       "**.bias",
                                             "re:.*1.*", "*",         "layers.0.*",    "**.attn.**", "",
                                             "0:**",     "1:**",      "re:h.*"};
  const SiteIndex index = GroupedModel();
  for (int round = 0; round < testing::Rounds(300); ++round) {
    Config config = With({});
    config.wg_distribution = below(2) == 0;
    config.xy_distribution = below(2) == 0;
    config.all_xy = true;
    if (below(2) == 0) config.targets = {"layers.0"};
    for (size_t i = below(5); i > 0; --i) {
      SiteGroup group = Group(patterns[below(patterns.size())]);
      for (size_t k = below(3); k > 0; --k) group.exclude.push_back(patterns[below(patterns.size())]);
      for (const SiteKind kind : {SiteKind::kActv, SiteKind::kGradReduced, SiteKind::kExpAvg})
        if (below(3) == 0) group.kinds.push_back(kind);
      group.every = static_cast<int64_t>(below(3));
      config.own.sites.push_back(std::move(group));
    }
    std::multiset<std::string> expected, found;
    const auto add = [](const std::string& name, SiteKind kind, uint8_t group, std::multiset<std::string>* sites) {
      sites->insert(std::string(SiteKindName(kind)) + " " + name + " " + std::to_string(group));
    };
    for (const ModuleEntry& module : index.modules)
      for (const SiteKind kind : {SiteKind::kActv, SiteKind::kActvGrad})
        if (const auto group = SlowPlace(config, module.name, true, kind, config.xy_distribution);
            group && module.watchable)
          for (const char* port : {".input", ".output"}) add(module.name + port, kind, *group, &expected);
    for (const ParameterEntry& parameter : index.parameters)
      for (const SiteKind kind : {SiteKind::kGradUnreduced, SiteKind::kGradReduced, SiteKind::kExpAvg}) {
        const bool targeted = config.targets.empty() || parameter.name.find("layers.0.") == 0;
        const bool on = config.wg_distribution && kind != SiteKind::kExpAvg && targeted;
        if (const auto group = SlowPlace(config, parameter.name, false, kind, on); group && parameter.requires_grad)
          add(parameter.name, kind, *group, &expected);
      }
    const auto plan = CompileGroups(config).plan;
    for (const PlannedSite& site : plan->layout.sites) add(site.name, site.kind, site.group, &found);
    INFO("round " << round << ", STEPWATCH_SEED=" << test::RandomSeed());
    REQUIRE(found == expected);
  }
}

}  // namespace
}  // namespace stepwatch::plan
