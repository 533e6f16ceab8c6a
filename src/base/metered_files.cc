#include "src/base/metered_files.h"

#include <algorithm>
#include <cerrno>
#include <optional>

namespace stepwatch::base {
namespace {

constexpr double kNearPart = 0.9;
// Steps whose rows may be in flight when the limit counts as used up: one being written, one being measured, and those
// until the step thread sees the stop.
constexpr uint64_t kStepsUnderWay = 4;

// The attributes of a file if `path` is its last name.
std::optional<struct stat> LastName(FileSystem& files, const char* path) {
  struct stat about = {};
  if (files.Lstat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_nlink != 1) return std::nullopt;
  return about;
}

}  // namespace

void DiskMeter::CountStep(uint64_t bytes) {
  if (bytes > largest_step_) largest_step_ = bytes;
  Judge();
}

bool DiskMeter::Reserve(uint64_t bytes, bool is_limited) {
  const uint64_t before = used_.fetch_add(bytes);
  if (!is_limited && bytes > largest_note_) largest_note_ = bytes;
  if (!is_limited || (before <= bytes_max_ && bytes <= bytes_max_ - before)) return true;
  used_.fetch_sub(bytes);
  has_refused_ = true;
  Judge();
  return false;
}

void DiskMeter::Wrote(const Inode& inode, uint64_t reserved, uint64_t written) {
  used_.fetch_sub(reserved - written);
  if (written > 0) {
    const MutexLock lock(&mutex_);
    bytes_of_[inode] += written;
  }
  Judge();
}

// Bytes that were in the file before this run wrote to it do not count.
void DiskMeter::GiveBack(const Inode& inode, uint64_t bytes) {
  const MutexLock lock(&mutex_);
  const auto entry = bytes_of_.find(inode);
  if (entry == bytes_of_.end()) return;
  const uint64_t back = std::min(bytes, entry->second);
  entry->second -= back;
  if (entry->second == 0) bytes_of_.erase(entry);
  used_.fetch_sub(back);
}

void DiskMeter::Judge() {
  const uint64_t bytes = used();
  const uint64_t left = bytes < bytes_max_ ? bytes_max_ - bytes : 0;
  Level level = level_;
  const uint64_t step = largest_step_ == 0 ? 0 : largest_step_ + largest_note_;
  const bool is_near = static_cast<double>(bytes) >= kNearPart * static_cast<double>(bytes_max_);
  if (is_near || left / (2 * kStepsUnderWay) < step) level = std::max(level, Level::kNear);
  if (has_refused_ || left / kStepsUnderWay < step) level = Level::kUsedUp;
  Level known = level_;
  while (known < level && !level_.compare_exchange_weak(known, level)) {
  }
  if (reported_level_ >= level) return;
  if (!on_level_ || on_level_()) reported_level_ = level;
}

ssize_t MeteredFiles::Write(int fd, const void* bytes, size_t count) {
  if (!meter_->Reserve(count, is_limited_)) return errno = EDQUOT, -1;
  struct stat about = {};
  const ssize_t put = Fstat(fd, &about) == 0 ? FileSystemWrapper::Write(fd, bytes, count) : -1;
  const int error_number = errno;
  meter_->Wrote({about.st_dev, about.st_ino}, count, put > 0 ? static_cast<uint64_t>(put) : 0);
  errno = error_number;
  return put;
}

int MeteredFiles::Truncate(int fd, off_t size) {
  struct stat about = {};
  const bool is_known = Fstat(fd, &about) == 0 && about.st_size > size;
  const int done = FileSystemWrapper::Truncate(fd, size);
  if (done == 0 && is_known)
    meter_->GiveBack({about.st_dev, about.st_ino}, static_cast<uint64_t>(about.st_size - size));
  return done;
}

int MeteredFiles::Rename(const char* from, const char* to) {
  const auto replaced = LastName(*this, to);
  const int done = FileSystemWrapper::Rename(from, to);
  const int error_number = errno;
  if (done == 0 && replaced)
    meter_->GiveBack({replaced->st_dev, replaced->st_ino}, static_cast<uint64_t>(replaced->st_size));
  errno = error_number;
  return done;
}

int MeteredFiles::Unlink(const char* path) {
  const auto removed = LastName(*this, path);
  const int done = FileSystemWrapper::Unlink(path);
  const int error_number = errno;
  if (done == 0 && removed)
    meter_->GiveBack({removed->st_dev, removed->st_ino}, static_cast<uint64_t>(removed->st_size));
  errno = error_number;
  return done;
}

}  // namespace stepwatch::base
