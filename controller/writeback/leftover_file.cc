#include "controller/writeback/leftover_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "controller/writeback/leased_file.h"
#include "controller/writeback/temporary_file.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::writeback {
namespace {

using Finding = DisplacedFile::Finding;

class Tidier {
 public:
  Tidier(base::FileSystem& files, std::string target, uid_t owner, std::chrono::milliseconds foreign_age)
      : files_(files), target_(std::move(target)), owner_(owner), foreign_age_(foreign_age) {}

  Finding Tidy(const std::string& name) {
    const std::optional<TemporaryName> about = ParseTemporaryName(target_, name);
    if (!about) return {};
    const std::string path = base::JoinPath(base::DirectoryOf(target_), name);
    base::UniqueFd fd;
    std::string bytes;
    if (OpenFile(files_, path, O_RDONLY, &fd) != 0 || !IsLeft(fd.get(), *about)) return {};
    const ScopedLease lease(files_, fd.get(), F_RDLCK);
    if (lease.is_busy() || ReadWhole(files_, fd.get(), &bytes) != 0) return {};
    if (!IsOurs(bytes, *about)) return Keep(path);
    RemoveOurs(files_, path);
    return {};
  }

 private:
  bool IsLeft(int fd, const TemporaryName& about) const {
    struct stat status = {};
    if (StatusOf(files_, fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) return false;
    if (status.st_uid != owner_ && status.st_uid != ::geteuid()) return false;
    const std::optional<bool> is_running = IsWriterRunning(about);
    return is_running ? !*is_running : IsOlderThan(status, foreign_age_);
  }

  bool IsOurs(const std::string& bytes, const TemporaryName& about) {
    if (bytes.empty()) return true;
    if (about.is_of_ours && TextId(bytes) == about.text) return true;
    for (const std::string& known : KnownTexts())
      if (known.starts_with(bytes)) return true;
    return false;
  }

  // The config's own text, and the texts that a write-back or a CLI verb would derive from it.
  const std::vector<std::string>& KnownTexts() {
    if (known_texts_) return *known_texts_;
    known_texts_.emplace();
    const Version config = Inspect(files_, target_);
    if (!config.bytes) return *known_texts_;
    known_texts_->push_back(*config.bytes);
    for (const bool on : {false, true})
      if (Result<std::string> made = config::SpliceDynamicOn(*config.bytes, on); made.ok())
        known_texts_->push_back(std::move(made).value());
    return *known_texts_;
  }

  Finding Keep(const std::string& path) {
    Finding finding;
    finding.kind = Finding::Kind::kKept;
    const std::string kept = KeepAsConflict(files_, target_, path);
    finding.message = "a killed process has left a file beside the config that may hold a late edit; it is kept as " +
                      base::Printable(kept, 200) + ". Compare it with the config, then remove it";
    return finding;
  }

  base::FileSystem& files_;
  const std::string target_;
  const uid_t owner_;
  const std::chrono::milliseconds foreign_age_;
  std::optional<std::vector<std::string>> known_texts_;
};

}  // namespace

std::vector<Finding> TidyLeftovers(const std::string& path, base::FileSystem& files,
                                   std::chrono::milliseconds foreign_age) {
  std::vector<Finding> findings;
  std::string target;
  struct stat config = {};
  if (ErrnoOf([&] { return files.RealPath(path.c_str(), &target); }) != 0) return findings;
  if (StatusOfName(files, target, &config) != 0) return findings;
  const Result<std::vector<std::string>> names = base::ListDirectory(base::DirectoryOf(target), files);
  if (!names.ok()) return findings;
  Tidier tidier(files, target, config.st_uid, foreign_age);
  for (const std::string& name : names.value()) {
    Finding finding = tidier.Tidy(name);
    if (finding.kind != Finding::Kind::kNothing) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace stepwatch::writeback
