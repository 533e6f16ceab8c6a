#include "src/output/run_files.h"

#include "src/base/file.h"
#include "src/output/json_text.h"
#include "src/output/run_directory.h"
#include "src/vocabulary/number_text.h"

namespace stepwatch::output {
namespace {

// A manifest that cannot be renamed is replaced by the new one.
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

void WritePort(std::string_view key, const PortStructure& port, JsonText* json) {
  json->Key(key);
  json->Object([&] {
    if (port.config.empty()) return;
    json->Member("config", port.config);
    if (port.config == "tensor")
      return json->Member("tensor", port.elements.empty() ? kNoTensor : port.elements[0].c_str());
    for (size_t i = 0; i < port.elements.size(); ++i) json->Member(std::to_string(i), port.elements[i]);
  });
}

// The text of stack_info.csv, with its header: the call stack of each module.
std::string StackInfoText(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = "module_name,stack_info\n";
  for (const auto& [module, stack] : rows) {
    vocabulary::AppendCell(module, &text);
    text.push_back(',');
    vocabulary::AppendCell(stack, &text);
    text.push_back('\n');
  }
  return text;
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

std::string StructureText(const std::vector<ModuleStructure>& modules) {
  JsonText json(2);
  json.Object([&] {
    for (const ModuleStructure& module : modules) {
      json.Key(module.key);
      json.Object([&] {
        WritePort("input", module.input, &json);
        WritePort("output", module.output, &json);
        WritePort("input_grad", module.input_grad, &json);
        WritePort("output_grad", module.output_grad, &json);
      });
    }
  });
  return json.Take();
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
