// `stepwatch logs`: reads finished logs, or standard input, without stepwatchd; or the logs of a run that stepwatchd
// knows.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cerrno>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "controller/cli/print_answer.h"
#include "controller/cli/run_logs.h"
#include "controller/cli/stepwatchd_client.h"
#include "controller/cli/stop_on_signals.h"
#include "controller/cli/text/logs_text.h"
#include "controller/cli/text/time_text.h"
#include "controller/cli/verbs.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/logs/prefixes.h"
#include "src/logs/reader.h"
#include "src/logs/record_filter.h"
#include "src/logs/write_record.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kLogLineBytesMax = size_t{1} << 20;  // the rest of a longer line is dropped
constexpr int kFlushMilliseconds = 500;
constexpr size_t kLimitUsual = 1000, kLimitMax = 100000;
constexpr size_t kEventsMax = 10000;  // that stepwatchd returns at once

struct LogsArguments {
  std::vector<std::string> files;  // or one run
  bool from_stdin = false;
  bool json = false;
  std::string severity;
  std::optional<int64_t> rank;
  std::optional<int64_t> since_seconds;
  std::string grep;
  size_t limit = kLimitUsual;
  std::string stepwatchd;
};

// Selects records and prints or collects them.
class LogsOutput {
 public:
  LogsOutput(bool as_json, const logs::RecordFilter& filter) : as_json_(as_json), filter_(filter) {}

  bool is_open() const { return is_open_; }

  void Take(std::vector<logs::Record>* records) {
    std::string text;
    for (const logs::Record& record : *records) {
      if (!filter_.Selects(record)) continue;
      if (as_json_)
        text += logs::EcsJson(record, {}) + "\n";
      else if (!filter_.selects_all())
        text += base::SafeText(stdout, RecordText(record));
      else
        summary_.Add(record);
    }
    records->clear();
    if (!text.empty()) is_open_ = PrintAtOnce(text) && is_open_;
  }

  void Finish() const {
    if (!as_json_ && filter_.selects_all()) base::PrintText(stdout, summary_.Text());
  }

