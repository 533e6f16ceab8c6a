#include "controller/writeback/displaced_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "controller/writeback/edit_turn.h"
#include "controller/writeback/exchange.h"
#include "controller/writeback/leased_file.h"
#include "controller/writeback/temporary_file.h"
#include "src/base/file.h"
#include "src/base/text.h"

namespace stepwatch::writeback {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookInterval{50};
// Waits this long for a save in progress to end, so that the config receives a whole text.
constexpr milliseconds kWriterPatience{200};

}  // namespace

DisplacedFile::Finding DisplacedFile::Look(Clock::time_point now, const std::set<std::string>& ours) {
  return Look(now, ours, Last::kNo);
}

// The edit put in by one pass displaces another file, which the next pass removes.
DisplacedFile::Finding DisplacedFile::LastLook(Clock::time_point now, const std::set<std::string>& ours) {
  constexpr int kPassesMax = 3;
  Finding reported, finding;
  for (int pass = 0; pass < kPassesMax; ++pass) {
    finding = Look(now, ours, Last::kYes);
    if (finding.kind != Finding::Kind::kNothing) reported = finding;
    if (!finding.look_at) break;
  }
  reported.look_at.reset();
  return reported;
}

DisplacedFile::Finding DisplacedFile::Look(Clock::time_point now, const std::set<std::string>& ours, Last last) {
  if (!ends_at_) ends_at_ = now + kDisplacedGrace;
  std::string bytes;
  if (const int error = ReadWhole(files_, fd_.get(), &bytes)) return RetryOrReport(now, last, "cannot be read", error);
  if (TextId(bytes) == text_) {
    edited_at_.reset();
    if (last == Last::kYes || now >= *ends_at_) return Remove(now, last);
    if (HasWriter()) ends_at_ = now + kDisplacedGrace;
    return LookAgain(now);
  }
  if (!edited_at_) edited_at_ = now;
  // Without a name only a copy can be put in, and writes after the copying are lost.
  const milliseconds patience = IsAt(path_) ? kWriterPatience : kDisplacedGrace;
  const bool may_wait = last == Last::kNo && now < *edited_at_ + patience;
  return may_wait && HasWriter() ? LookAgain(now) : PutIn(bytes, now, ours, last);
}

DisplacedFile::Finding DisplacedFile::LookAgain(Clock::time_point now, Finding finding) {
  finding.look_at = now + kLookInterval;
  return finding;
}

// False also where leases are not supported: writers are unknown there.
bool DisplacedFile::HasWriter() const {
  return ScopedLease(files_, fd_.get(), F_RDLCK).is_busy();
}

bool DisplacedFile::MayBeWrittenTo() const {
  return !ScopedLease(files_, fd_.get(), F_RDLCK).is_granted();
}

int DisplacedFile::Locate(const std::string& path, bool* is_there) const {
  struct stat named = {}, held = {};
  *is_there = false;
  const int error = path.empty() ? ENOENT : StatusOfName(files_, path, &named);
  if (error == ENOENT || error == ENOTDIR) return 0;
  if (error != 0) return error;
  if (const int held_error = StatusOf(files_, fd_.get(), &held)) return held_error;
  *is_there = named.st_dev == held.st_dev && named.st_ino == held.st_ino;
  return 0;
}

bool DisplacedFile::IsAt(const std::string& path) const {
  bool is_there = false;
  return Locate(path, &is_there) == 0 && is_there;
}

bool DisplacedFile::IsSameAs(const DisplacedFile& other) const {
  return IsAt(other.path_);
}

// Compares ctime, which users cannot set and rename updates. If both are the same, the file that has the name is the
// newer one.
bool DisplacedFile::IsNewerThanTarget() const {
  struct stat named = {}, held = {};
  if (StatusOfName(files_, target_, &named) != 0 || StatusOf(files_, fd_.get(), &held) != 0) return false;
  return std::pair(held.st_ctim.tv_sec, held.st_ctim.tv_nsec) > std::pair(named.st_ctim.tv_sec, named.st_ctim.tv_nsec);
}

