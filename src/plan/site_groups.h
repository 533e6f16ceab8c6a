// Applies "stepwatch": {"sites": ...} to one model: finds the sites that each group decides about.
//
// A site is one kind of one module or parameter. Collected are the sites that the config's other fields select, plus,
// for a group with `kinds`, these kinds of all that it matches. The first group that matches the site's name, and lists
// its kind if it has `kinds`, decides how it is collected; `every` 0 excludes it. A site that no group matches follows
// the other fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/config/name_pattern.h"
#include "src/plan/site_names.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::plan {

class SiteGroups {
 public:
  // `config` must outlive the groups. Its patterns are those of a parsed config; an invalid one matches nothing.
  explicit SiteGroups(const config::Config& config);

  // The groups that match a name, in config order.
  std::vector<size_t> OfModule(const SiteName& name);
  std::vector<size_t> OfParameter(const SiteName& name);
  // Decides about a site: nullopt if it is not collected, otherwise PlannedSite::group. `matching` are the groups of
  // its name, `selected` is whether the other fields of the config select it.
  std::optional<uint8_t> Place(const std::vector<size_t>& matching, SiteKind kind, bool selected);
  // Records that these groups match a module that cannot be hooked.
  void NoteUnwatchable(const std::vector<size_t>& matching, const SiteName& name);

  // Patterns that match nothing, groups without effect, and matched modules that cannot be hooked. Must follow the
  // calls for all names.
  std::vector<config::Warning> Warnings(const std::vector<SiteName>& modules,
                                        const std::vector<SiteName>& parameters) const;

 private:
  struct Exclude {
    std::optional<config::NamePattern> pattern;
    bool left_out_any = false;
  };
  struct Group {
    const config::SiteGroup* config = nullptr;
    std::optional<config::NamePattern> match;
    std::vector<Exclude> exclude;
    size_t names = 0;        // matched names, without those excluded by `exclude`
    size_t left_out = 0;     // names excluded by `exclude`
    size_t sites = 0;        // sites that it decides about
    size_t forestalled = 0;  // sites that an earlier group decides about
    std::vector<std::string> unwatchable;

    bool Names(SiteKind kind) const;  // in `kinds`
  };

  template <class Matches>
  std::vector<size_t> Of(const Matches& matches);
  static std::string WhyIdle(const Group& group);
  static void WarnOf(const std::string& key, const Group& group, std::vector<config::Warning>* warnings);

  std::vector<Group> groups_;
};

// The parts of a plan's layout that depend on the groups alone, so that they are the same on every rank.
void LayOutGroups(const config::Config& config, RecordLayout* layout);

}  // namespace stepwatch::plan
