// `stepwatch logs`: reads finished logs, or standard input, without stepwatchd.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <re2/re2.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cerrno>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "controller/cli/print_answer.h"
#include "controller/cli/stop_on_signals.h"
#include "controller/cli/text/logs_text.h"
#include "controller/cli/text/time_text.h"
#include "controller/cli/verbs.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/logs/prefixes.h"
#include "src/logs/reader.h"
#include "src/logs/write_record.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kLogLineBytesMax = size_t{1} << 20;  // the rest of a longer line is dropped
constexpr int kFlushMilliseconds = 500;
constexpr int64_t kPatternBytesMax = int64_t{8} << 20;

struct LogsArguments {
  std::vector<std::string> files;
  bool from_stdin = false;
  bool json = false;
  std::string severity;
  std::optional<int64_t> rank;
  std::string grep;
};

// Selects records and prints or collects them.
class LogsOutput {
 public:
  LogsOutput(const LogsArguments& arguments, const re2::RE2* pattern)
      : arguments_(arguments), pattern_(pattern), level_min_(logs::LevelOf(arguments.severity)) {}

  bool is_open() const { return is_open_; }

  void Take(std::vector<logs::Record>* records) {
    std::string text;
    for (const logs::Record& record : *records) {
      if (!Selects(record)) continue;
      if (arguments_.json)
        text += logs::EcsJson(record, {}) + "\n";
      else if (HasFilter())
        text += base::SafeText(stdout, RecordText(record));
      else
        summary_.Add(record);
    }
    records->clear();
    if (!text.empty()) is_open_ = PrintAtOnce(text) && is_open_;
  }

  void Finish() const {
    if (!arguments_.json && !HasFilter()) base::PrintText(stdout, summary_.Text());
  }

 private:
  bool HasFilter() const { return level_min_ != logs::Level::kUnset || arguments_.rank || pattern_ != nullptr; }

  bool Selects(const logs::Record& record) const {
    if (level_min_ != logs::Level::kUnset && logs::EffectiveLevel(record) < level_min_) return false;
    if (arguments_.rank && record.rank != arguments_.rank && (record.rank || record.local_rank != arguments_.rank))
      return false;
    if (pattern_ == nullptr) return true;
    const auto matches = [this](const std::string& text) {
      return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *pattern_);
    };
    return matches(record.message) || (record.exception && matches(record.exception->stack));
  }

  const LogsArguments& arguments_;
  const re2::RE2* const pattern_;
  const logs::Level level_min_;
  LogSummary summary_;
  bool is_open_ = true;
};

// Splits the bytes of a descriptor into lines.
class LineSource {
 public:
  LineSource(int fd, std::string source, const logs::Recogniser& recogniser)
      : fd_(fd), source_(std::move(source)), place_(logs::RankOfPath(source_)), reader_(recogniser) {}

  // Reads to the end, or until a signal or until standard output is closed.
  Status Run(LogsOutput* output) {
    std::vector<logs::Record> records;
    std::vector<char> buffer(size_t{256} << 10);
    while (interrupted == 0 && output->is_open()) {
      pollfd wait{fd_, POLLIN, 0};
      const int ready = ::poll(&wait, 1, kFlushMilliseconds);
      if (ready == 0 || (ready < 0 && errno == EINTR)) {
        reader_.Flush(WallSeconds(), &records);
        output->Take(&records);
        continue;
      }
      const ssize_t got = base::RepeatInterrupted([&] { return ::read(fd_, buffer.data(), buffer.size()); });
      if (got < 0 && errno == EAGAIN) continue;
      if (got < 0)
        return Status(StatusCode::kUnavailable,
                      "cannot read " + source_ + ": " + std::generic_category().message(errno));
      if (got == 0) break;
      Split({buffer.data(), static_cast<size_t>(got)}, &records);
      output->Take(&records);
    }
    if (!line_.empty()) AddLine(line_, &records);
    reader_.Flush(std::numeric_limits<double>::infinity(), &records);
    output->Take(&records);
    return Status();
  }

