#include "operations/provision/write_files.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "src/base/file.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/json/json.h"
#include "src/json/members.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kFileBytesMax = 4 << 20;
constexpr const char* kRecord = ".stepwatch-provision.json";

// Nullopt if there is no file.
Result<std::optional<std::string>> Contents(const std::string& path, base::FileSystem& files) {
  Result<std::string> text = base::ReadFile(path, kFileBytesMax, files);
  if (text.ok()) return std::optional<std::string>(std::move(text).value());
  if (text.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  return text.status();
}

// An unreadable record is as an empty one: all files then count as edited.
Json ReadRecord(const std::string& path, base::FileSystem& files) {
  const Result<std::string> text = base::ReadFile(path, kFileBytesMax, files);
  if (!text.ok()) return Json::object();
  Result<Json> record = json::Parse(text.value());
  return record.ok() && record.value().is_object() ? std::move(record).value() : Json::object();
}

WriteOutcome Decide(const std::optional<std::string>& old, const ProvisionedFile& file, const Json& record,
                    bool is_forced) {
  if (!old) return WriteOutcome::kWritten;
  if (*old == file.text) return WriteOutcome::kUnchanged;
  const Json& recorded = json::Member(record, file.path.c_str());
  if (recorded.is_string() && recorded == base::Sha256Hex(*old)) return WriteOutcome::kWritten;
  return is_forced ? WriteOutcome::kReplaced : WriteOutcome::kKept;
}

}  // namespace

Result<std::vector<WrittenFile>> WriteFiles(const std::string& directory, const std::vector<ProvisionedFile>& files,
                                            bool is_forced, base::FileSystem& file_system) {
  const std::string record_path = base::JoinPath(directory, kRecord);
  Json record = ReadRecord(record_path, file_system);
  std::vector<WrittenFile> written;
  const auto save = [&] { return base::ReplaceFile(record_path, record.dump(2) + "\n", file_system); };
  for (const ProvisionedFile& file : files) {
    const std::string path = base::JoinPath(directory, file.path);
    if (Status status = base::MakeDirectories(base::DirectoryOf(path), file_system); !status.ok()) return status;
    const Result<std::optional<std::string>> old = Contents(path, file_system);
    if (!old.ok()) return old.status();
    const WriteOutcome outcome = Decide(old.value(), file, record, is_forced);
    written.push_back({file.path, outcome});
    if (outcome == WriteOutcome::kKept) continue;
    // Recorded first: after a kill in between the old file counts as edited, and is never lost.
    record[file.path] = base::Sha256Hex(file.text);
    if (outcome == WriteOutcome::kUnchanged) continue;
    if (Status status = save(); !status.ok()) return status;
    if (Status status = base::ReplaceFile(path, file.text, file_system); !status.ok()) return status;
  }
  if (Status status = save(); !status.ok()) return status;
  return written;
}

}  // namespace stepwatch::operations
