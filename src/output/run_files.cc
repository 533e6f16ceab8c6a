#include "src/output/run_files.h"

#include "src/base/file.h"
#include "src/output/run_directory.h"
#include "src/output/stack_info.h"
#include "src/output/structure_text.h"

namespace stepwatch::output {
namespace {

// What cannot be renamed is replaced by the new one.
void KeepOlderManifest(const std::string& directory, base::FileSystem& files) {
  constexpr int kKeptMax = 10000;
  const std::string manifest = base::JoinPath(directory, "manifest.json");
  for (int i = 1; i <= kKeptMax; ++i) {
    const std::string kept = base::JoinPath(directory, "stepwatch-manifest-" + std::to_string(i) + ".json");
    if (base::Exists(kept, files)) continue;
    (void)files.Rename(manifest.c_str(), kept.c_str());
    return;
  }
}

Status SaveIn(const std::string& directory, const char* name, const std::string& text, base::FileSystem& files) {
  Status made = base::MakeDirectories(directory, files);
  return made.ok() ? base::ReplaceFile(base::JoinPath(directory, name), text, files) : made;
}

}  // namespace

OlderDirectory TakeOverDirectory(const std::string& base, int rank, const std::string& from, const std::string& to,
                                 base::FileSystem& files) {
  const auto found = FindRunDirectory(base, rank, from, to, files);
  if (!found)
    return {"", "append_output: no directory of rank " + std::to_string(rank) + " from " + from + " to " + to +
                    " under " + base + "; a new one is used"};
  KeepOlderManifest(*found, files);
  return {*found, "append_output: rows go to " + *found};
}

Status SaveManifest(const std::string& directory, const Manifest& manifest, base::FileSystem& files) {
  return SaveIn(directory, "manifest.json", ManifestText(manifest), files);
}

Result<std::string> SaveStructure(const std::string& base, int rank, const std::vector<ModuleStructure>& modules,
                                  base::FileSystem& files) {
  const std::string directory = base::JoinPath(base, "module_struct/rank" + std::to_string(rank));
  const Status saved = SaveIn(directory, "module_struct.json", StructureText(modules), files);
  if (!saved.ok()) return saved;
  return "the structure is in " + base::JoinPath(directory, "module_struct.json");
}

Result<std::string> SaveStacks(const std::string& directory,
                               const std::vector<std::pair<std::string, std::string>>& rows, base::FileSystem& files) {
  const std::string path = base::JoinPath(directory, "stack_info.csv");
  if (base::Exists(path, files)) return path + " already exists and is not changed";
  const Status saved = SaveIn(directory, "stack_info.csv", StackInfoText(rows), files);
  if (!saved.ok()) return saved;
  return "the call stacks are in " + path;
}

}  // namespace stepwatch::output
