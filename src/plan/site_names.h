// The names of a model's modules and parameters as targets see them and as rows print them.
#pragma once

#include <string>
#include <vector>

#include "stepwatch/site.h"

namespace stepwatch::plan {

struct SiteName {
  int chunk = 0;
  std::string raw;       // as the framework gives it
  std::string squashed;  // for matching: the short form with squash_name, otherwise raw
  std::string display;   // for rows: squashed where that is unambiguous
};

// One for each entry, in index order. Within a chunk no two modules and no two parameters share a display name: where
// the short form is taken by an earlier entry, or is the raw name of another, an entry keeps its raw name.
std::vector<SiteName> ModuleNames(const SiteIndex& sites, bool squash);
std::vector<SiteName> ParameterNames(const SiteIndex& sites, bool squash);

}  // namespace stepwatch::plan
