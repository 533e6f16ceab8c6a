#include "controller/cli/offline_commands.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/exit_code.h"
#include "controller/cli/progress_bar.h"
#include "controller/cli/stop_on_signals.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/json/parse_json.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kMappingBytesMax = size_t{16} << 20;

int FailConversion(const Status& status) {
  if (interrupted != 0) {
    base::Print(stderr, "stepwatch: interrupted; no file was changed\n");
    return 130;
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
  const auto json = bounded::ParseJson<nlohmann::ordered_json>(text.value());
  const Status wrong(StatusCode::kInvalid, path + " is not a JSON object of strings, {\"old\": \"new\"}");
  if (!json.ok() || !json.value().is_object()) return wrong;
  for (const auto& [from, to] : json.value().items()) {
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

}  // namespace

int RunCsvToTensorBoard(const offline::CsvToTensorBoardOptions& options) {
  return Finish(
      WithProgress([&options](const auto& progress) { return offline::CsvToTensorBoard(options, progress); }));
}

int RunCsvToDatabase(const CsvToDatabaseArguments& arguments) {
  if (arguments.format == "dump")
    return FailConversion(Status(StatusCode::kUnsupported, "--format dump is not supported; accepted: monitor, auto"));
  return Finish(Convert(arguments));
}

Result<std::vector<int64_t>> ParseSteps(const std::string& text) {
  const Status wrong(StatusCode::kInvalid, "The step list must be a resolvable list type.");
  // Python lets a list end with a comma.
  std::string list = text;
  if (const size_t last = list.find_last_not_of(" ]"); last != std::string::npos && list[last] == ',') list[last] = ' ';
  const auto json = bounded::ParseJson<nlohmann::json>(list);
  if (!json.ok() || !json.value().is_array()) return wrong;
  std::vector<int64_t> steps;
  for (const auto& step : json.value()) {
    if (!step.is_number_integer()) return wrong;
    steps.push_back(step.get<int64_t>());
  }
  return steps;
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

}  // namespace stepwatch::cli
