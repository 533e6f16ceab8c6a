#include "src/plan/features.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/base/text.h"

namespace stepwatch::plan {
namespace {

constexpr SiteKind kFeatureKinds[] = {SiteKind::kAttention, SiteKind::kLinear, SiteKind::kRouterWeight,
                                      SiteKind::kRouterLogit};

bool KeyMatches(const TargetKey& key, const SiteName& module) {
  return MatchesModule(key, module.chunk, module.raw, module.squashed);
}

config::Warning Note(SiteKind kind, std::string message) {
  return {config::Warning::Kind::kNote, {"l2_targets." + std::string(SiteKindName(kind)), 0, 0}, std::move(message)};
}

std::string NoSuchModule(const std::string& text, const TargetKey& key, const std::vector<SiteName>& modules) {
  std::vector<std::string_view> names;
  for (const SiteName& module : modules)
    if (!module.display.empty()) names.push_back(module.display);
  const std::string_view nearest = base::NearestWord(key.text, names);
  std::string message = "\"" + base::Printable(text) + "\" is no module's exact name; it selects nothing";
  if (!nearest.empty()) message += " (did you mean \"" + base::Printable(nearest) + "\"?)";
  return message;
}

}  // namespace

bool Features::Hook::Selects(const SiteName& module) const {
  return every || std::any_of(keys.begin(), keys.end(), [&](const TargetKey& key) { return KeyMatches(key, module); });
}

Features::Features(const config::Config& config, const SiteIndex& sites) {
  if (!config.recording_l2_features || !sites.features) return;
  for (const SiteKind kind : kFeatureKinds) {
    const auto target = config.l2_targets.find(SiteKindName(kind));
    if (target == config.l2_targets.end()) continue;
    Hook hook{kind, target->second, {}, kind == SiteKind::kLinear && target->second.empty()};
    for (const std::string& text : hook.texts) hook.keys.push_back(SplitTargetKey(text));
    hooks_.push_back(std::move(hook));
  }
}

std::vector<SiteKind> Features::Of(const SiteName& module) const {
  std::vector<SiteKind> kinds;
  for (const Hook& hook : hooks_)
    if (hook.Selects(module)) kinds.push_back(hook.kind);
  return kinds;
}

std::string Features::NameOf(SiteKind kind, const SiteName& module) {
  switch (kind) {
    case SiteKind::kAttention: return module.display + ".attention";
    case SiteKind::kLinear: return module.display + ".linear";
    default: return module.display + ".moe_router";
  }
}

std::vector<config::Warning> Features::Warnings(const std::vector<SiteName>& modules) const {
  std::vector<config::Warning> warnings;
  for (const Hook& hook : hooks_) {
    if (hook.keys.empty() && !hook.every)
      warnings.push_back(Note(hook.kind, "an empty list selects nothing here; name the modules to watch"));
    for (size_t i = 0; i < hook.keys.size(); ++i) {
      const TargetKey& key = hook.keys[i];
      if (std::none_of(modules.begin(), modules.end(), [&](const SiteName& module) { return KeyMatches(key, module); }))
        warnings.push_back(Note(hook.kind, NoSuchModule(hook.texts[i], key, modules)));
    }
  }
  return warnings;
}

}  // namespace stepwatch::plan
