#include "src/plan/site_names.h"

#include <set>
#include <utility>

#include "src/plan/targets.h"

namespace stepwatch::plan {
namespace {

template <class Entry>
std::vector<SiteName> Names(const std::vector<Entry>& entries, bool squash) {
  std::set<std::pair<int, std::string>> taken;
  if (squash)
    for (const Entry& entry : entries) taken.emplace(entry.chunk, entry.name);
  std::vector<SiteName> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) {
    SiteName name{entry.chunk, entry.name, squash ? SquashName(entry.name) : entry.name, entry.name};
    if (name.squashed != name.raw && taken.emplace(name.chunk, name.squashed).second) name.display = name.squashed;
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

std::vector<SiteName> ModuleNames(const SiteIndex& sites, bool squash) {
  return Names(sites.modules, squash);
}
std::vector<SiteName> ParameterNames(const SiteIndex& sites, bool squash) {
  return Names(sites.parameters, squash);
}

}  // namespace stepwatch::plan
