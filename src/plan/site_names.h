// The names of a model's modules and parameters for targets and for rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.h"
#include "stepwatch/site.h"

namespace stepwatch::plan {

struct SiteName {
  int chunk = 0;
  std::string raw;                       // as given by the framework
  std::string squashed;                  // for matching: the short form with squash_name, otherwise as in rows
  std::string display;                   // for rows: squashed where that is unambiguous
  std::optional<std::string> written{};  // as written by the user, if different from `raw`

  // The distinct spellings that targets and patterns may use.
  std::vector<std::string_view> Spellings() const;
};

// One for each entry, in index order. Rows use the names as written by the user, or with "names": "torch" the
// framework's. Within a chunk no two watchable modules and no two parameters share a display name: an entry keeps its
// own name if its written name, or short form, is used by an earlier entry, or is the name of another.
std::vector<SiteName> ModuleNames(const SiteIndex& sites, const config::Config& config);
std::vector<SiteName> ParameterNames(const SiteIndex& sites, const config::Config& config);
// FrontEndRequests::module_names.
std::vector<std::optional<std::string>> NamesInStructure(const SiteIndex& sites, const config::Config& config);

}  // namespace stepwatch::plan
