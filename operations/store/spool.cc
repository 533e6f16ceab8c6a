#include "operations/store/spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "src/base/file.h"
#include "src/base/found_file.h"

namespace stepwatch::operations {
namespace {

constexpr std::string_view kEnding = ".jsonl";
// Numbers with the same count of digits sort like text.
constexpr size_t kDigits = 12;
constexpr size_t kReadBytesMax = size_t{64} << 20;

}  // namespace

std::string_view FirstLines(std::string_view lines, size_t bytes_max) {
  if (lines.size() <= bytes_max) return lines;
  size_t end = bytes_max == 0 ? std::string_view::npos : lines.rfind('\n', bytes_max - 1);
  if (end == std::string_view::npos) end = lines.find('\n', bytes_max);
  return lines.substr(0, end == std::string_view::npos ? end : end + 1);
}

std::string Spool::PathOf(int64_t number) const {
  const std::string digits = std::to_string(number);
  const std::string zeros(digits.size() < kDigits ? kDigits - digits.size() : 0, '0');
  return base::JoinPath(directory_, zeros + digits + std::string(kEnding));
}

Status Spool::Open() {
  if (files_.MakeDirectory(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    return base::ErrnoStatus("cannot create", directory_, errno);
  const Result<std::vector<std::string>> names = base::ListDirectory(directory_, files_);
  if (!names.ok()) return names.status();
  for (const std::string& name : names.value()) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    struct stat about {};
    if (error != std::errc() || std::string_view(end) != kEnding) continue;
    number_last_ = number;
    const bool is_ours =
        files_.Lstat(PathOf(number).c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == ::geteuid();
    if (!is_ours) continue;
    entries_.push_back({number, about.st_size});
    bytes_ += about.st_size;
  }
  return Status();
}

Status Spool::Append(std::string_view lines) {
  if (lines.empty()) return Status();
  const bool goes_on = is_last_ours_ && !entries_.empty() && entries_.back().bytes < kFileBytesMax;
  const int64_t number = goes_on ? entries_.back().number : number_last_ + 1;
  const Result<base::UniqueFd> file =
      base::OpenFound(PathOf(number), O_WRONLY | O_CREAT | (goes_on ? O_APPEND : O_TRUNC), ::geteuid(), files_, 0600);
  if (!file.ok()) return file.status();
  const int64_t before = goes_on ? entries_.back().bytes : 0;
  if (Status written = base::WriteAll(file.value().get(), lines, files_); !written.ok()) {
    // A half-written file is removed.
    (void)files_.Truncate(file.value().get(), before);
    if (!goes_on) (void)files_.Unlink(PathOf(number).c_str());
    return written;
  }
  if (!goes_on) entries_.push_back({number, 0});
  number_last_ = number;
  is_last_ours_ = true;
  entries_.back().bytes += static_cast<int64_t>(lines.size());
  bytes_ += static_cast<int64_t>(lines.size());
  while (bytes_ > bytes_max_ && entries_.size() > 1) {
    bytes_dropped_ += entries_.front().bytes;
    RemoveOldest();
  }
  return Status();
}

Result<std::string> Spool::Oldest() const {
  return base::ReadFound(PathOf(entries_.front().number), kReadBytesMax, ::geteuid(), files_);
}

void Spool::RemoveOldest() {
  (void)files_.Unlink(PathOf(entries_.front().number).c_str());
  bytes_ -= entries_.front().bytes;
  entries_.pop_front();
}

}  // namespace stepwatch::operations
