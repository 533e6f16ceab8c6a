// The names of a model's modules and parameters as targets see them and as rows print them.
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
  std::string raw;                       // as the framework gives it
  std::string squashed;                  // for matching: the short form with squash_name, otherwise as in rows
  std::string display;                   // for rows: squashed where that is unambiguous
  std::optional<std::string> written{};  // as the user wrote it, if that is another name than `raw`

  // What targets and patterns may call it: each spelling once.
  std::vector<std::string_view> Spellings() const;
};

// One for each entry, in index order. Rows have the names as the user wrote them, or with "names": "torch" the
// framework's. Within a chunk no two modules that can be watched and no two parameters share a display name: where the
// name as written, or the short form, is taken by an earlier entry, or is the name of another, an entry keeps its own.
std::vector<SiteName> ModuleNames(const SiteIndex& sites, const config::Config& config);
std::vector<SiteName> ParameterNames(const SiteIndex& sites, const config::Config& config);
// FrontEndRequests::module_names.
std::vector<std::optional<std::string>> NamesInStructure(const SiteIndex& sites, const config::Config& config);

}  // namespace stepwatch::plan
