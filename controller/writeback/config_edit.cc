#include "controller/writeback/config_edit.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "controller/writeback/edit_turn.h"
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

// A second file beside the config cannot be made (space, name or permission); the config itself may still be writable.
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

// Another Stepwatch process that writes in place keeps readers out for a moment.
int OpenConfig(base::FileSystem& files, const std::string& target, base::UniqueFd* fd) {
  const auto deadline = std::chrono::steady_clock::now() + kAwaitTime;
  for (;;) {
    const int error = OpenFile(files, target, O_RDONLY, fd);
    if (error != EWOULDBLOCK || std::chrono::steady_clock::now() >= deadline) return error;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

using MakeText = std::function<Result<std::string>(const std::string& found)>;
enum class IfMissing : bool { kFail, kCreate };

class ConfigEdit {
 public:
  ConfigEdit(const std::string& path, const std::string& if_match_sha256, MakeText make_text, base::FileSystem& files)
      : path_(path), if_match_sha256_(if_match_sha256), make_text_(std::move(make_text)), files_(files) {}

  WriteBackResult Run(IfMissing if_missing) {
    if (std::optional<WriteBackResult> early = Prepare(if_missing)) return std::move(*early);
    struct stat status = {};
    if (const int error = StatusOf(files_, file_.get(), &status)) return Impossible("cannot be inspected", error);
    if (status.st_nlink > 1) return ReplaceInPlace();
    TemporaryFile ours = WriteBeside(files_, target_, file_.get(), ours_);
    if (ours.error == 0) return ReplaceBy(ours);
    return InPlaceMayHelp(ours.error) ? ReplaceInPlace()
                                      : Impossible("has no room for a new file beside it", ours.error);
  }

 private:
  // Reads the file and makes the new text; returns a result if there is nothing to write.
  std::optional<WriteBackResult> Prepare(IfMissing if_missing);
  std::optional<WriteBackResult> ReadAndMakeOurs();
  std::optional<WriteBackResult> MakeOurs();
  WriteBackResult Create();
  WriteBackResult ReplaceBy(TemporaryFile ours);
  WriteBackResult ReplaceByRename(const TemporaryFile& ours);
  WriteBackResult ReplaceInPlace();
  // For an exchange or a rename that failed with `error`.
  WriteBackResult WithoutTemporaryFile(const TemporaryFile& ours, int error);
  DisplacedName Texts() const { return {TextId(base_), TextId(ours_)}; }
  void Displaced(KeptFile kept);

  // "config.json <what>"
  WriteBackResult Ended(Outcome outcome, const std::string& what);
  WriteBackResult Impossible(const std::string& what, int error);
  WriteBackResult Edited(const std::string& kept_as = "");
  WriteBackResult Written();

  const std::string& path_;
  const std::string& if_match_sha256_;
  const MakeText make_text_;
  base::FileSystem& files_;
  std::string target_;  // resolved path of the config, without links
  base::UniqueFd file_;
  std::string base_;
  std::string ours_;
  std::optional<EditTurn> turn_;  // set after all slow work is done
  WriteBackResult result_;
};

std::optional<WriteBackResult> ConfigEdit::Prepare(IfMissing if_missing) {
  const int missing = ErrnoOf([&] { return files_.RealPath(path_.c_str(), &target_); });
  if (missing == ENOENT && if_missing == IfMissing::kCreate) return Create();
  if (missing != 0) return Impossible("cannot be found", missing);
  // A read-only file that already holds the new text is a success.
  const int read_only = ErrnoOf([&] { return files_.Access(target_.c_str(), W_OK); });
  std::optional<WriteBackResult> early = ReadAndMakeOurs();
  const bool holds_it_already = early && early->outcome == Outcome::kUnchanged;
  return read_only == 0 || holds_it_already ? std::move(early) : Impossible("is read-only", read_only);
}

std::optional<WriteBackResult> ConfigEdit::ReadAndMakeOurs() {
  struct stat status = {};
  if (const int error = StatusOfName(files_, target_, &status)) return Impossible("cannot be found", error);
  if (!S_ISREG(status.st_mode)) return Impossible("is not a regular file", 0);
  if (const int error = OpenConfig(files_, target_, &file_)) return Impossible("cannot be opened", error);
  if (const int error = ReadWhole(files_, file_.get(), &base_)) return Impossible("cannot be read", error);
  result_.found_sha256 = base::Sha256Hex(base_);
  if (!if_match_sha256_.empty() && result_.found_sha256 != if_match_sha256_) return Edited();
  return MakeOurs();
}

std::optional<WriteBackResult> ConfigEdit::MakeOurs() {
  Result<std::string> made = make_text_(base_);
  if (!made.ok()) return Ended(Outcome::kRefused, "is unchanged: " + made.status().ToString());
  ours_ = std::move(made).value();
  if (ours_.size() > config::kConfigBytesMax)
    return Ended(Outcome::kRefused, "is unchanged: the new text has " + std::to_string(ours_.size()) +
                                        " bytes; accepted: at most " + std::to_string(config::kConfigBytesMax));
  result_.sha256 = base::Sha256Hex(ours_);
  if (result_.sha256 == result_.found_sha256) return Ended(Outcome::kUnchanged, "holds that text already");
  return std::nullopt;
}

// If another process creates the file at the same moment, that file stays.
WriteBackResult ConfigEdit::Create() {
  struct stat status = {};
  if (StatusOfName(files_, path_, &status) == 0) return Impossible("is a dangling symbolic link", 0);
  if (!if_match_sha256_.empty())
    return Ended(Outcome::kEdited, "does not exist, so it does not hold the expected config");
  if (std::optional<WriteBackResult> early = MakeOurs()) return std::move(*early);
  result_.method = "created";
  const TemporaryFile ours = WriteNewBeside(files_, path_, ours_);
  if (ours.error != 0) return Impossible("cannot be created", ours.error);
  const int error = MoveToFreeName(files_, ours.path, path_);
  if (error == 0) return Written();
  RemoveOurs(files_, ours.path);
  return error == EEXIST ? Edited() : Impossible("cannot be created", error);
}

WriteBackResult ConfigEdit::ReplaceBy(TemporaryFile ours) {
  result_.method = "exchange";
  turn_.emplace(files_, base::DirectoryOf(target_));
  if (const int error = NameDisplaced(files_, target_, Texts(), &ours.path)) return WithoutTemporaryFile(ours, error);
  // Writing the temporary file takes milliseconds; a save during that time stays untouched.
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

// The old file gets a second name first, since the rename replaces its own.
WriteBackResult ConfigEdit::ReplaceByRename(const TemporaryFile& ours) {
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
    old.TakeFd().Reset();  // our own reader would prevent a write lease
    return WithoutTemporaryFile(ours, error);
  }
  if (kept.path.empty()) kept.fd = old.TakeFd();
  Displaced(std::move(kept));
  return Written();
}

WriteBackResult ConfigEdit::WithoutTemporaryFile(const TemporaryFile& ours, int error) {
  RemoveOurs(files_, ours.path);
  return InPlaceMayHelp(error) ? ReplaceInPlace() : Impossible("cannot be replaced", error);
}

WriteBackResult ConfigEdit::ReplaceInPlace() {
  result_.method = "in place";
  if (!turn_) turn_.emplace(files_, base::DirectoryOf(target_));
  file_.Reset();  // our own reader would prevent a write lease
  const InPlaceResult result = WriteInPlace(files_, target_, base_, ours_);
  switch (result.end) {
    case InPlaceResult::End::kReplaced: return Written();
    case InPlaceResult::End::kEdited: return Edited();
    case InPlaceResult::End::kMixed: {
      WriteBackResult edited = Edited();
      edited.message += ", but both were written into one file at once: check its content";
      return edited;
    }
    case InPlaceResult::End::kDamaged:
      return Ended(Outcome::kImpossible,
                   "could be neither changed nor restored; check its content: " + ErrnoText(result.error));
    case InPlaceResult::End::kFailed: break;
  }
  return Impossible("cannot be written to", result.error);
}

void ConfigEdit::Displaced(KeptFile kept) {
  result_.displaced.emplace(files_, target_, std::move(kept.path), std::move(kept.fd), TextId(kept.bytes));
}

WriteBackResult ConfigEdit::Ended(Outcome outcome, const std::string& what) {
  result_.outcome = outcome;
  result_.message = base::Printable(path_, 200) + " " + what;
  return std::move(result_);
}

WriteBackResult ConfigEdit::Impossible(const std::string& what, int error) {
  return Ended(Outcome::kImpossible, what + (error == 0 ? "" : ": " + ErrnoText(error)) + "; nothing was changed");
}

WriteBackResult ConfigEdit::Edited(const std::string& kept_as) {
  const std::string kept =
      kept_as.empty() ? "" : ", and the file that it replaced is kept as " + base::Printable(kept_as, 200);
  return Ended(Outcome::kEdited, "was edited meanwhile; the edit stands" + kept);
}

WriteBackResult ConfigEdit::Written() {
  result_.outcome = Outcome::kWritten;
  return std::move(result_);
}

}  // namespace

WriteBackResult ReplaceConfig(const std::string& path, const std::string& if_match_sha256, const std::string& text,
                              base::FileSystem& files) {
  const auto make_text = [&text](const std::string&) { return Result<std::string>(text); };
  return ConfigEdit(path, if_match_sha256, make_text, files).Run(IfMissing::kCreate);
}

WriteBackResult SetDynamicOn(const std::string& path, const std::string& if_match_sha256, bool on,
                             base::FileSystem& files) {
  const auto make_text = [on](const std::string& found) { return config::SpliceDynamicOn(found, on); };
  return ConfigEdit(path, if_match_sha256, make_text, files).Run(IfMissing::kFail);
}

}  // namespace stepwatch::writeback
