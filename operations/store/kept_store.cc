#include "operations/store/kept_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <utility>

namespace stepwatch::operations {
namespace {

using Clock = std::chrono::steady_clock;

constexpr mode_t kOnlyOurs = 0700;
constexpr std::chrono::seconds kProofEvery{5};
// A store that cannot be begun again, for instance on a full disk, costs a complete read each time.
constexpr std::chrono::seconds kRenewEvery{5};
// A larger one is not read as a whole before it is used.
constexpr off_t kCheckedBytesMax = off_t{64} << 20;
constexpr std::array<const char*, 3> kEndings = {"", "-wal", "-shm"};
// The lock file: a number, blanks, kLack or a blank, and a newline.
constexpr size_t kNumberBytes = 32;
constexpr char kLack = '!';
// Limit of set-aside files; beyond it a new one replaces the newest, so that a disk that damages all writes is not
// filled with them.
constexpr int64_t kSetAsideMax = 32;

}  // namespace

KeptStore::KeptStore(StoreOptions options)
    : options_(std::move(options)), lock_path_(base::JoinPath(base::DirectoryOf(options_.path), "stepwatchd.lock")) {}

KeptStore::~KeptStore() {
  Close(store_ != nullptr && Look() != stamps_);
}

StoreReport KeptStore::TakeReport() {
  StoreReport report = std::move(report_);
  report_ = StoreReport();
  report_.set_aside = report.set_aside;
  report_.changes_lost = report.changes_lost;
  const Result<int64_t> bytes = store_ ? store_->Bytes() : Result<int64_t>(int64_t{0});
  report.bytes = bytes.ok() ? bytes.value() : 0;
  return report;
}

KeptStore::Stamps KeptStore::Look() const {
  Stamps stamps;
  for (size_t i = 0; i < kEndings.size(); ++i) {
    struct stat about {};
    if (files_.Lstat((options_.path + kEndings[i]).c_str(), &about) != 0) continue;
    const bool is_link = S_ISLNK(about.st_mode);
    if (is_link && files_.Stat((options_.path + kEndings[i]).c_str(), &about) != 0) continue;
    stamps[i] = {about.st_dev, about.st_ino, about.st_size, 0};
    // The index is shared memory, to which programs that only read the store write as well.
    if (i < 2) stamps[i].changed = about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
  }
  return stamps;
}

void KeptStore::Restamp() {
  const Stamps now = Look();
  for (size_t i = 0; i < now.size(); ++i)
    if (now[i].inode == stamps_[i].inode && now[i].device == stamps_[i].device) stamps_[i] = now[i];
}

// --- the directory ---

// Held as long as the descriptor is open: two daemons would report everything twice.
Status KeptStore::HoldDirectory() {
  struct stat held {
  }, there{};
  if (lock_.valid() && files_.Fstat(lock_.get(), &held) == 0 && files_.Lstat(lock_path_.c_str(), &there) == 0 &&
      held.st_ino == there.st_ino && held.st_dev == there.st_dev)
    return Status();
  const std::string directory = base::DirectoryOf(options_.path);
  if (Status made = base::MakeDirectories(base::DirectoryOf(directory)); !made.ok()) return made;
  if (files_.MakeDirectory(directory.c_str(), kOnlyOurs) != 0 && errno != EEXIST)
    return base::ErrnoStatus("cannot create the state directory", directory, errno);
  Result<base::UniqueFd> lock = base::Open(lock_path_, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (!lock.ok() && files_.Lstat(lock_path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    if (const Result<std::string> aside = SetAside(lock_path_); !aside.ok()) return aside.status();
    lock = base::Open(lock_path_, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  }
  if (!lock.ok()) return lock.status();
  report_.is_taken = files_.Lock(lock.value().get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (report_.is_taken)
    return Status(StatusCode::kUnavailable,
                  "another stepwatchd uses " + directory + "; stop it, or name another directory with --state");
  lock_ = std::move(lock).value();
  const Result<std::string> text = base::ReadAll(lock_.get(), kNumberBytes);
  int64_t number = 0;
  if (text.ok()) (void)std::from_chars(text.value().data(), text.value().data() + text.value().size(), number);
  if (number < 0 || number > kStoredNumberMax) number = 0;
  was_there_ = was_there_ || (text.ok() && !text.value().empty());
  if (!lacked_some_) {
    lacked_some_ = text.ok() && text.value().size() == kNumberBytes && text.value()[kNumberBytes - 2] == kLack;
    lacks_some_ = *lacked_some_;
  }
  NoteLastChange(std::max(number, last_change_));
  return Status();
}

// Kept outside the files of the store: a loss there can only be detected by data that is not lost with it.
void KeptStore::NoteLastChange(int64_t number) {
  last_change_ = number;
  std::string text = std::to_string(number);
  text.resize(kNumberBytes - 1, ' ');
  if (lacks_some_) text.back() = kLack;
  (void)files_.WriteAt(lock_.get(), (text + "\n").data(), kNumberBytes, 0);
}

// A file of constant size is written in place, which needs no room on a full disk.
void KeptStore::NoteLack(bool lacks_some) {
  if (std::exchange(lacks_some_, lacks_some) != lacks_some && lock_.valid()) NoteLastChange(last_change_);
}

// --- opening ---

Status KeptStore::EnsureOpen() {
  if (Status held = HoldDirectory(); !held.ok()) {
    if (store_ && Look() != stamps_) Close(/*abandons_files=*/true);
    return held;
  }
  if (!store_) return Open();
  const Stamps now = Look();
  if (now == stamps_) return Status();
  for (size_t i = 0; i < now.size(); ++i)
    if (now[i].inode != stamps_[i].inode || now[i].device != stamps_[i].device)
      return Renew(options_.path + kEndings[i] + (now[i].inode == 0 ? " was removed" : " was replaced") +
                   " while stepwatchd had it open");
  if (Status status = store_->Check(); !status.ok())
    return status.code() == StatusCode::kInvalid ? Renew(options_.path + ": " + status.message()) : status;
  // Another program has written to it, and may have removed data.
  Close(/*abandons_files=*/false);
  report_.is_renewed = true;
  return Open();
}

std::string KeptStore::FaultOfFiles() {
  struct stat about {};
  const auto size_of_log = [&] {
    struct stat log {};
    return files_.Lstat((options_.path + "-wal").c_str(), &log) == 0 && S_ISREG(log.st_mode) ? log.st_size : off_t{0};
  };
  const std::string& path = options_.path;
  if (files_.Stat(path.c_str(), &about) != 0) {
    if (files_.Lstat(path.c_str(), &about) == 0) return path + " is a dangling symbolic link";
    if (size_of_log() > 0) return path + " is missing, but its log exists";
    if (was_there_)
      report_.notes.push_back(path +
                              " is missing, although a stepwatchd had its store there: the stored data is "
                              "lost, and a new store is created");
    return "";
  }
  if (!S_ISREG(about.st_mode)) return path + " is not a regular file";
  if (about.st_size == 0 && (was_there_ || size_of_log() > 0)) return path + " is empty";
  if (files_.Access(path.c_str(), R_OK | W_OK) != 0 && (errno == EACCES || errno == EPERM))
    return path + " is not readable and writable for the user that runs stepwatchd";
  for (size_t i = 1; i < kEndings.size(); ++i)
    if (files_.Lstat((path + kEndings[i]).c_str(), &about) == 0 && !S_ISREG(about.st_mode))
      return path + kEndings[i] + " is not a regular file";
  return "";
}

Status KeptStore::Open() {
  const std::string fresh = options_.path + ".new";
  // A renewal was cut short between its two renames.
  if (struct stat about{}; files_.Lstat(options_.path.c_str(), &about) != 0 && errno == ENOENT)
    (void)files_.Rename(fresh.c_str(), options_.path.c_str());
  const std::string fault = FaultOfFiles();
  Status status = fault.empty() ? OpenFile() : Renew(fault);
  if (status.code() == StatusCode::kInvalid || status.code() == StatusCode::kUnsupported)
    status = Renew(status.message());
  if (status.ok()) status = Restore();
  if (status.ok()) status = Prove();
  stamps_ = Look();
  if (!status.ok()) Close(/*abandons_files=*/false);
  return status;
}

Status KeptStore::OpenFile() {
  Result<std::unique_ptr<Store>> opened = Store::Open(options_);
  if (!opened.ok()) return opened.status();
  store_ = std::move(opened).value();
  struct stat about {};
  if (files_.Stat(options_.path.c_str(), &about) == 0 && about.st_size <= kCheckedBytesMax) return store_->Check();
  return Status();
}

Status KeptStore::Restore() {
  Result<Restored> loaded = store_->Load();
  if (loaded.ok() && !loaded.value().unreadable.empty()) {
    report_.notes.push_back(std::to_string(loaded.value().unreadable.size()) + " rows of " + options_.path +
                            " about incidents are damaged and lost");
    Status status = report_.is_renewed ? Status() : Renew("rows of " + options_.path + " are damaged");
    if (!status.ok()) return status;
    if (status = store_->Delete(loaded.value().unreadable); !status.ok()) return status;
    loaded = store_->Load();
  }
  if (!loaded.ok()) return loaded.status();
  const Result<int64_t> last = store_->LastChange();
  if (!last.ok()) return last.status();
  if (last.value() < last_change_) {
    report_.changes_lost += last_change_ - last.value();
    report_.is_renewed = true;
    report_.notes.push_back("changes of incidents were stored up to number " + std::to_string(last_change_) +
                            ", but the store ends with number " + std::to_string(last.value()) +
                            ": the changes between are lost, unless stepwatchd still has them");
  }
  loaded.value().number_last = std::max(loaded.value().number_last, last_change_);
  loaded.value().lacks_some = lacked_some_.value_or(false);
  NoteLastChange(last.value());
  if (!std::exchange(is_restored_, true)) report_.restored = std::move(loaded).value();
  return Status();
}

Status KeptStore::Prove() {
  if (Status status = store_->Prove(); !status.ok()) return status;
  proves_at_ = Clock::now() + kProofEvery;
  Restamp();
  return Status();
}

// --- beginning again ---

// At each moment either the old files are in place, or the new one is complete: a kill loses no data.
Status KeptStore::Renew(const std::string& why) {
  if (Clock::now() < renews_at_) return Status(StatusCode::kUnavailable, why + "; retried in a few seconds");
  renews_at_ = Clock::now() + kRenewEvery;
  const std::string fresh = options_.path + ".new";
  for (const char* ending : kEndings) base::RemoveTree(fresh + ending);
  Result<std::unique_ptr<Store>> made = Store::Open({fresh, options_.vfs});
  if (!made.ok()) return made.status();
  struct stat about {};
  const bool is_file = files_.Stat(options_.path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
  if (store_ || is_file) {
    Result<database::Database> raw = store_ || !is_file ? Result<database::Database>(Status(StatusCode::kNotFound, ""))
                                                        : database::Database::Open(options_.path, options_.vfs);
    database::Database* old = store_ ? store_->database() : raw.ok() ? &raw.value() : nullptr;
    if (old != nullptr) {
      old->AbandonFiles();
      if (Status status = made.value()->TakeOver(old); !status.ok()) return status;
    }
  }
  made.value().reset();
  Close(/*abandons_files=*/true);
  const Result<std::string> aside = SetAside(options_.path);
  if (!aside.ok()) return aside.status();
  if (files_.Rename(fresh.c_str(), options_.path.c_str()) != 0) return base::ErrnoStatus("cannot rename", fresh, errno);
  ++report_.set_aside;
  report_.is_renewed = true;
  report_.notes.push_back(why + "; " + (aside.value().empty() ? "" : "it is kept as " + aside.value() + ", and ") +
                          "a new store is created with the rows that can be read; the other rows are lost");
  Result<std::unique_ptr<Store>> opened = Store::Open(options_);
  if (!opened.ok()) return Status(StatusCode::kUnavailable, opened.status().message());
  store_ = std::move(opened).value();
  renews_at_ = {};
  Status status = Prove();
  stamps_ = Look();
  return status;
}

// The database with its log and index, or another file. Empty: there were no files.
Result<std::string> KeptStore::SetAside(const std::string& path) {
  struct stat about {};
  const auto is_there = [&](const std::string& name) {
    for (const char* ending : kEndings)
      if (files_.Lstat((name + ending).c_str(), &about) == 0) return true;
    return false;
  };
  if (!is_there(path)) return std::string();
  int64_t number = 1;
  while (number < kSetAsideMax && is_there(path + ".damaged-" + std::to_string(number))) ++number;
  const std::string aside = path + ".damaged-" + std::to_string(number);
  for (const char* ending : kEndings) (void)files_.Unlink((aside + ending).c_str());
  for (const char* ending : kEndings)
    if (files_.Rename((path + ending).c_str(), (aside + ending).c_str()) != 0 && errno != ENOENT)
      return base::ErrnoStatus("cannot set aside", path + ending, errno);
  return aside;
}

void KeptStore::Close(bool abandons_files) {
  if (store_ && abandons_files) store_->database()->AbandonFiles();
  store_.reset();
}

// --- use ---

Status KeptStore::WriteOnce(const Batch& batch) {
  if (Status status = EnsureOpen(); !status.ok()) return status;
  Status status = store_->Write(batch);
  Restamp();
  if (!status.ok()) return status;
  if (!batch.changes.empty()) NoteLastChange(std::max(last_change_, batch.changes.back().number));
  return Clock::now() < proves_at_ ? Status() : Prove();
}

Status KeptStore::Write(const Batch& batch) {
  Status status = WriteOnce(batch);
  const bool is_damage = status.code() == StatusCode::kInvalid && store_;
  if (is_damage) status = Renew(options_.path + ": " + status.message());
  if (is_damage && status.ok()) status = WriteOnce(batch);
  // Until a write succeeds again each of them is read back.
  if (!status.ok()) proves_at_ = {};
  // An empty batch says nothing of the data that waits.
  if (!status.ok() || !batch.empty()) NoteLack(!status.ok());
  return status;
}

Result<bool> KeptStore::Prune(const StoreLimits& limits, double t, std::chrono::milliseconds at_most) {
  if (Status status = EnsureOpen(); !status.ok()) return status;
  Result<bool> pruned = store_->Prune(limits, t, at_most);
  Restamp();
  if (!pruned.ok() && pruned.status().code() == StatusCode::kInvalid) {
    if (Status status = Renew(options_.path + ": " + pruned.status().message()); !status.ok()) return status;
    return true;
  }
  // The last change itself may have been old enough to be removed.
  if (const Result<int64_t> last = store_->LastChange(); last.ok()) NoteLastChange(last.value());
  return pruned;
}

}  // namespace stepwatch::operations
