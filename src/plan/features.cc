#include "src/plan/features.h"

#include <string_view>
#include <utility>

#include "src/base/text.h"
#include "src/plan/stale_names.h"

namespace stepwatch::plan {
namespace {

std::string KeyOf(SiteKind kind) {
  return "l2_targets." + std::string(SiteKindName(kind));
}

std::string_view NearestModule(std::string_view text, const std::vector<SiteName>& modules,
                               base::SearchBudget* budget) {
  std::vector<std::string_view> names;
  for (const SiteName& module : modules) names.push_back(module.display);
  return base::NearestWord(text, names, budget);
}

}  // namespace

Features::Features(const config::Config& config, const SiteIndex& sites) {
  if (!config.recording_l2_features || !sites.features) return;
  for (const SiteKindTraits& traits : kSiteKindTraits) {
    const SiteKind kind = traits.kind;
    const auto target = config.l2_targets.find(traits.name);
    if (!IsFeature(kind) || target == config.l2_targets.end()) continue;
    const std::vector<std::string>& names = target->second;
    hooks_.push_back({kind, names, TargetKeys(names), kind == SiteKind::kLinear && names.empty()});
  }
}

std::vector<SiteKind> Features::Of(const SiteName& module) const {
  std::vector<SiteKind> kinds;
  for (const Hook& hook : hooks_)
    if (hook.Selects(module)) kinds.push_back(hook.kind);
  return kinds;
}

std::string Features::NameOf(SiteKind kind, const SiteName& module) {
  return module.display + TraitsOf(kind).suffix;
}

std::vector<config::Warning> Features::Warnings(const std::vector<SiteName>& modules) const {
  std::vector<config::Warning> warnings;
  for (const Hook& hook : hooks_) {
    if (hook.keys.empty() && !hook.every)
      warnings.push_back({config::Warning::Kind::kNote,
                          {KeyOf(hook.kind), 0, 0},
                          "an empty list selects no module; name the modules to watch"});
    std::vector<bool> names_module(hook.keys.size());
    for (const SiteName& module : modules)
      for (const size_t key : hook.keys.OfModule(module)) names_module[key] = true;
    StaleNames stale(KeyOf(hook.kind));
    for (size_t i = 0; i < hook.keys.size(); ++i)
      if (!names_module[i])
        stale.Add(hook.texts[i], "is not the exact name of a module",
                  stale.NamesNext() ? NearestModule(hook.keys[i].text, modules, stale.budget()) : "");
    for (config::Warning& warning : stale.TakeWarnings()) warnings.push_back(std::move(warning));
  }
  return warnings;
}

}  // namespace stepwatch::plan
