#include "operations/daemon/replay_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <system_error>

#include "operations/incidents/observer.h"
#include "operations/trace/parse_line.h"
#include "operations/trace/write_line.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {
namespace {

// Bad lines beyond this number are counted, not named.
constexpr int64_t kNamedLinesMax = 100;

void Print(const std::vector<Incident>& changes, bool json) {
  for (const Incident& change : changes)
    base::Print(stdout, "%s\n", (json ? IncidentJson(change) : IncidentSentence(change)).c_str());
  if (!changes.empty()) std::fflush(stdout);
}

bool IsBlank(const std::string& text) {
  return text.find_first_not_of(" \t\r") == std::string::npos;
}

constexpr size_t kChunkBytes = 64 << 10;

// The lines of a file or of standard input, in bounded memory.
class LineSource {
 public:
  // Longer lines are returned as their first `line_bytes_max` + 1 bytes.
  LineSource(base::UniqueFd fd, size_t line_bytes_max);
  // "-" is standard input.
  static Result<LineSource> Open(const std::string& path, size_t line_bytes_max);

  // The next line, without its newline. False at the end, or on a read error, which `status` has.
  bool Next(std::string* line);
  const Status& status() const { return status_; }

 private:
  bool Fill();

  base::UniqueFd fd_;
  size_t line_bytes_max_;
  std::string buffer_;
  size_t at_ = 0;
  bool ended_ = false;
  Status status_;
};

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

}  // namespace

int RunReplay(const ReplayArguments& arguments) {
  Result<LineSource> source = LineSource::Open(arguments.file, kLineBytesMax);
  if (!source.ok()) {
    base::Print(stderr, "stepwatchd: %s\n", source.status().message().c_str());
    return 2;
  }
  Observer observer;
  std::string text;
  int64_t number = 0;
  int64_t bad = 0;
  while (source.value().Next(&text)) {
    ++number;
    if (IsBlank(text)) continue;
    const Result<Line> line = ParseLine(text);
    if (line.ok())
      Print(observer.Observe(line.value()), arguments.json);
    else if (++bad <= kNamedLinesMax)
      base::Print(stderr, "stepwatchd: line %" PRId64 ": %s; skipped\n", number, line.status().message().c_str());
  }
  if (!source.value().status().ok()) {
    base::Print(stderr, "stepwatchd: %s %s\n", arguments.file.c_str(), source.value().status().message().c_str());
    return 2;
  }
  Print(observer.AdvanceBy(arguments.tail_seconds), arguments.json);
  if (bad > 0) base::Print(stderr, "stepwatchd: %" PRId64 " of %" PRId64 " lines were invalid\n", bad, number);
  return 0;
}

}  // namespace stepwatch::operations
