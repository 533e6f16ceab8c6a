// The sites of a plan, by the module that they belong to.
#pragma once

#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::front_end {

inline constexpr SiteId kNoSite = ~SiteId{0};

// The sites of one module.
struct ModuleSites {
  SiteId input = kNoSite, output = kNoSite, input_grad = kNoSite, output_grad = kNoSite;
  GroupSet groups = 0;  // of these sites

  bool any() const { return input != kNoSite || output != kNoSite || any_grad(); }
  bool any_grad() const { return input_grad != kNoSite || output_grad != kNoSite; }
  // `site` is one of activations or their gradients.
  void Add(const PlannedSite& site, SiteId id) {
    const bool is_input = site.port == Port::kInput;
    if (site.kind == SiteKind::kActv) {
      (is_input ? input : output) = id;
    } else {
      (is_input ? input_grad : output_grad) = id;
    }
    groups |= GroupSet{1} << site.group;
  }
};

}  // namespace stepwatch::front_end
