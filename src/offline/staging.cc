#include "src/offline/staging.h"

#include <cerrno>
#include <utility>

#include "src/base/file.h"

namespace stepwatch::offline {

Result<StagingDirectory> StagingDirectory::Make(const std::string& output, base::FileSystem& files) {
  const bool existed = base::Exists(output, files);
  Status made = base::MakeDirectories(output, files);
  if (!made.ok()) return made;
  std::string path = base::JoinPath(output, ".stepwatch-XXXXXX");
  if (files.MakeUniqueDirectory(path.data()) != 0) {
    const int error_number = errno;
    if (!existed) files.RemoveDirectory(output.c_str());
    return base::ErrnoStatus("cannot create a directory in", output, error_number);
  }
  return StagingDirectory(output, std::move(path), !existed, files);
}

StagingDirectory::StagingDirectory(StagingDirectory&& other) noexcept
    : files_(other.files_),
      output_(std::move(other.output_)),
      path_(std::exchange(other.path_, std::string())),
      made_output_(other.made_output_),
      replaced_(other.replaced_) {}

StagingDirectory::~StagingDirectory() {
  if (path_.empty()) return;
  base::RemoveTree(path_, files_);
  if (made_output_) files_.RemoveDirectory(output_.c_str());  // fails unless empty
}

Status StagingDirectory::Publish(const std::string& name) {
  const std::string from = base::JoinPath(path_, name);
  const std::string to = base::JoinPath(output_, name);
  Status made = base::MakeDirectories(base::DirectoryOf(to), files_);
  if (!made.ok()) return made;
  struct stat about = {};
  // Rename replaces a file; a directory must be moved away first.
  const bool replaces = files_.Lstat(to.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
  const std::string old = base::JoinPath(path_, "replaced-" + std::to_string(replaced_));
  if (replaces) {
    if (files_.Rename(to.c_str(), old.c_str()) != 0) return base::ErrnoStatus("cannot replace", to, errno);
    ++replaced_;
  }
  if (files_.Rename(from.c_str(), to.c_str()) != 0) {
    const int error_number = errno;
    const bool lost = replaces && files_.Rename(old.c_str(), to.c_str()) != 0;
    Status status = base::ErrnoStatus("cannot create", to, error_number);
    if (!lost) return status;
    path_.clear();  // keeps the replaced results
    return Status(status.code(), status.message() + "; the previous content is now " + old);
  }
  return Status();
}

}  // namespace stepwatch::offline
