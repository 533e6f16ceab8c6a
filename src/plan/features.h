// The L2 features that `l2_targets` selects, by module.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/plan/site_names.h"
#include "src/plan/targets.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::plan {

class Features {
 public:
  // Selects nothing if the config records no features, or the front end does not compute them.
  Features(const config::Config& config, const SiteIndex& sites);

  // The features of a module, in the order of SiteKind. Modules are named exactly, as in `targets`; an empty list means
  // every module for linear_hook, no module for the others.
  std::vector<SiteKind> Of(const SiteName& module) const;
  // The CSV name cell: "layers.0.attention".
  static std::string NameOf(SiteKind kind, const SiteName& module);

  // Names that select no module.
  std::vector<config::Warning> Warnings(const std::vector<SiteName>& modules) const;

 private:
  struct Hook {
    SiteKind kind;
    std::vector<std::string> texts;  // as in the config
    TargetKeys keys;
    bool every = false;  // every module

    bool Selects(const SiteName& module) const { return every || !keys.OfModule(module).empty(); }
  };

  std::vector<Hook> hooks_;
};

}  // namespace stepwatch::plan
