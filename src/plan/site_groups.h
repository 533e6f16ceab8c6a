// What "stepwatch": {"sites": ...} makes of the sites of one model: which of them a group decides about, and how.
//
// A site is one kind of one module or parameter. Collected is what the config's other fields select, and what a group
// with `kinds` selects: these kinds of all that it matches. How, if at all, is decided by the first group that matches
// the site's name and, if it has `kinds`, has that of the site among them. One with `every` 0 decides that it is left
// out after all. A site that no group matches is as the other fields have it.
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
  // Must outlive the groups. Its patterns are those of a parsed config; one that cannot be read matches nothing.
  explicit SiteGroups(const config::Config& config);

  // The groups that match a name, in their order.
  std::vector<size_t> OfModule(const SiteName& name);
  std::vector<size_t> OfParameter(const SiteName& name);
  // What becomes of a site: nothing if it is not collected, otherwise PlannedSite::group. `matching` are the groups of
  // its name, `selected` says whether the other fields of the config select it.
  std::optional<uint8_t> Place(const std::vector<size_t>& matching, SiteKind kind, bool selected);
  // These groups match a module that cannot be hooked.
  void NoteUnwatchable(const std::vector<size_t>& matching, const SiteName& name);

  // Patterns that match nothing, groups that change nothing, and modules that they select in vain. After every name was
  // asked for.
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
    size_t names = 0;        // that it matches, without those that `exclude` leaves out
    size_t left_out = 0;     // by `exclude`
    size_t sites = 0;        // that belong to it
    size_t forestalled = 0;  // that belong to a group before it, and would otherwise be its own
    std::vector<std::string> unwatchable;

    bool Names(SiteKind kind) const;  // in `kinds`
  };

  template <class Matches>
  std::vector<size_t> Of(const Matches& matches);
  static std::string WhyIdle(const Group& group);
  static void WarnOf(const std::string& key, const Group& group, std::vector<config::Warning>* warnings);

  std::vector<Group> groups_;
};

// The parts of a plan's layout that follow from the groups alone, so that they are the same on every rank.
void LayOutGroups(const config::Config& config, RecordLayout* layout);

}  // namespace stepwatch::plan