 private:
  void Split(std::string_view bytes, std::vector<logs::Record>* records) {
    now_ = WallSeconds();
    while (true) {
      const size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      if (end != std::string_view::npos && line_.empty()) {
        AddLine(part, records);
      } else {
        const size_t room = kLogLineBytesMax - std::min(kLogLineBytesMax, line_.size());
        is_cut_ = is_cut_ || part.size() > room;
        line_ += part.substr(0, room);
        if (end != std::string_view::npos) {
          AddLine(line_, records);
          line_.clear();
        }
      }
      if (end == std::string_view::npos) return;
      bytes.remove_prefix(end + 1);
    }
  }

  void AddLine(std::string_view text, std::vector<logs::Record>* records) {
    logs::LineIn line;
    line.text = text;
    line.observed_t = now_;
    line.source = source_;
    line.rank = place_.rank ? place_.rank : place_.local_rank;
    line.is_truncated = is_cut_;
    is_cut_ = false;
    reader_.Add(line, records);
  }

  const int fd_;
  const std::string source_;
  const logs::PathRank place_;
  logs::Reader reader_;
  std::string line_;  // the beginning of a line
  bool is_cut_ = false;
  double now_ = WallSeconds();
};

int RunLogs(const LogsArguments& arguments) {
  if (arguments.files.empty() == !arguments.from_stdin)
    return FailInvalid(Status(StatusCode::kInvalid, "give either files or --stdin"), arguments.json);
  std::unique_ptr<re2::RE2> pattern;
  if (!arguments.grep.empty()) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(kPatternBytesMax);
    pattern = std::make_unique<re2::RE2>(re2::StringPiece(arguments.grep.data(), arguments.grep.size()), options);
    if (!pattern->ok())
      return FailInvalid(Status(StatusCode::kInvalid, "--grep \"" + arguments.grep +
                                                          "\" is not a regular expression of RE2: " + pattern->error()),
                         arguments.json);
  }
  const logs::Recogniser recogniser;
  LogsOutput output(arguments, pattern.get());
  const StopOnSignals signals;
  int code = kExitDone;
  if (arguments.from_stdin) {
    if (const Status read = LineSource(STDIN_FILENO, "", recogniser).Run(&output); !read.ok())
      return FailInvalid(read, arguments.json);
  }
  for (const std::string& path : arguments.files) {
    if (interrupted != 0 || !output.is_open()) break;
    const Result<base::UniqueFd> file = base::Open(path, O_RDONLY | O_NOCTTY);
    const Status read = file.ok() ? LineSource(file.value().get(), path, recogniser).Run(&output) : file.status();
    if (!read.ok()) {
      base::Print(stderr, "stepwatch: error: %s\n", base::Printable(read.message(), 1000).c_str());
      code = kExitInvalid;
    }
  }
  output.Finish();
  // A pipeline that ends by Ctrl-C still has its summary.
  return interrupted != 0 && !arguments.from_stdin ? kExitInterrupted : code;
}

}  // namespace

void AddLogs(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<LogsArguments>();
  CLI::App* verb = app->add_subcommand("logs", "Read training logs: the likely cause, and the progress of each rank");
  verb->add_option("FILE", arguments->files,
                   "log files; a rank in the name, as in rank3.log, belongs to all its lines");
  verb->add_flag("--stdin", arguments->from_stdin, "read standard input instead of files");
  verb->add_flag("--json", arguments->json, "one JSON object per record (ECS) instead of a summary");
  verb->add_option("--severity", arguments->severity, "only records of this level or a higher one")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "fatal"}));
  verb->add_option("--rank", arguments->rank, "only records of this rank");
  verb->add_option("--grep", arguments->grep, "only records whose text matches this regular expression (RE2)");
  verb->footer(
      "With --severity, --rank or --grep the records themselves are printed.\n"
      "Examples:\n"
      "  stepwatch logs logs/rank*.log\n"
      "  stepwatch logs train.log --severity error\n"
      "  torchrun train.py 2>&1 | stepwatch logs --stdin --json\n"
      "Exit codes: 0 done, 2 a file cannot be read or an option is unusable, 130 interrupted.");
  verb->callback([arguments, exit_code] { *exit_code = RunLogs(*arguments); });
}

}  // namespace stepwatch::cli
