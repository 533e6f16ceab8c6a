// The selection of `targets` in one model, and warnings about it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.h"
#include "src/plan/site_names.h"
#include "src/plan/stale_names.h"
#include "src/plan/targets.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::plan {

// The kinds of tensors that the config's boolean fields enable, in the order of SiteKind.
std::vector<SiteKind> KindsOf(const config::Config& config);

// The name of the module or parameter that the author of `text` probably meant; empty if none is close.
std::string_view NearestName(std::string_view text, const std::vector<SiteName>& modules,
                             const std::vector<SiteName>& parameters, base::SearchBudget* budget);

// A warning that does not change the selection.
config::Warning NoteOn(std::string key, std::string message);

class Selection {
 public:
  // Both must outlive the selection.
  Selection(const config::Config& config, const SiteIndex& sites);

  const std::vector<SiteName>& modules() const { return modules_; }
  const std::vector<SiteName>& parameters() const { return parameters_; }

  // xy_distribution: every module if all_xy or without targets, otherwise those named exactly.
  bool SelectsModule(size_t index) const;
  // Parameters that require a gradient: all of them without targets.
  bool SelectsParameter(size_t index) const;

  // Keys that select nothing, and selected modules that cannot be hooked.
  std::vector<config::Warning> Warnings() const;

 private:
  void CheckKey(size_t key, StaleNames* stale) const;
  void CheckWatchable(std::vector<config::Warning>* warnings) const;

  const config::Config& config_;
  const SiteIndex& sites_;
  const std::vector<SiteName> modules_;
  const std::vector<SiteName> parameters_;
  const TargetKeys keys_;
  // By index: whether a key matches the module, or the parameter; and whether a key matches any.
  std::vector<bool> module_named_, parameter_named_;
  std::vector<bool> key_names_module_, key_names_parameter_;
};

}  // namespace stepwatch::plan
