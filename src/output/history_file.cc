#include "src/output/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "src/base/file.h"
#include "src/base/found_file.h"
#include "src/base/sha256.h"
#include "src/config/parse_config.h"

namespace stepwatch::output {
namespace {

constexpr char kHistory[] = "stepwatch_history.jsonl";
constexpr char kConfigs[] = "stepwatch_configs";
// Only the end of a longer history is read.
constexpr off_t kHistoryBytesMax = off_t{1} << 30;
constexpr size_t kHistoryLineBytesMax = size_t{256} << 10;
constexpr size_t kOwnBytesMax = size_t{4} << 20;

std::string KeptPath(const std::string& directory, const std::string& sha256) {
  return base::JoinPath(base::JoinPath(directory, kConfigs), sha256 + ".json");
}

Status SyncFile(const std::string& path, base::FileSystem& files) {
  Result<base::UniqueFd> fd = base::OpenFound(path, O_RDONLY, std::nullopt, files);
  if (!fd.ok()) return fd.status();
  const bool is_synced = base::RepeatInterrupted([&] { return files.Sync(fd.value().get()); }) == 0 || errno == EINVAL;
  return is_synced ? Status() : base::ErrnoStatus("cannot write", path, errno);
}

Status KeepConfig(const std::string& directory, const HistoryEntry& entry, base::FileSystem& files) {
  const std::string path = KeptPath(directory, entry.line.sha256);
  if (!entry.config_text || base::Exists(path, files)) return Status();
  if (Status made = base::MakeDirectories(base::DirectoryOf(path), files); !made.ok()) return made;
  if (Status written = base::ReplaceFile(path, *entry.config_text, files); !written.ok()) return written;
  return SyncFile(path, files);
}

// A line feed, if a killed process left an unfinished line.
Result<std::string> Separator(int fd, off_t size, const std::string& path, base::FileSystem& files) {
  char last = '\n';
  if (size > 0 && base::RepeatInterrupted([&] { return files.Read(fd, &last, 1, size - 1); }) != 1)
    return base::ErrnoStatus("cannot read", path, errno);
  return std::string(last == '\n' ? "" : "\n");
}

Status Append(int fd, const std::string& text, const std::string& path, base::FileSystem& files) {
  struct stat status = {};
  if (files.Fstat(fd, &status) != 0) return base::ErrnoStatus("cannot read", path, errno);
  const Result<std::string> separator = Separator(fd, status.st_size, path, files);
  if (!separator.ok()) return separator.status();
  Status written = base::WriteAll(fd, separator.value() + text, files);
  if (written.ok() && base::RepeatInterrupted([&] { return files.Sync(fd); }) != 0 && errno != EINVAL)
    written = base::ErrnoStatus("cannot write", path, errno);
  if (!written.ok()) (void)base::RepeatInterrupted([&] { return files.Truncate(fd, status.st_size); });
  return written;
}

// The last lines that match the question. Lines are read one at a time, and only the last ones are parsed, so a history
// of a gigabyte needs only the memory of the result.
class LastLines {
 public:
  LastLines(const HistoryQuestion& question, size_t bytes_max) : question_(question), bytes_max_(bytes_max) {}

  void Add(const base::FoundLines::Line& line) {
    if (line.is_too_long) return ++left_out_, void();
    if (line.text.empty()) return;
    if (IsPassedOver(line.text)) return ++passed_over_, void();
    lines_.emplace_back(line.text);
    bytes_ += line.text.size();
    is_cut_off_ = line.is_cut_off;
    for (; lines_.size() > question_.lines_max || bytes_ > bytes_max_; ++before_) {
      left_for_bytes_ += lines_.size() > question_.lines_max ? 0 : 1;
      bytes_ -= lines_.front().size();
      lines_.pop_front();
    }
  }

  size_t bytes() const { return bytes_; }
  uint64_t passed_over() const { return passed_over_; }

  Result<History> Take() {
    HistoryReader reader;
    for (; left_out_ > 0; --left_out_) reader.LeaveOut();
    for (; !lines_.empty(); lines_.pop_front()) reader.Add(lines_.front(), is_cut_off_ && lines_.size() == 1);
    Result<History> history = reader.Take();
    if (!history.ok()) return history;
    history.value().lines_before = before_;
    if (left_for_bytes_ > 0)
      history.value().notes.push_back("the " + std::to_string(left_for_bytes_) +
                                      " oldest lines are left out: the history is too long");
    return history;
  }

 private:
  // Malformed lines are not skipped, so that they are reported.
  bool IsPassedOver(std::string_view text) const {
    return !question_.word.empty() && text.front() == '{' && text.back() == '}' &&
           text.find(question_.word) == std::string_view::npos;
  }

