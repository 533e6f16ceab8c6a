#include "src/plan/selection.h"

#include <algorithm>
#include <string_view>

#include "src/base/text.h"

namespace stepwatch::plan {
namespace {

bool WatchesParameters(const config::Config& config) {
  return config.wg_distribution || config.param_distribution || config.mv_distribution || config.mg_direction ||
         config.ur_distribution;
}

bool GroupsSelect(const config::Config& config) {
  return std::any_of(config.own.sites.begin(), config.own.sites.end(),
                     [](const config::SiteGroup& group) { return !group.kinds.empty() && group.every > 0; });
}

bool WatchesMore(const config::Config& config) {
  return config.recording_l2_features || config.cc_distribution.enable || config.stack_info || config.print_struct;
}

// The module that the author of `text` probably meant: the first one below it, otherwise the deepest one above it.
std::string_view RelatedModule(const TargetKey& key, const std::vector<SiteName>& modules) {
  std::string_view above;
  for (const SiteName& module : modules) {
    for (std::string_view name : {std::string_view(module.display), std::string_view(module.raw)}) {
      if (name.empty()) continue;
      if (MatchesParameter(key, module.chunk, name, name)) return name;
      if (MatchesParameter({key.chunk, std::string(name)}, module.chunk, key.text, key.text) &&
          name.size() > above.size())
        above = name;
    }
  }
  return above;
}

}  // namespace

config::Warning NoteOn(std::string key, std::string message) {
  return {config::Warning::Kind::kNote, {std::move(key), 0, 0}, std::move(message)};
}

std::vector<SiteKind> KindsOf(const config::Config& config) {
  std::vector<SiteKind> kinds;
  if (config.xy_distribution && !config.backward_only) kinds.push_back(SiteKind::kActv);
  if (config.xy_distribution && !config.forward_only) kinds.push_back(SiteKind::kActvGrad);
  if (config.wg_distribution) kinds.insert(kinds.end(), {SiteKind::kGradUnreduced, SiteKind::kGradReduced});
  if (config.param_distribution) kinds.insert(kinds.end(), {SiteKind::kParamOrigin, SiteKind::kParamUpdated});
  if (config.mv_distribution) kinds.insert(kinds.end(), {SiteKind::kExpAvg, SiteKind::kExpAvgSq});
  if (config.mg_direction) kinds.push_back(SiteKind::kMgDirection);
  return kinds;
}

std::string_view NearestName(std::string_view text, const std::vector<SiteName>& modules,
                             const std::vector<SiteName>& parameters, base::SearchBudget* budget) {
  std::vector<std::string_view> names;
  for (const auto* list : {&modules, &parameters})
    for (const SiteName& name : *list)
      if (!name.display.empty()) names.push_back(name.display);
  return base::NearestWord(text, names, budget);
}

Selection::Selection(const config::Config& config, const SiteIndex& sites)
    : config_(config),
      sites_(sites),
      modules_(ModuleNames(sites, config)),
      parameters_(ParameterNames(sites, config)),
      keys_(config.targets),
      module_named_(modules_.size()),
      parameter_named_(parameters_.size()),
      key_names_module_(keys_.size()),
      key_names_parameter_(keys_.size()) {
  for (size_t i = 0; i < modules_.size(); ++i)
    for (const size_t key : keys_.OfModule(modules_[i])) module_named_[i] = key_names_module_[key] = true;
  for (size_t i = 0; i < parameters_.size(); ++i)
    for (const size_t key : keys_.OfParameter(parameters_[i])) parameter_named_[i] = key_names_parameter_[key] = true;
}

bool Selection::SelectsModule(size_t index) const {
  return config_.all_xy || keys_.empty() || module_named_[index];
}

bool Selection::SelectsParameter(size_t index) const {
  return sites_.parameters[index].requires_grad && (keys_.empty() || parameter_named_[index]);
}

std::vector<config::Warning> Selection::Warnings() const {
  StaleNames stale("targets");
  for (size_t i = 0; i < keys_.size(); ++i) CheckKey(i, &stale);
  std::vector<config::Warning> warnings = stale.TakeWarnings();
  if (config_.xy_distribution && config_.forward_only + config_.backward_only < 2) CheckWatchable(&warnings);
  if (!config_.xy_distribution && !WatchesParameters(config_) && !WatchesMore(config_) && !GroupsSelect(config_))
    warnings.push_back(NoteOn("",
                              "this config collects nothing: xy_distribution, wg_distribution, param_distribution, "
                              "mv_distribution, mg_direction, ur_distribution, recording_l2_features, "
                              "cc_distribution.enable, stack_info and print_struct are all false"));
  return warnings;
}

void Selection::CheckKey(size_t key, StaleNames* stale) const {
  const bool exact_names_only = config_.xy_distribution && !config_.all_xy && !WatchesParameters(config_);
  const bool parameter = key_names_parameter_[key];
  if (key_names_module_[key] || (parameter && !exact_names_only)) return;

  std::string_view instead;
  if (stale->NamesNext())
    instead = parameter ? RelatedModule(keys_[key], modules_)
                        : NearestName(keys_[key].text, modules_, parameters_, stale->budget());
  stale->Add(config_.targets[key],
             parameter ? "is not the exact name of a module, and xy_distribution selects modules by exact names only"
                       : "matches no module and no parameter",
             instead);
}

void Selection::CheckWatchable(std::vector<config::Warning>* warnings) const {
  constexpr size_t kNamed = 3;
  size_t selected = 0;
  size_t blind = 0;
  std::string named;
  for (size_t i = 0; i < modules_.size(); ++i) {
    if (!SelectsModule(i)) continue;
    ++selected;
    if (sites_.modules[i].watchable || ++blind > kNamed) continue;
    named += (named.empty() ? "" : ", ") + Quoted(modules_[i].display);
    if (!sites_.modules[i].type.empty()) named += " (" + base::Printable(sites_.modules[i].type) + ")";
  }
  if (blind == 0) return;
  if (blind > kNamed) named += " and " + std::to_string(blind - kNamed) + " more";
  std::string message = std::to_string(blind) + " of " + std::to_string(selected) +
                        " selected modules have a type that is not hooked and produce no rows: " + named;
  if (!sites_.unwatchable_advice.empty()) message += "; " + sites_.unwatchable_advice;
  warnings->push_back(NoteOn("xy_distribution", std::move(message)));
}

}  // namespace stepwatch::plan