 private:
  const bool as_json_;
  const logs::RecordFilter& filter_;
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

// An existing file wins over a run of the same name, and a name with a slash is that of a file.
bool NamesRun(const LogsArguments& arguments) {
  struct stat about {};
  return arguments.files.size() == 1 && arguments.files.front().find('/') == std::string::npos &&
         base::FileSystem::Real().Stat(arguments.files.front().c_str(), &about) != 0 && errno == ENOENT;
}

// The reason why the argument is neither a file nor a run.
Status NeitherFileNorRun(const std::string& name, const Status& why) {
  return Status(why.code(), fmt::format("there is no file \"{}\", and no logs of a run with this id: {}",
                                        base::Printable(name, 300), why.message()));
}

int PrintRunLogs(const LogsArguments& arguments, const logs::RecordFilter& filter, std::optional<double> since_t) {
  const std::string& name = arguments.files.front();
  const auto fail = [&](const Status& why) { return FailOperations(NeitherFileNorRun(name, why), arguments.json); };
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return fail(client.status());
  const Result<std::string> run = ResolveRun(client.value(), name);
  if (!run.ok()) return fail(run.status());
  std::string target =
      fmt::format("/v1/runs/{}/logs?limit={}", UrlPiece(run.value()), std::min(arguments.limit, kEventsMax));
  if (arguments.rank) target += fmt::format("&rank={}", *arguments.rank);
  if (since_t) target += fmt::format("&since={:.3f}", *since_t);
  if (!arguments.severity.empty()) target += "&severity=" + arguments.severity;
  if (!arguments.grep.empty()) target += "&grep=" + UrlPiece(arguments.grep);
  const Result<Json> answer = client.value().Get(target);
  if (!answer.ok()) return FailOperations(answer.status(), arguments.json);
  const logs::Recogniser recogniser;
  const RunLogs found = ReadRunLogs(
      answer.value(), {run.value(), arguments.rank, since_t, arguments.limit, arguments.json}, filter, recogniser);
  std::string text;
  for (const LogLine& line : found.lines) text += arguments.json ? line.text : base::SafeText(stdout, line.text);
  if (!text.empty()) (void)PrintAtOnce(text);
  for (const std::string& note : found.notes)
    base::Print(stderr, "stepwatch: %s\n", base::Printable(note, 1000).c_str());
  if (found.has_more)
    base::Print(stderr, "stepwatch: there are earlier records; --limit %zu shows more\n",
                std::min(kLimitMax, 10 * arguments.limit));
  if (found.lines.empty() && found.notes.empty()) base::Print(stderr, "stepwatch: the run has no such records\n");
  return found.notes.empty() ? kExitDone : kExitDegraded;
}

int RunLogsVerb(const LogsArguments& arguments) {
  if (arguments.files.empty() == !arguments.from_stdin)
    return FailInvalid(Status(StatusCode::kInvalid, "give one run, files or --stdin"), arguments.json);
  logs::RecordFilter::Options options{arguments.rank, std::nullopt, logs::LevelOf(arguments.severity), arguments.grep};
  if (arguments.since_seconds) options.since_t = WallSeconds() - static_cast<double>(*arguments.since_seconds);
  const Result<logs::RecordFilter> filter = logs::RecordFilter::Make(options);
  if (!filter.ok())
    return FailInvalid(Status(StatusCode::kInvalid, "--grep: " + filter.status().message()), arguments.json);
  if (NamesRun(arguments)) return PrintRunLogs(arguments, filter.value(), options.since_t);
  const logs::Recogniser recogniser;
  LogsOutput output(arguments.json, filter.value());
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
  CLI::App* verb = app->add_subcommand(
      "logs", "Read training logs: the likely cause and the progress of each rank, or the records of a run");
  verb->add_option("FILE", arguments->files,
                   "log files; a rank in the name, as in rank3.log, belongs to all its lines. Or one run: the id of a "
                   "run that stepwatchd knows, or a unique prefix of it; a file of this name wins");
  verb->add_flag("--stdin", arguments->from_stdin, "read standard input instead of files");
  verb->add_flag("--json", arguments->json, "one JSON object per record (ECS) instead of a summary");
  verb->add_option("--severity", arguments->severity, "only records of this level or a higher one")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "fatal"}));
  verb->add_option("--rank", arguments->rank, "only records of this rank");
  verb->add_option("--grep", arguments->grep, "only records whose text matches this regular expression (RE2)");
  verb->add_option_function<std::string>(
      "--since",
      [arguments](const std::string& text) {
        arguments->since_seconds = ParseDuration(text);
        if (!arguments->since_seconds)
          throw CLI::ValidationError("invalid duration \"" + base::Printable(text) + "\"; examples: 45s, 10m, 2h");
      },
      "only records of the last 45s, 10m, 2h, ...");
  verb->add_option("--limit", arguments->limit, "of a run: at most the last N records")
      ->check(CLI::Range(size_t{1}, kLimitMax))
      ->capture_default_str();
  verb->add_option("--stepwatchd", arguments->stepwatchd,
                   "of a run: socket file of stepwatchd (default: stepwatchd.sock in the runtime directory)");
  verb->footer(
      "With --severity, --rank, --since or --grep, and for a run, the records themselves are printed.\n"
      "Examples:\n"
      "  stepwatch logs logs/rank*.log\n"
      "  stepwatch logs train.log --severity error\n"
      "  torchrun train.py 2>&1 | stepwatch logs --stdin --json\n"
      "  stepwatch logs 5f0c --rank 3 --since 10m --severity error\n"
      "Exit codes: 0 done, 2 a file cannot be read or an option is unusable, 5 of a run: some files cannot be read,\n"
      "8 stepwatchd does not respond, 130 interrupted.");
  verb->callback([arguments, exit_code] { *exit_code = RunLogsVerb(*arguments); });
}

}  // namespace stepwatch::cli
