#include "src/plan/site_groups.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/plan/selection.h"
#include "src/plan/stale_names.h"

namespace stepwatch::plan {
namespace {

constexpr size_t kReportedMax = 10;

std::optional<config::NamePattern> Compiled(const std::string& text) {
  config::PatternFault fault;
  return config::NamePattern::Compile(text, &fault);
}

std::string KeyOf(size_t group) {
  return "stepwatch.sites[" + std::to_string(group) + "]";
}

bool IsRegex(std::string_view pattern) {
  return config::SplitTargetKey(pattern).text.compare(0, 3, "re:") == 0;
}

void AddStats(const std::vector<Stat>& stats, std::vector<Stat>* columns) {
  const auto is_last = [](Stat stat) { return stat == Stat::kShape || stat == Stat::kDtype; };
  for (const Stat stat : stats) {
    if (std::find(columns->begin(), columns->end(), stat) != columns->end()) continue;
    auto at = columns->end();
    while (at != columns->begin() && is_last(*(at - 1))) --at;
    columns->insert(at, stat);
  }
}

}  // namespace

bool SiteGroups::Group::Names(SiteKind kind) const {
  return std::find(config->kinds.begin(), config->kinds.end(), kind) != config->kinds.end();
}

SiteGroups::SiteGroups(const config::Config& config) {
  for (const config::SiteGroup& each : config.own.sites) {
    Group group;
    group.config = &each;
    group.match = Compiled(each.match);
    for (const std::string& text : each.exclude) group.exclude.push_back({Compiled(text)});
    groups_.push_back(std::move(group));
  }
}

template <class Matches>
std::vector<size_t> SiteGroups::Of(const Matches& matches) {
  std::vector<size_t> found;
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (!matches(group.match)) continue;
    bool left_out = false;
    for (Exclude& exclude : group.exclude)
      if (matches(exclude.pattern)) left_out = exclude.left_out_any = true;
    ++(left_out ? group.left_out : group.names);
    if (!left_out) found.push_back(i);
  }
  return found;
}

std::vector<size_t> SiteGroups::OfModule(const SiteName& name) {
  const std::vector<std::string_view> spellings = name.Spellings();
  return Of([&](const std::optional<config::NamePattern>& pattern) {
    return pattern && std::any_of(spellings.begin(), spellings.end(), [&](std::string_view spelling) {
             return pattern->MatchesModule(name.chunk, spelling);
           });
  });
}

std::vector<size_t> SiteGroups::OfParameter(const SiteName& name) {
  const std::vector<std::string_view> spellings = name.Spellings();
  return Of([&](const std::optional<config::NamePattern>& pattern) {
    return pattern && std::any_of(spellings.begin(), spellings.end(), [&](std::string_view spelling) {
             return pattern->MatchesParameter(name.chunk, spelling);
           });
  });
}

std::optional<uint8_t> SiteGroups::Place(const std::vector<size_t>& matching, SiteKind kind, bool selected) {
  for (const size_t i : matching) selected = selected || (groups_[i].config->every > 0 && groups_[i].Names(kind));
  if (!selected) return std::nullopt;
  const Group* first = nullptr;
  for (const size_t i : matching) {
    Group& group = groups_[i];
    if (!group.config->kinds.empty() && !group.Names(kind)) continue;
    ++(first == nullptr ? group.sites : group.forestalled);
    if (first == nullptr) first = &group;
  }
  if (first == nullptr) return 0;
  if (first->config->every == 0) return std::nullopt;
  return static_cast<uint8_t>(first - groups_.data() + 1);
}

void SiteGroups::NoteUnwatchable(const std::vector<size_t>& matching, const SiteName& name) {
  for (const size_t i : matching)
    if (groups_[i].config->every > 0 && (groups_[i].Names(SiteKind::kActv) || groups_[i].Names(SiteKind::kActvGrad)))
      groups_[i].unwatchable.push_back(name.display);
}

// Explains why a group that matches names decides about no site.
std::string SiteGroups::WhyIdle(const Group& group) {
  if (group.names == 0)
    return "\"exclude\" leaves out all " + std::to_string(group.left_out) + " names that it matches";
  if (group.forestalled > 0) return "earlier groups cover all of its sites";
  if (group.config->every == 0 || group.config->kinds.empty())
    return "neither the other fields nor the \"kinds\" of a group select any of the " + std::to_string(group.names) +
           " names that it matches";
  return "its \"kinds\" do not fit the names that it matches: modules have actv and actv_grad, parameters that require "
         "a gradient have the others";
}

void SiteGroups::WarnOf(const std::string& key, const Group& group, std::vector<config::Warning>* warnings) {
  if (group.sites == 0 && group.unwatchable.empty())
    warnings->push_back(NoteOn(key, "has no effect: " + WhyIdle(group)));
  if (!group.unwatchable.empty())
    warnings->push_back(NoteOn(key, std::to_string(group.unwatchable.size()) +
                                        " of the modules that it selects have a type that is not hooked and produce "
                                        "no rows, such as " +
                                        Quoted(group.unwatchable.front())));
  for (size_t i = 0; i < group.exclude.size(); ++i)
    if (!group.exclude[i].left_out_any)
      warnings->push_back(NoteOn(key + ".exclude[" + std::to_string(i) + "]",
                                 Quoted(group.config->exclude[i]) + " leaves out no name that this group matches"));
}

std::vector<config::Warning> SiteGroups::Warnings(const std::vector<SiteName>& modules,
                                                  const std::vector<SiteName>& parameters) const {
  std::vector<config::Warning> warnings;
  StaleNames stale("stepwatch.sites");
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (group.names + group.left_out > 0) {
      WarnOf(KeyOf(i), group, &warnings);
      continue;
    }
    const bool guess = stale.NamesNext() && !IsRegex(group.config->match);
    stale.Add(group.config->match, "matches no module and no parameter",
              guess ? NearestName(group.config->match, modules, parameters, stale.budget()) : "");
  }
  if (warnings.size() > kReportedMax) {
    const size_t further = warnings.size() - kReportedMax;
    warnings.resize(kReportedMax);
    warnings.push_back(NoteOn("stepwatch.sites", "and " + std::to_string(further) + " more warnings of this kind"));
  }
  for (config::Warning& warning : stale.TakeWarnings()) warnings.push_back(std::move(warning));
  return warnings;
}

void LayOutGroups(const config::Config& config, RecordLayout* layout) {
  std::vector<SiteKind> selected = KindsOf(config);
  for (const config::SiteGroup& group : config.own.sites)
    if (group.every > 0) selected.insert(selected.end(), group.kinds.begin(), group.kinds.end());
  for (const config::SiteGroup& group : config.own.sites) {
    layout->groups.push_back({group.every, group.ops});
    if (group.ops.empty() || group.every == 0) continue;
    for (const SiteKind kind : group.kinds.empty() ? selected : group.kinds) {
      std::vector<Stat>& columns = layout->columns[static_cast<size_t>(FileKind(kind))];
      if (columns.empty()) columns = layout->stats;
      AddStats(group.ops, &columns);
    }
  }
}

}  // namespace stepwatch::plan