  const HistoryQuestion& question_;
  const size_t bytes_max_;
  std::deque<std::string> lines_;
  size_t bytes_ = 0;
  size_t left_out_ = 0;
  uint64_t passed_over_ = 0;
  uint64_t before_ = 0;
  uint64_t left_for_bytes_ = 0;
  bool is_cut_off_ = false;
};

Status ReadLines(int fd, base::FileSystem& files, LastLines* lines) {
  struct stat about = {};
  if (files.Fstat(fd, &about) != 0) return base::ErrnoStatus("cannot look at", "it", errno);
  const off_t from = about.st_size > kHistoryBytesMax ? about.st_size - kHistoryBytesMax : 0;
  base::FoundLines reader(fd, from, kHistoryLineBytesMax, files);
  for (bool is_first = true;; is_first = false) {
    const Result<std::optional<base::FoundLines::Line>> line = reader.Next();
    if (!line.ok()) return line.status();
    if (!line.value()) return Status();
    if (from == 0 || !is_first) lines->Add(*line.value());
  }
}

// `bytes_left`: of the question's `bytes_max`.
Result<FoundHistory> ReadHistoryFile(const std::string& path, int fd, const HistoryQuestion& question,
                                     base::FileSystem& files, size_t* bytes_left) {
  LastLines lines(question, *bytes_left);
  const Status read = ReadLines(fd, files, &lines);
  *bytes_left -= lines.bytes();
  Result<History> history = read.ok() ? lines.Take() : Result<History>(read);
  if (!history.ok()) return Status(history.status().code(), path + ": " + history.status().message());
  FoundHistory found;
  found.directory = base::DirectoryOf(path);
  found.history = std::move(history).value();
  for (std::string& note : found.history.notes) note = path + ": " + note;
  const bool is_empty = found.history.lines.empty() && lines.passed_over() == 0;
  if (is_empty && !found.history.notes.empty())
    found.status = Status(StatusCode::kInvalid, found.history.notes.front());
  return found;
}

// The histories of the runs in an output base, newest first.
std::vector<std::string> HistoriesIn(const std::string& base, const std::vector<std::string>& names,
                                     base::FileSystem& files) {
  std::vector<std::pair<timespec, std::string>> found;
  for (const std::string& name : names) {
    std::string path = base::JoinPath(base::JoinPath(base, name), kHistory);
    struct stat about = {};
    if (files.Lstat(path.c_str(), &about) == 0) found.emplace_back(about.st_mtim, std::move(path));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.tv_sec, a.first.tv_nsec) > std::pair(b.first.tv_sec, b.first.tv_nsec);
  });
  std::vector<std::string> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

Status AppendHistory(const std::string& directory, const std::vector<HistoryEntry>& entries, base::FileSystem& files) {
  std::string text;
  if (Status made = base::MakeDirectories(directory, files); !made.ok()) return made;
  for (const HistoryEntry& entry : entries) {
    if (Status kept = KeepConfig(directory, entry, files); !kept.ok()) return kept;
    text += HistoryText(entry.line);
  }
  const std::string path = base::JoinPath(directory, kHistory);
  Result<base::UniqueFd> fd = base::OpenFound(path, O_RDWR | O_APPEND | O_CREAT, std::nullopt, files);
  return fd.ok() ? Append(fd.value().get(), text, path, files) : fd.status();
}

HistoryQuestion OwnHistory(std::string word) {
  HistoryQuestion question;
  question.owner = ::geteuid();
  question.bytes_max = kOwnBytesMax;
  question.word = std::move(word);
  return question;
}

Result<std::vector<FoundHistory>> FindHistories(const std::string& path, const HistoryQuestion& question,
                                                base::FileSystem& files) {
  std::vector<FoundHistory> all;
  size_t bytes_left = question.bytes_max;
  // With an owner, files of other users count as absent.
  const auto is_foreign = [&](const Status& status) { return question.owner && status.code() == StatusCode::kInvalid; };
  const bool is_directory = base::IsDirectory(path, files);
  const std::string own = is_directory ? base::JoinPath(path, kHistory) : path;
  const Result<base::UniqueFd> own_fd = base::OpenFound(own, O_RDONLY, question.owner, files);
  if (own_fd.ok()) {
    Result<FoundHistory> found = ReadHistoryFile(own, own_fd.value().get(), question, files, &bytes_left);
    if (!found.ok()) return found.status();
    all.push_back(std::move(found).value());
    return all;
  }
  if (own_fd.status().code() != StatusCode::kNotFound && !(is_directory && is_foreign(own_fd.status())))
    return own_fd.status();
  const Status none(StatusCode::kNotFound, "no " + std::string(kHistory) + " at " + path +
                                               ", nor in a directory there; accepted: a history, the directory of a "
                                               "run, or a directory of run directories");
  const Result<std::vector<std::string>> names = base::ListDirectory(path, files);
  if (!names.ok()) return base::Exists(path, files) ? names.status() : none;
  for (const std::string& file : HistoriesIn(path, names.value(), files)) {
    const Result<base::UniqueFd> fd = base::OpenFound(file, O_RDONLY, question.owner, files);
    if (!fd.ok() && is_foreign(fd.status())) continue;
    Result<FoundHistory> found = fd.ok() ? ReadHistoryFile(file, fd.value().get(), question, files, &bytes_left)
                                         : Result<FoundHistory>(fd.status());
    if (!found.ok()) found = FoundHistory{base::DirectoryOf(file), {{}, {found.status().message()}}, found.status()};
    all.push_back(std::move(found).value());
  }
  if (all.empty()) return none;
  const auto first_time = [](const FoundHistory& run) {
    return run.history.lines.empty() ? std::string() : run.history.lines.front().time;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const FoundHistory& a, const FoundHistory& b) { return first_time(a) < first_time(b); });
  return all;
}

Result<std::string> KeptConfig(const std::string& directory, const std::string& sha256, std::optional<uid_t> owner,
                               base::FileSystem& files) {
  if (!IsSha256(sha256)) return Status(StatusCode::kNotFound, "the history does not contain the SHA-256 of the config");
  const std::string path = KeptPath(directory, sha256);
  Result<std::string> text = base::ReadFound(path, config::kConfigBytesMax, owner, files);
  if (text.ok() && base::Sha256Hex(text.value()) != sha256)
    return Status(StatusCode::kInvalid, path + " was changed: its content does not match the SHA-256 in its name");
  return text;
}

}  // namespace stepwatch::output
