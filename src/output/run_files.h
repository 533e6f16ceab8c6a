// The files that a run writes beside its rows. All calls but StructureText may block on the file system.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/base/file_system.h"
#include "src/output/manifest.h"
#include "stepwatch/module_structure.h"
#include "stepwatch/status.h"

namespace stepwatch::output {

// The directory selected by append_output, and a message about it.
struct OlderDirectory {
  std::string path;  // empty: not found
  std::string note;
};
// Finds the directory of `rank` below `base` whose time lies in [from, to]. The manifest of the run that wrote there
// before is kept under the first free name of stepwatch-manifest-1.json, -2, …
OlderDirectory TakeOverDirectory(const std::string& base, int rank, const std::string& from, const std::string& to,
                                 base::FileSystem& files);

// Writes manifest.json whole, and creates a missing directory.
Status SaveManifest(const std::string& directory, const Manifest& manifest, base::FileSystem& files);

// The text of module_struct.json, for print_struct. A port that was not observed is an empty object. Indented by 2.
std::string StructureText(const std::vector<ModuleStructure>& modules);

// {base}/module_struct/rank{R}/module_struct.json; returns a message with the path.
Result<std::string> SaveStructure(const std::string& base, int rank, const std::vector<ModuleStructure>& modules,
                                  base::FileSystem& files);

// stack_info.csv in the directory, unless it exists. Rows are (module, stack); returns a message about the result.
Result<std::string> SaveStacks(const std::string& directory,
                               const std::vector<std::pair<std::string, std::string>>& rows, base::FileSystem& files);

}  // namespace stepwatch::output
