#include "src/plan/site_names.h"

#include <set>
#include <utility>

#include "src/plan/targets.h"

namespace stepwatch::plan {
namespace {

using Taken = std::set<std::pair<int, std::string>>;

bool IsWatchable(const ModuleEntry& module) {
  return module.watchable;
}
bool IsWatchable(const ParameterEntry&) {
  return true;
}

template <class Entry>
bool IsRenamed(const Entry& entry) {
  return entry.as_written && *entry.as_written != entry.name;
}

// A wrapper and its inner module have the same name as written by the user: the first watchable one gets it.
template <class Entry>
std::vector<SiteName> Unsquashed(const std::vector<Entry>& entries, bool as_written) {
  Taken taken;
  for (const Entry& entry : entries)
    if (IsWatchable(entry) && !IsRenamed(entry)) taken.emplace(entry.chunk, entry.name);
  std::vector<SiteName> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) {
    SiteName name{entry.chunk, entry.name, entry.name, entry.name, {}};
    if (IsRenamed(entry)) name.written = entry.as_written;
    if (as_written && name.written && (!IsWatchable(entry) || taken.emplace(entry.chunk, *name.written).second))
      name.display = name.squashed = *name.written;
    names.push_back(std::move(name));
  }
  return names;
}

void Squash(std::vector<SiteName>* names) {
  Taken taken;
  for (const SiteName& name : *names) taken.emplace(name.chunk, name.display);
  for (SiteName& name : *names) {
    name.squashed = SquashName(name.display);
    if (name.squashed != name.display && taken.emplace(name.chunk, name.squashed).second) name.display = name.squashed;
  }
}

bool TakesAsWritten(const config::Config& config) {
  return config.own.names == config::NameSource::kModel;
}

template <class Entry>
std::vector<SiteName> Names(const std::vector<Entry>& entries, const config::Config& config) {
  std::vector<SiteName> names = Unsquashed(entries, TakesAsWritten(config));
  if (config.squash_name) Squash(&names);
  return names;
}

}  // namespace

std::vector<std::string_view> SiteName::Spellings() const {
  std::vector<std::string_view> spellings{raw};
  if (written && *written != raw) spellings.push_back(*written);
  if (squashed != raw && (!written || squashed != *written)) spellings.push_back(squashed);
  return spellings;
}

std::vector<SiteName> ModuleNames(const SiteIndex& sites, const config::Config& config) {
  return Names(sites.modules, config);
}
std::vector<SiteName> ParameterNames(const SiteIndex& sites, const config::Config& config) {
  return Names(sites.parameters, config);
}

std::vector<std::optional<std::string>> NamesInStructure(const SiteIndex& sites, const config::Config& config) {
  const std::vector<SiteName> names = Unsquashed(sites.modules, TakesAsWritten(config));
  Taken watchable;
  for (size_t i = 0; i < names.size(); ++i)
    if (sites.modules[i].watchable) watchable.emplace(names[i].chunk, names[i].display);
  std::vector<std::optional<std::string>> found(names.size());
  for (size_t i = 0; i < names.size(); ++i)
    if (sites.modules[i].watchable || watchable.count({names[i].chunk, names[i].display}) == 0)
      found[i] = names[i].display;
  return found;
}

}  // namespace stepwatch::plan
