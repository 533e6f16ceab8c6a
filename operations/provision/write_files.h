// Writes provisioned files, and keeps those that a person edited.
//
// The file .stepwatch-provision.json of the directory has the SHA-256 of every file as it was written. A file with
// other bytes, or an existing file that is not listed, belongs to a person.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operations/provision/files.h"
#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

enum class WriteOutcome : uint8_t { kWritten, kUnchanged, kKept, kReplaced };

struct WrittenFile {
  std::string path;
  WriteOutcome outcome = WriteOutcome::kWritten;
};

// Replaces edited files only if `is_forced`. A failure leaves the files before it written.
Result<std::vector<WrittenFile>> WriteFiles(const std::string& directory, const std::vector<ProvisionedFile>& files,
                                            bool is_forced, base::FileSystem& file_system = base::FileSystem::Real());

}  // namespace stepwatch::operations
