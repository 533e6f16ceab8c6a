#include "controller/writeback/exchange.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "controller/writeback/leased_file.h"

namespace stepwatch::writeback {
namespace {

using ExchangeEnd = ExchangeResult::End;

constexpr int kRoundsMax = 1000;   // more saves than can happen during one exchange
constexpr int kExchangeTries = 3;  // for a call that worked a moment ago

class Exchanger {
 public:
  // `ours`: the file that may be overwritten; without bytes if there is none.
  Exchanger(base::FileSystem& files, const std::string& target, std::string hand, Version ours, std::string base,
            std::chrono::milliseconds patience)
      : files_(files),
        target_(target),
        hand_(std::move(hand)),
        ours_(std::move(ours)),
        base_(std::move(base)),
        patience_(patience) {}

  ExchangeResult Run() {
    result_.error = Exchange(files_, hand_, target_);
    if (result_.error != 0) return std::move(result_);
    if (Inspect(files_, hand_).bytes == base_) {
      const Quiet quiet = Keep(base_);
      if (quiet == Quiet::kQuiet) return Ended(ExchangeEnd::kReplaced);
      if (quiet == Quiet::kHeld) return PutBack(ExchangeEnd::kHeld, ours_);
    }
    return PutBack(ExchangeEnd::kEdited, ours_);
  }

  // Rules 1 and 2. `end`: the result without further saves. `in_file`: the content of the config's place.
  ExchangeResult PutBack(ExchangeEnd end, Version in_file) {
    result_.displaced.reset();
    for (int round = 0; round < kRoundsMax; ++round) {
      Version in_hand = Inspect(files_, hand_);
      const Swap swap = SwapQuietHandIn(&in_hand, in_file);
      if (swap == Swap::kHandIsEmpty) return Ended(end);
      if (swap == Swap::kFailed) break;
      const Version displaced = Inspect(files_, hand_);
      // It may be the file we put there, but is unreadable: a save into it cannot be ruled out.
      const bool is_doubtful = !displaced.bytes && (displaced.inode == in_file.inode || displaced.inode == 0);
      if (is_doubtful) break;
      if (displaced == in_file && Keep(displaced)) return Ended(end);
      if (IsOlderSave(displaced, in_file, in_hand)) break;
      in_file = in_hand;
      end = ExchangeEnd::kEdited;
    }
    KeepAsConflict();
    return Ended(ExchangeEnd::kEdited);
  }

 private:
  ExchangeResult Ended(ExchangeEnd end) {
    result_.end = end;
    return std::move(result_);
  }

  enum class Swap { kDone, kHandIsEmpty, kFailed };

  // Waits until a save in progress on the file in hand ends, and keeps new ones out until the swap: every later write
  // to it is newer than the swap. `in_hand` gets its last bytes.
  Swap SwapQuietHandIn(Version* in_hand, const Version& in_file) {
    base::UniqueFd fd;
    if (!in_hand->bytes || OpenFile(files_, hand_, O_RDONLY, &fd) != 0) return SwapHandIn(in_file);
    LeasedFile file(files_, std::move(fd), F_RDLCK, patience_);
    if (std::optional<std::string> bytes = file.AwaitBytes()) in_hand->bytes = std::move(bytes);
    return SwapHandIn(in_file);
  }

  Swap SwapHandIn(const Version& in_file) {
    for (int i = 0; i < kExchangeTries; ++i) {
      const int error = Exchange(files_, hand_, target_);
      if (error == 0) return Swap::kDone;
      if (error == ENOENT && RenameToFreeName(files_, hand_, target_) == 0) return Swap::kHandIsEmpty;
    }
    // The exchange no longer works. Our own file in the config's place may be overwritten, if it is unchanged.
    const bool is_ours = in_file == ours_ && Inspect(files_, target_) == ours_;
    return is_ours && Rename(files_, hand_, target_) == 0 ? Swap::kHandIsEmpty : Swap::kFailed;
  }

  // An editor that saves in place twice can end the first save in the file in hand and begin the second in the config,
  // all between our last look at the former and its swap. The older save then makes the file we put in come back
  // changed. Both ctimes are those of the swap, so mtimes decide.
  bool IsOlderSave(const Version& displaced, const Version& in_file, const Version& in_place) const {
    const bool is_same_file = displaced.device == in_file.device && displaced.inode == in_file.inode;
    const bool is_edit_in_place = in_place.bytes && in_place.bytes != ours_.bytes && *in_place.bytes != base_;
    struct stat older = {}, newer = {};
    if (!is_same_file || !is_edit_in_place) return false;
    if (StatusOfName(files_, hand_, &older) != 0 || StatusOfName(files_, target_, &newer) != 0) return false;
    return std::pair(older.st_mtim.tv_sec, older.st_mtim.tv_nsec) <
           std::pair(newer.st_mtim.tv_sec, newer.st_mtim.tv_nsec);
  }

  // Rule 3. False: the file in hand was written to meanwhile and must go back.
  bool Keep(const Version& version) {
    const bool is_known = version.bytes && (version.bytes == ours_.bytes || *version.bytes == base_);
    if (!is_known) return KeepAsConflict();
    return Keep(*version.bytes) != Quiet::kChanged;
  }

  Quiet Keep(const std::string& expected) {
    base::UniqueFd fd;
    if (OpenFile(files_, hand_, O_RDONLY, &fd) != 0 && OpenFile(files_, hand_, O_RDONLY, &fd) != 0)
      return Quiet::kChanged;
    LeasedFile file(files_, std::move(fd), F_RDLCK, patience_);
    const Quiet quiet = file.Await(expected);
    if (quiet != Quiet::kChanged) result_.displaced = KeptFile{hand_, file.TakeFd(), expected};
    return quiet;
  }

  bool KeepAsConflict() {
    result_.kept_as = writeback::KeepAsConflict(files_, target_, hand_);
    return true;
  }

  base::FileSystem& files_;
  const std::string& target_;
  const std::string hand_;  // the name beside the config of the file that was taken out
  const Version ours_;
  const std::string base_;
  const std::chrono::milliseconds patience_;
  ExchangeResult result_;
};

}  // namespace

ExchangeResult ExchangeIn(base::FileSystem& files, const std::string& target, const TemporaryFile& ours,
                          const std::string& base) {
  return Exchanger(files, target, ours.path, ours.version, base, kAwaitTime).Run();
}

ExchangeResult PutBackIn(base::FileSystem& files, const std::string& target, const std::string& hand,
                         const Version& in_file, bool in_file_is_ours) {
  const std::string known = in_file_is_ours ? *in_file.bytes : "";
  return Exchanger(files, target, hand, in_file_is_ours ? in_file : Version(), known, std::chrono::milliseconds(0))
      .PutBack(ExchangeEnd::kEdited, in_file);
}

}  // namespace stepwatch::writeback
