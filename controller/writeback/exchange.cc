#include "controller/writeback/exchange.h"

#include <fcntl.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "controller/writeback/leased_file.h"

namespace stepwatch::writeback {
namespace {

using End = ExchangeResult::End;

constexpr int kRoundsMax = 1000;   // more saves than anybody makes while we look
constexpr int kExchangeTries = 3;  // of a call that worked a moment ago

class Exchanger {
 public:
  Exchanger(const FileCalls& calls, const std::string& target, const TemporaryFile& ours, const std::string& base)
      : calls_(calls), target_(target), hand_(ours.path), ours_(ours.version), base_(base) {}

  ExchangeResult Run() {
    result_.error = calls_.Exchange(hand_, target_);
    if (result_.error != 0) return result_;
    if (Inspect(calls_, hand_).bytes == base_) {
      const Quiet quiet = Drop(base_);
      if (quiet == Quiet::kQuiet) return Ended(End::kReplaced);
      if (quiet == Quiet::kHeld) return PutBack(End::kHeld);
    }
    return PutBack(End::kEdited);
  }

 private:
  ExchangeResult Ended(End end) {
    result_.end = end;
    return result_;
  }

  // Rules 1 and 2. `end`: what to answer if nobody saves meanwhile.
  ExchangeResult PutBack(End end) {
    Version in_file = ours_;
    for (int round = 0; round < kRoundsMax; ++round) {
      Version in_hand = Inspect(calls_, hand_);
      const Swap swap = SwapQuietHandIn(&in_hand, in_file);
      if (swap == Swap::kHandIsEmpty) return Ended(end);
      if (swap == Swap::kFailed) break;
      const Version displaced = Inspect(calls_, hand_);
      // It may be what we put there, but cannot be read: whether somebody wrote into it remains unknown.
      const bool is_doubtful = !displaced.bytes && (displaced.inode == in_file.inode || displaced.inode == 0);
      if (is_doubtful) break;
      if (displaced == in_file && DropOrKeep(displaced)) return Ended(end);
      in_file = in_hand;
      end = End::kEdited;
    }
    KeepHand();
    return Ended(End::kEdited);
  }

  enum class Swap { kDone, kHandIsEmpty, kFailed };

  // A save that is still being written into the file in hand ends first, and nobody begins another before the swap:
  // whatever is written to it from then on, is newer than the swap. `in_hand` gets its last bytes.
  Swap SwapQuietHandIn(Version* in_hand, const Version& in_file) {
    base::UniqueFd fd;
    if (!in_hand->bytes || calls_.Open(hand_, O_RDONLY, &fd) != 0) return SwapHandIn(in_file);
    LeasedFile file(calls_, std::move(fd), F_RDLCK);
    if (std::optional<std::string> bytes = file.AwaitBytes()) in_hand->bytes = std::move(bytes);
    return SwapHandIn(in_file);
  }

  Swap SwapHandIn(const Version& in_file) {
    for (int i = 0; i < kExchangeTries; ++i) {
      const int error = calls_.Exchange(hand_, target_);
      if (error == 0) return Swap::kDone;
      if (error == ENOENT && calls_.RenameToFreeName(hand_, target_) == 0) return Swap::kHandIsEmpty;
    }
    // No exchange any more. What we put there may be overwritten, if it is still that.
    const bool is_ours = in_file == ours_ && Inspect(calls_, target_) == ours_;
    return is_ours && calls_.Rename(hand_, target_) == 0 ? Swap::kHandIsEmpty : Swap::kFailed;
  }

  // False: the file in hand was written to meanwhile and must go back.
  bool DropOrKeep(const Version& version) {
    const bool is_known = version.bytes && (version.bytes == ours_.bytes || *version.bytes == base_);
    const Quiet quiet = is_known ? Drop(*version.bytes) : Quiet::kHeld;
    if (quiet == Quiet::kHeld) KeepHand();
    return quiet != Quiet::kChanged;
  }

  // Rule 3. kQuiet: the name is gone. Otherwise the hand holds a file that must not be lost.
  Quiet Drop(const std::string& expected) {
    base::UniqueFd fd;
    if (calls_.Open(hand_, O_RDONLY, &fd) != 0 && calls_.Open(hand_, O_RDONLY, &fd) != 0) return Quiet::kChanged;
    LeasedFile file(calls_, std::move(fd), F_RDLCK);
    const Quiet quiet = file.Await(expected);
    if (quiet != Quiet::kQuiet) return quiet;
    RemoveOurs(calls_, hand_);
    return Rescue(file, expected) ? Quiet::kChanged : Quiet::kQuiet;
  }

  // Somebody who looked the name up before we exchanged it may open the removed file late. Their save is then in a file
  // without a name, and gets one again: true.
  bool Rescue(LeasedFile& removed, const std::string& expected) {
    if (!removed.IsWantedByOthers()) return false;
    removed.Release();
    const std::optional<std::string> bytes = removed.AwaitBytes();
    if (!bytes || *bytes == expected) return false;
    const TemporaryFile rescued = WriteBeside(calls_, target_, removed.fd(), *bytes);
    if (rescued.error != 0) return false;
    hand_ = rescued.path;
    return true;
  }

  void KeepHand() { result_.kept_as = KeepAsConflict(calls_, target_, hand_); }

  const FileCalls& calls_;
  const std::string& target_;
  std::string hand_;  // the name beside the config that holds what we took out
  const Version ours_;
  const std::string& base_;
  ExchangeResult result_;
};

}  // namespace

ExchangeResult ExchangeIn(const FileCalls& calls, const std::string& target, const TemporaryFile& ours,
                          const std::string& base) {
  return Exchanger(calls, target, ours, base).Run();
}

}  // namespace stepwatch::writeback
