// What a config asks of a front end beside sites, and what of it the front end cannot do.
#pragma once

#include <vector>

#include "src/config/config.h"
#include "stepwatch/hook_table.h"
#include "stepwatch/site.h"

namespace stepwatch::plan {

FrontEndRequests RequestsOf(const config::Config& config, const SiteIndex& sites, bool rank_writes);

// One warning for each key that is switched on and has no effect with this front end.
std::vector<config::Warning> BeyondFrontEnd(const config::Config& config, const SiteIndex& sites);

}  // namespace stepwatch::plan
