#include "controller/writeback/write_back.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "controller/writeback/exchange.h"
#include "controller/writeback/file_calls.h"
#include "controller/writeback/in_place.h"
#include "controller/writeback/leased_file.h"
#include "controller/writeback/temporary_file.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::writeback {
namespace {

using Outcome = WriteBackOutcome;

std::string ErrnoText(int error) {
  return std::generic_category().message(error);
}

// No room, no name or no right for a second file beside the config; the config itself may still be writable.
bool InPlaceMayHelp(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOSPC:
    case EDQUOT:
    case ENAMETOOLONG:
    case EBUSY:  // a mount point: a single file mounted into a container
    case EXDEV: return true;
    default: return false;
  }
}

bool HasNoExchange(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

class WriteBack {
 public:
  WriteBack(const std::string& path, const std::string& base_sha256, base::FileSystem& files)
      : path_(path), base_sha256_(base_sha256), files_(files) {}

  WriteBackResult Run() {
    if (std::optional<WriteBackResult> early = Prepare()) return std::move(*early);
    struct stat status = {};
    if (const int error = StatusOf(files_, file_.get(), &status)) return Impossible("cannot be looked at", error);
    if (status.st_nlink > 1) return ReplaceInPlace();
    TemporaryFile ours = WriteBeside(files_, target_, file_.get(), ours_);
    if (ours.error == 0) return ReplaceBy(ours);
    return InPlaceMayHelp(ours.error) ? ReplaceInPlace()
                                      : Impossible("has no room for a new file beside it", ours.error);
  }

 private:
  // Reads the file and makes the new text; a result says why there is nothing to write.
  std::optional<WriteBackResult> Prepare();
  WriteBackResult ReplaceBy(TemporaryFile ours);
  WriteBackResult ReplaceByRename(const TemporaryFile& ours);
  WriteBackResult ReplaceInPlace();
  // For an exchange or a rename that failed with `error`.
  WriteBackResult WithoutTemporaryFile(const TemporaryFile& ours, int error);
  DisplacedName Texts() const { return {TextId(base_), TextId(ours_)}; }
  void Displaced(KeptFile kept);

  WriteBackResult Impossible(const std::string& what, int error);
  WriteBackResult Edited(const std::string& kept_as = "");
  WriteBackResult Written();

  const std::string& path_;
  const std::string& base_sha256_;
  base::FileSystem& files_;
  std::string target_;  // what the path leads to, free of links
  base::UniqueFd file_;
  std::string base_;
  std::string ours_;
  WriteBackResult result_;
};

std::optional<WriteBackResult> WriteBack::Prepare() {
  struct stat status = {};
  if (const int error = ErrnoOf([&] { return files_.RealPath(path_.c_str(), &target_); }))
    return Impossible("cannot be found", error);
  if (const int error = ErrnoOf([&] { return files_.Access(target_.c_str(), W_OK); }))
    return Impossible("is read-only", error);
  if (const int error = StatusOfName(files_, target_, &status)) return Impossible("cannot be found", error);
  if (!S_ISREG(status.st_mode)) return Impossible("is no regular file", 0);
  if (const int error = OpenFile(files_, target_, O_RDONLY, &file_)) return Impossible("cannot be opened", error);
  if (const int error = ReadWhole(files_, file_.get(), &base_)) return Impossible("cannot be read", error);
  if (base::Sha256Hex(base_) != base_sha256_) return Edited();
  Result<std::string> spliced = config::SpliceDynamicOnFalse(base_);
  if (!spliced.ok()) return Impossible("cannot be changed (" + spliced.status().ToString() + ")", 0);
  ours_ = std::move(spliced).value();
  result_.sha256 = base::Sha256Hex(ours_);
  return std::nullopt;
}

WriteBackResult WriteBack::ReplaceBy(TemporaryFile ours) {
  result_.method = "exchange";
  if (const int error = NameDisplaced(files_, target_, Texts(), &ours.path)) return WithoutTemporaryFile(ours, error);
  // To write the temporary file took milliseconds; whoever saved within them is not even disturbed.
  if (Inspect(files_, target_).bytes != base_) {
    RemoveOurs(files_, ours.path);
    return Edited();
  }
  ExchangeResult exchange = ExchangeIn(files_, target_, ours, base_);
  if (exchange.displaced) Displaced(std::move(*exchange.displaced));
  switch (exchange.end) {
    case ExchangeResult::End::kReplaced: return Written();
    case ExchangeResult::End::kEdited: return Edited(exchange.kept_as);
    case ExchangeResult::End::kHeld: return ReplaceInPlace();
    case ExchangeResult::End::kFailed: break;
  }
  if (HasNoExchange(exchange.error)) return ReplaceByRename(ours);
  return WithoutTemporaryFile(ours, exchange.error);
}

// The old file gets a second name first, so that it has one when the rename has taken its own.
WriteBackResult WriteBack::ReplaceByRename(const TemporaryFile& ours) {
  result_.method = "rename";
  base::UniqueFd fd;
  if (const int error = OpenFile(files_, target_, O_RDONLY, &fd)) return WithoutTemporaryFile(ours, error);
  LeasedFile old(files_, std::move(fd), F_RDLCK);
  const Quiet quiet = old.Await(base_);
  if (quiet != Quiet::kQuiet) {
    old.TakeFd().Reset();
    RemoveOurs(files_, ours.path);
    return quiet == Quiet::kHeld ? ReplaceInPlace() : Edited();
  }
  KeptFile kept{"", {}, base_};
  LinkDisplaced(files_, target_, Texts(), &kept.path);
  if (!kept.path.empty() && OpenFile(files_, kept.path, O_RDONLY, &kept.fd) != 0) {
    RemoveOurs(files_, kept.path);
    kept.path.clear();
  }
  if (const int error = Rename(files_, ours.path, target_)) {
    if (!kept.path.empty()) RemoveOurs(files_, kept.path);
    kept.fd.Reset();
    old.TakeFd().Reset();  // our own readers would stand in the way of a write lease
    return WithoutTemporaryFile(ours, error);
  }
  if (kept.path.empty()) kept.fd = old.TakeFd();
  Displaced(std::move(kept));
  return Written();
}

WriteBackResult WriteBack::WithoutTemporaryFile(const TemporaryFile& ours, int error) {
  RemoveOurs(files_, ours.path);
  return InPlaceMayHelp(error) ? ReplaceInPlace() : Impossible("cannot be replaced", error);
}

WriteBackResult WriteBack::ReplaceInPlace() {
  result_.method = "in place";
  file_.Reset();  // our own reader would stand in the way of a write lease
  const InPlaceResult result = WriteInPlace(files_, target_, base_, ours_);
  switch (result.end) {
    case InPlaceResult::End::kReplaced: return Written();
    case InPlaceResult::End::kEdited: return Edited();
    case InPlaceResult::End::kMixed: {
      WriteBackResult edited = Edited();
      edited.message += ", but both were written into one file at once: look at it";
      return edited;
    }
    case InPlaceResult::End::kDamaged:
      return Impossible("could be neither changed nor restored: look at it", result.error);
    case InPlaceResult::End::kFailed: break;
  }
  return Impossible("cannot be written to", result.error);
}

void WriteBack::Displaced(KeptFile kept) {
  result_.displaced.emplace(files_, target_, std::move(kept.path), std::move(kept.fd), TextId(kept.bytes));
}

WriteBackResult WriteBack::Impossible(const std::string& what, int error) {
  result_.outcome = Outcome::kImpossible;
  result_.message = base::Printable(path_, 200) + " " + what + (error == 0 ? "" : ": " + ErrnoText(error)) +
                    "; \"dynamic_on\" stays as it is in the file";
  return std::move(result_);
}

WriteBackResult WriteBack::Edited(const std::string& kept_as) {
  result_.outcome = Outcome::kEdited;
  result_.message = base::Printable(path_, 200) + " was edited meanwhile; the edit stands";
  if (!kept_as.empty()) result_.message += ", and what it replaced is kept as " + base::Printable(kept_as, 200);
  return std::move(result_);
}

WriteBackResult WriteBack::Written() {
  result_.outcome = Outcome::kWritten;
  return std::move(result_);
}

}  // namespace

WriteBackResult WriteBackDynamicOff(const std::string& path, const std::string& base_sha256, base::FileSystem& files) {
  return WriteBack(path, base_sha256, files).Run();
}

}  // namespace stepwatch::writeback
