// `stepwatch csv2tb`, `csv2db` and `anomaly`: tools for the files of finished runs.
#include "stepwatch/offline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "controller/cli/print_answer.h"
#include "controller/cli/stop_on_signals.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/verbs.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

struct CsvToDatabaseArguments {
  std::string data;  // the base with the run directories
  std::string db;    // directory of the database
  std::string format = "auto";
  std::string mapping;  // a JSON file; empty: no replacements
  offline::CsvToDatabaseOptions options;
};

struct AnomalyArguments {
  std::string steps = "[]";  // as a Python list
  offline::SortAnomaliesOptions options;
};

std::string BytesText(uint64_t bytes) {
  const double number = static_cast<double>(bytes);
  if (bytes >= 1000000000) return fmt::format("{:.1f} GB", number / 1e9);
  if (bytes >= 1000000) return fmt::format("{:.1f} MB", number / 1e6);
  return fmt::format("{:.0f} kB", number / 1e3);
}

// "converting [########............] 41 % of 1.2 GB", at most `width` characters.
std::string ProgressLine(const offline::Progress& progress, int width) {
  const double part =
      progress.total == 0 ? 1 : static_cast<double>(progress.done) / static_cast<double>(progress.total);
  const std::string end = fmt::format(" {:3.0f} % of {}", 100 * part, BytesText(progress.total));
  const int room = width - static_cast<int>(progress.stage.size() + end.size()) - 3;
  const int bar = std::clamp(room, 0, 40);
  const int filled = static_cast<int>(part * bar);
  const std::string line = fmt::format("{} [{}{}]{}", progress.stage, std::string(static_cast<size_t>(filled), '#'),
                                       std::string(static_cast<size_t>(bar - filled), '.'), end);
  return line.substr(0, static_cast<size_t>(std::max(width, 0)));
}

// Draws on stderr if that is a terminal, and wipes its line at the end. One thread.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(const offline::Progress& progress);

 private:
  bool on_terminal_;
  std::string shown_;
};

ProgressBar::ProgressBar() : on_terminal_(base::UnderstandsEscapes(stderr)) {}