DisplacedFile::Finding DisplacedFile::PutIn(const std::string& bytes, Clock::time_point now,
                                            const std::set<std::string>& ours, Last last) {
  const EditTurn turn(files_, base::DirectoryOf(target_));
  // Another process, or a look that an exception cut short, has already put it in.
  if (IsAt(target_)) return AfterPuttingIn(TakeHandAgain(ours), now);
  const Version target = Inspect(files_, target_);
  const bool is_missing = target.inode == 0;
  const bool is_ours = target.bytes && ours.count(TextId(*target.bytes)) > 0;
  const bool is_newest = is_missing || is_ours || (target.bytes && IsNewerThanTarget());
  const bool is_copy = !IsAt(path_);
  if (is_copy) {
    if (const int error = NameCopy(bytes))
      return RetryOrReport(now, last, "holds an edit that cannot be put back", error);
  }
  if (is_newest && is_copy) {
    // From here on, its name lets the next process recognise it if this one is killed.
    (void)NameDisplaced(files_, target_, {text_, is_ours ? TextId(*target.bytes) : text_}, &path_);
  }
  if (is_newest) return AfterPuttingIn(PutBackIn(files_, target_, path_, target, is_ours), now);
  ExchangeResult kept;
  kept.kept_as = KeepAsConflict(files_, target_, path_);
  return AfterPuttingIn(std::move(kept), now);
}

int DisplacedFile::NameCopy(const std::string& bytes) {
  TemporaryFile copy = WriteBeside(files_, target_, fd_.get(), bytes, TextOf::kPeople);
  if (copy.error != 0) return copy.error;
  base::UniqueFd fd;
  const int error = OpenFile(files_, copy.path, O_RDONLY, &fd);
  if (error != 0) {
    RemoveOurs(files_, copy.path);
    return error;
  }
  path_ = copy.path;
  fd_ = std::move(fd);
  return 0;
}

// The edit is already in the config's place; the file under our name is the one it displaced.
ExchangeResult DisplacedFile::TakeHandAgain(const std::set<std::string>& ours) {
  ExchangeResult result;
  KeptFile hand{path_, {}, ""};
  if (path_.empty() || OpenFile(files_, path_, O_RDONLY, &hand.fd) != 0) return result;
  if (ReadWhole(files_, hand.fd.get(), &hand.bytes) == 0 && ours.count(TextId(hand.bytes)) > 0)
    result.displaced = std::move(hand);
  else
    result.kept_as = KeepAsConflict(files_, target_, path_);
  return result;
}

DisplacedFile::Finding DisplacedFile::AfterPuttingIn(ExchangeResult result, Clock::time_point now) {
  Finding finding;
  const std::string what = "an edit that was written to the file that had just been replaced ";
  const bool is_in_place = result.kept_as.empty() || IsAt(target_);
  finding.kind = is_in_place ? Finding::Kind::kPutBack : Finding::Kind::kKept;
  if (!is_in_place) {
    finding.message = what + "is kept as " + base::Printable(result.kept_as, 200) + ": the config was edited since";
  } else {
    finding.message = what + "is in the config now";
    if (!result.kept_as.empty())
      finding.message += "; the file that it replaced is kept as " + base::Printable(result.kept_as, 200);
  }
  if (!result.displaced) return finding;
  path_ = std::move(result.displaced->path);
  fd_ = std::move(result.displaced->fd);
  text_ = TextId(result.displaced->bytes);
  ends_at_ = now + kDisplacedGrace;
  edited_at_.reset();
  return LookAgain(now, std::move(finding));
}

DisplacedFile::Finding DisplacedFile::Remove(Clock::time_point now, Last last) {
  const ScopedLease lease(files_, fd_.get(), F_RDLCK);
  if (lease.is_busy() || lease.is_wanted()) {
    if (last == Last::kYes) return {};
    ends_at_ = now + kDisplacedGrace;
    return LookAgain(now);
  }
  std::string bytes;
  if (ReadWhole(files_, fd_.get(), &bytes) != 0 || TextId(bytes) != text_) return LookAgain(now);
  bool is_there = false;
  int error = Locate(path_, &is_there);
  if (error == 0 && is_there) error = RemoveOurs(files_, path_);
  if (error != 0) return RetryOrReport(now, last, "cannot be removed", error);
  path_.clear();
  if (!lease.is_wanted()) return {};
  ends_at_ = now + kDisplacedGrace;
  return LookAgain(now);
}

