#include "src/offline/staging.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "src/base/file.h"

namespace stepwatch::offline {

namespace fs = std::filesystem;

Result<StagingDirectory> StagingDirectory::Make(const std::string& output) {
  std::error_code error;
  const bool existed = fs::exists(output, error);
  Status made = base::MakeDirectories(output);
  if (!made.ok()) return made;
  std::string path = base::JoinPath(output, ".stepwatch-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) {
    const int error_number = errno;
    if (!existed) fs::remove(output, error);
    return base::ErrnoStatus("cannot create a directory in", output, error_number);
  }
  return StagingDirectory(output, std::move(path), !existed);
}

StagingDirectory::StagingDirectory(StagingDirectory&& other) noexcept
    : output_(std::move(other.output_)),
      path_(std::exchange(other.path_, std::string())),
      made_output_(other.made_output_),
      replaced_(other.replaced_) {}

StagingDirectory::~StagingDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (made_output_) fs::remove(output_, ignored);  // only if it is empty
}

Status StagingDirectory::Publish(const std::string& name) {
  const std::string from = base::JoinPath(path_, name);
  const std::string to = base::JoinPath(output_, name);
  Status made = base::MakeDirectories(base::DirectoryOf(to));
  if (!made.ok()) return made;
  std::error_code error;
  // A file is replaced by the rename itself; a directory has to make room first.
  const bool replaces = fs::is_directory(fs::symlink_status(to, error));
  const std::string old = base::JoinPath(path_, "replaced-" + std::to_string(replaced_));
  if (replaces) {
    if (std::rename(to.c_str(), old.c_str()) != 0) return base::ErrnoStatus("cannot replace", to, errno);
    ++replaced_;
  }
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    const int error_number = errno;
    const bool lost = replaces && std::rename(old.c_str(), to.c_str()) != 0;
    Status status = base::ErrnoStatus("cannot create", to, error_number);
    if (!lost) return status;
    path_.clear();  // it holds what was there
    return Status(status.code(), status.message() + "; what was there is now " + old);
  }
  return Status();
}

}  // namespace stepwatch::offline