ProgressBar::~ProgressBar() {
  if (!shown_.empty()) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::Show(const offline::Progress& progress) {
  if (!on_terminal_) return;
  const int terminal = TerminalWidth(STDERR_FILENO);  // a full line would wrap
  const std::string line = ProgressLine(progress, terminal > 0 ? terminal - 1 : 80);
  if (line == shown_) return;
  shown_ = line;
  std::fprintf(stderr, "\r%s\033[K", base::Printable(line, line.size()).c_str());
  std::fflush(stderr);
}

constexpr size_t kMappingBytesMax = size_t{16} << 20;

int FailConversion(const Status& status) {
  if (interrupted != 0) {
    base::Print(stderr, "stepwatch: interrupted; no file was changed\n");
    return kExitInterrupted;
  }
  base::Print(stderr, "stepwatch: error: %s\n", status.message().c_str());
  const bool cannot_write = status.code() == StatusCode::kExhausted || status.code() == StatusCode::kUnavailable;
  return cannot_write ? kExitDegraded : kExitInvalid;
}

int Finish(const Result<offline::Conversion>& result) {
  if (!result.ok()) return FailConversion(result.status());
  const offline::Conversion& done = result.value();
  for (const std::string& note : done.notes) base::Print(stderr, "note: %s\n", note.c_str());
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  base::Print(stdout, "%llu rows of %llu files, %llu malformed rows skipped; output saved to: %s\n", number(done.rows),
              number(done.files), number(done.rows_skipped), done.output.c_str());
  return kExitDone;
}

Result<offline::Conversion> WithProgress(const std::function<Result<offline::Conversion>(offline::OnProgress)>& call) {
  StopOnSignals signals;
  ProgressBar bar;
  return call([&bar](const offline::Progress& progress) {
    bar.Show(progress);
    return interrupted == 0;
  });
}

Result<std::vector<std::pair<std::string, std::string>>> ReadMapping(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> mapping;
  if (path.empty()) return mapping;
  const Result<std::string> text = base::ReadFile(path, kMappingBytesMax);
  if (!text.ok()) return text.status();
  const Result<Json> parsed = json::Parse(text.value());
  const Status wrong(StatusCode::kInvalid, path + " is not a JSON object of strings, {\"old\": \"new\"}");
  if (!parsed.ok() || !parsed.value().is_object()) return wrong;
  for (const auto& [from, to] : parsed.value().items()) {
    if (!to.is_string()) return wrong;
    mapping.emplace_back(from, to.get<std::string>());
  }
  return mapping;
}

Result<offline::Conversion> Convert(const CsvToDatabaseArguments& arguments) {
  offline::CsvToDatabaseOptions options = arguments.options;
  auto mapping = ReadMapping(arguments.mapping);
  if (!mapping.ok()) return mapping.status();
  options.mapping = std::move(mapping).value();
  options.database = base::JoinPath(arguments.db, "monitor_data.trend.db");
  std::vector<std::string> notes;
  auto directories = offline::FindRunDirectories(arguments.data, {}, &notes);
  if (!directories.ok()) return directories.status();
  if (directories.value().empty())
    return Status(StatusCode::kNotFound,
                  "no run directories (Dec03_21-34-40-rank0-…) in " + arguments.data +
                      (arguments.format == "auto" ? "; dumps (directories step0 …) are not supported" : ""));
  options.directories = std::move(directories).value();
  Result<offline::Conversion> done =
      WithProgress([&options](const auto& progress) { return offline::CsvToDatabase(options, progress); });
  if (done.ok()) done.value().notes.insert(done.value().notes.begin(), notes.begin(), notes.end());
  return done;
}

// "[3, 7]" as Python prints a list of integers.
Result<std::vector<int64_t>> ParseSteps(const std::string& text) {
  const Status wrong(StatusCode::kInvalid, "The step list must be a resolvable list type.");
  // A Python list may end with a comma.
  std::string list = text;
  if (const size_t last = list.find_last_not_of(" ]"); last != std::string::npos && list[last] == ',') list[last] = ' ';
  const Result<Json> parsed = json::Parse(list);
  if (!parsed.ok() || !parsed.value().is_array()) return wrong;
  std::vector<int64_t> steps;
  for (const auto& step : parsed.value()) {
    if (!step.is_number_integer()) return wrong;
    steps.push_back(step.get<int64_t>());
  }
  return steps;
}

// 0: done; 2: an option or an input is unusable; 5: the result could not be written; 130: interrupted.
int RunCsvToTensorBoard(const offline::CsvToTensorBoardOptions& options) {
  return Finish(
      WithProgress([&options](const auto& progress) { return offline::CsvToTensorBoard(options, progress); }));
}

int RunCsvToDatabase(const CsvToDatabaseArguments& arguments) {
  if (arguments.format == "dump")
    return FailConversion(Status(StatusCode::kUnsupported, "--format dump is not supported; accepted: monitor, auto"));
  return Finish(Convert(arguments));
}

int RunAnomaly(const AnomalyArguments& arguments) {
  offline::SortAnomaliesOptions options = arguments.options;
  const Result<std::vector<int64_t>> steps = ParseSteps(arguments.steps);
  if (!steps.ok()) return FailConversion(steps.status());
  options.steps = steps.value();
  const Result<offline::SortedAnomalies> sorted = offline::SortAnomalies(options);
  if (!sorted.ok()) return FailConversion(sorted.status());
  base::Print(stdout, "%s, of %llu anomalies\n", sorted.value().output.c_str(),
              static_cast<unsigned long long>(sorted.value().found));
  base::Print(stdout, "Top %lld anomalies are listed as follows:\n", static_cast<long long>(options.topk));
  for (size_t i = 0; i < sorted.value().messages.size(); ++i)
    base::Print(stdout, "%zu: %s\n", i, base::Printable(sorted.value().messages[i], 2000).c_str());
  return kExitDone;
}

void AddThreads(CLI::App* verb, int* process_num) {
  verb->add_option("--process-num,--process_num", *process_num, "number of threads")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
}

void AddCsvToTensorBoard(CLI::App* app, int* exit_code) {
  const auto options = std::make_shared<offline::CsvToTensorBoardOptions>();
  CLI::App* verb = app->add_subcommand("csv2tb", "Convert CSV files to TensorBoard files");
  verb->add_option("--monitor-path,--monitor_path", options->monitor_path,
                   "output base directory, which holds one directory per rank")
      ->required();
  verb->add_option("--time-start,--time_start", options->range.start,
                   "only runs that began at this time or later, such as Dec03_21-34-40");
  verb->add_option("--time-end,--time_end", options->range.end, "only runs that began at this time or earlier");
  AddThreads(verb, &options->process_num);
  verb->add_option("--data-type-list,--data_type_list", options->data_type_list,
                   "kinds to convert, as in the file names (default: all)")
      ->delimiter(',');
  verb->add_option("--output-dirpath,--output_dirpath", options->output_dirpath,
                   "default: {time}-csv2tensorboard_by_step in the output base");
  verb->callback([=] { *exit_code = RunCsvToTensorBoard(*options); });
}

void AddCsvToDatabase(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<CsvToDatabaseArguments>();
  CLI::App* verb = app->add_subcommand("csv2db", "Import CSV files into a SQLite database");
  verb->add_option("--db", arguments->db, "directory for monitor_data.trend.db")->required();
  verb->add_option("--data", arguments->data, "output base directory, which holds one directory per rank")->required();
  verb->add_option("--format", arguments->format, "format of the data")
      ->check(CLI::IsMember({"auto", "dump", "monitor"}))
      ->capture_default_str();
  verb->add_option("--mapping", arguments->mapping, "JSON file of replacements in names: {\"old\": \"new\"}");
  verb->add_option("--micro_step,--micro-step", arguments->options.micro_step,
                   "use consecutive micro-steps as the steps of the database")
      ->capture_default_str();
  AddThreads(verb, &arguments->options.process_num);
  verb->callback([=] { *exit_code = RunCsvToDatabase(*arguments); });
}

void AddAnomaly(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<AnomalyArguments>();
  CLI::App* verb = app->add_subcommand("anomaly", "Sort the alarms of all ranks and print the first ones");
  verb->add_option("-d,--data_path", arguments->options.data_path, "the directory anomaly_detected")->required();
  verb->add_option("-o,--out_path", arguments->options.out_path, "existing directory for anomaly_analyse.json");
  verb->add_option("-k,--topk", arguments->options.topk, "number of alarms to print")->capture_default_str();
  verb->add_option("-s,--step,--step_list", arguments->steps, "only these steps, such as \"[3, 7]\"");
  verb->callback([=] { *exit_code = RunAnomaly(*arguments); });
}

}  // namespace

void AddOfflineVerbs(CLI::App* app, int* exit_code) {
  AddCsvToTensorBoard(app, exit_code);
  AddCsvToDatabase(app, exit_code);
  AddAnomaly(app, exit_code);
}

}  // namespace stepwatch::cli