DisplacedFile::Finding DisplacedFile::RetryOrReport(Clock::time_point now, Last last, const std::string& what,
                                                    int error) const {
  if (last == Last::kNo && now < *ends_at_ + kDisplacedGrace) return LookAgain(now);
  Finding finding;
  finding.kind = Finding::Kind::kStuck;
  const std::string name = path_.empty() ? "the file that was replaced" : base::Printable(path_, 200);
  finding.message = name + " " + what + ": " + std::generic_category().message(error);
  return finding;
}

void DisplacedFiles::Add(DisplacedFile file) {
  files_.push_back({std::move(file), Clock::time_point::min()});
}

void DisplacedFiles::Add(DisplacedFiles files) {
  for (Entry& found : files.files_)
    if (std::none_of(files_.begin(), files_.end(), [&](const Entry& own) { return own.file.IsSameAs(found.file); }))
      files_.push_back(std::move(found));
  ours_.merge(files.ours_);
}

void DisplacedFiles::AddOurs(const std::string& sha256) {
  ours_.insert(sha256.substr(0, kTextIdSize));
}

template <class LookAt>
std::vector<DisplacedFiles::Finding> DisplacedFiles::LookAtEach(LookAt look) {
  std::vector<Finding> findings;
  for (Entry& entry : files_) {
    Finding finding = look(entry.file);
    entry.look_at = finding.look_at;
    if (finding.kind != Finding::Kind::kNothing) findings.push_back(std::move(finding));
  }
  std::erase_if(files_, [](const Entry& entry) { return !entry.look_at; });
  return findings;
}

std::vector<DisplacedFiles::Finding> DisplacedFiles::Look(Clock::time_point now) {
  return LookAtEach([&](DisplacedFile& file) { return file.Look(now, ours_); });
}

std::vector<DisplacedFiles::Finding> DisplacedFiles::LastLook(Clock::time_point now) {
  return LookAtEach([&](DisplacedFile& file) { return file.LastLook(now, ours_); });
}

bool DisplacedFiles::MayBeWrittenTo() const {
  return std::any_of(files_.begin(), files_.end(), [](const Entry& entry) { return entry.file.MayBeWrittenTo(); });
}

std::optional<DisplacedFiles::Clock::time_point> DisplacedFiles::look_at() const {
  std::optional<Clock::time_point> next;
  for (const Entry& entry : files_) {
    if (entry.look_at) next = next ? std::min(*next, *entry.look_at) : *entry.look_at;
  }
  return next;
}

DisplacedFiles FindDisplaced(const std::string& path, base::FileSystem& files, std::chrono::milliseconds older_than) {
  DisplacedFiles found;
  std::string target;
  struct stat config = {};
  if (ErrnoOf([&] { return files.RealPath(path.c_str(), &target); }) != 0) return found;
  if (StatusOfName(files, target, &config) != 0) return found;
  const Result<std::vector<std::string>> names = base::ListDirectory(base::DirectoryOf(target), files);
  if (!names.ok()) return found;
  for (const std::string& name : names.value()) {
    const std::optional<DisplacedName> texts = ParseDisplacedName(target, name);
    if (!texts) continue;
    const std::string file = base::JoinPath(base::DirectoryOf(target), name);
    base::UniqueFd fd;
    struct stat status = {};
    std::string bytes;
    if (OpenFile(files, file, O_RDONLY, &fd) != 0 || StatusOf(files, fd.get(), &status) != 0) continue;
    if (!IsOlderThan(status, older_than)) continue;
    if (status.st_dev == config.st_dev && status.st_ino == config.st_ino) {
      RemoveOurs(files, file);  // a second name of the config, made just before it would have been replaced
      continue;
    }
    if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || status.st_uid != config.st_uid) continue;
    if (ReadWhole(files, fd.get(), &bytes) != 0) continue;
    // If the process was killed before the exchange, the file holds our text; afterwards the user's, or an edit.
    const bool is_ours = TextId(bytes) == texts->ours;
    found.AddOurs(texts->ours);
    found.Add(DisplacedFile(files, target, file, std::move(fd), is_ours ? texts->ours : texts->base));
  }
  return found;
}

}  // namespace stepwatch::writeback
