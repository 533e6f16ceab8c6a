// The files that a run writes beside its rows. Every call here may wait for the file system.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/base/file_system.h"
#include "src/output/manifest.h"
#include "stepwatch/module_structure.h"
#include "stepwatch/status.h"

namespace stepwatch::output {

// Where append_output leads, and the sentence that says so.
struct OlderDirectory {
  std::string path;  // empty: there is no such directory
  std::string note;
};
// Looks for the directory of `rank` below `base` whose time lies in [from, to]. The manifest of the run that wrote
// there before stays readable under the first free of stepwatch-manifest-1.json, -2, …
OlderDirectory TakeOverDirectory(const std::string& base, int rank, const std::string& from, const std::string& to,
                                 base::FileSystem& files);

// Writes manifest.json whole, and makes the directory if it is not there.
Status SaveManifest(const std::string& directory, const Manifest& manifest, base::FileSystem& files);

// {base}/module_struct/rank{R}/module_struct.json; answers where the structure is.
Result<std::string> SaveStructure(const std::string& base, int rank, const std::vector<ModuleStructure>& modules,
                                  base::FileSystem& files);

// stack_info.csv in the directory, unless one is there. Rows are (module, stack); answers what became of them.
Result<std::string> SaveStacks(const std::string& directory,
                               const std::vector<std::pair<std::string, std::string>>& rows, base::FileSystem& files);

}  // namespace stepwatch::output
