#include "operations/daemon/line_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace stepwatch::operations {
namespace {

constexpr size_t kChunkBytes = 64 << 10;

}  // namespace

LineSource::LineSource(base::UniqueFd fd, size_t line_bytes_max)
    : fd_(std::move(fd)), line_bytes_max_(line_bytes_max) {}

Result<LineSource> LineSource::Open(const std::string& path, size_t line_bytes_max) {
  if (path == "-") {
    const int copy = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return base::ErrnoStatus("cannot read", "standard input", errno);
    return LineSource(base::UniqueFd(copy), line_bytes_max);
  }
  Result<base::UniqueFd> fd = base::Open(path, O_RDONLY);
  if (!fd.ok()) return fd.status();
  return LineSource(std::move(fd).value(), line_bytes_max);
}

bool LineSource::Fill() {
  buffer_.resize(kChunkBytes);
  at_ = 0;
  const ssize_t got = base::RepeatInterrupted([&] { return ::read(fd_.get(), buffer_.data(), buffer_.size()); });
  if (got < 0)
    status_ = Status(StatusCode::kUnavailable, "cannot be read further: " + std::generic_category().message(errno));
  buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
  ended_ = got <= 0;
  return !ended_;
}

bool LineSource::Next(std::string* line) {
  line->clear();
  bool begun = false;
  while (at_ < buffer_.size() || (!ended_ && Fill())) {
    begun = true;
    const size_t newline = buffer_.find('\n', at_);
    const size_t end = newline == std::string::npos ? buffer_.size() : newline;
    const size_t room = line_bytes_max_ + 1 - line->size();
    line->append(buffer_, at_, std::min(room, end - at_));
    at_ = newline == std::string::npos ? end : newline + 1;
    if (newline != std::string::npos) return true;
  }
  return begun;
}

}  // namespace stepwatch::operations
