#include "controller/cli/edit_commands.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/config_change.h"
#include "controller/cli/config_file.h"
#include "controller/cli/exit_code.h"
#include "controller/watch/file_snapshot.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::cli {
namespace {

using Json = nlohmann::ordered_json;
using Outcome = writeback::WriteBackOutcome;

// More saves than anybody makes while a word is changed.
constexpr int kTriesMax = 20;

// What a verb was asked to do.
struct Request {
  std::string config;    // that is changed
  std::string if_match;  // empty: whatever is there
  std::string done;      // what is to be said of the config once it is changed
  bool json = false;
};

void PrintLine(const Json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

int Refuse(const Request& request, const std::string& path, const Status& status) {
  if (request.json) {
    Json error = {{"code", "invalid"}, {"message", status.message()}};
    const TextPlace& place = status.place();
    if (place.line > 0) error["line"] = place.line, error["column"] = place.column;
    if (!place.key.empty()) error["key"] = place.key;
    PrintLine({{"version", 1}, {"error", error}});
  } else {
    std::fprintf(stderr, "%s; nothing was changed\n",
                 PlacedLine(path, "error", status.place(), status.message()).c_str());
  }
  return kExitInvalid;
}

int Fail(const Request& request, const char* code, const std::string& message, ExitCode exit_code) {
  if (request.json)
    PrintLine({{"version", 1}, {"error", {{"code", code}, {"message", message}}}});
  else
    std::fprintf(stderr, "stepwatch: error: %s\n", message.c_str());
  return exit_code;
}

int TellConflict(const Request& request, const writeback::WriteBackResult& result) {
  if (request.if_match.empty()) return Fail(request, "conflict", result.message, kExitConflict);
  const watch::FileSnapshot snapshot = watch::TakeSnapshot(request.config);
  const std::string found = snapshot.kind == watch::SnapshotKind::kBytes ? snapshot.sha256 : "";
  const std::string message =
      fmt::format("{} holds {}, not {}; nothing was changed", base::Printable(request.config, 200),
                  found.empty() ? "no config" : found, request.if_match);
  if (!request.json) return Fail(request, "conflict", message, kExitConflict);
  PrintLine(
      {{"version", 1},
       {"error",
        {{"code", "conflict"}, {"message", message}, {"expected_sha256", request.if_match}, {"found_sha256", found}}}});
  return kExitConflict;
}

int TellDone(const Request& request, const writeback::WriteBackResult& result) {
  const bool is_written = result.outcome == Outcome::kWritten;
  if (request.json)
    PrintLine({{"version", 1},
               {"config", request.config},
               {"outcome", is_written ? "written" : "unchanged"},
               {"method", result.method},
               {"replaced_sha256", result.found_sha256},
               {"sha256", result.sha256}});
  else
    std::printf("%s %s\n", base::Printable(request.config, 200).c_str(),
                is_written ? request.done.c_str() : "holds that already: no change");
  std::fflush(stdout);
  return is_written ? kExitDone : kExitNoChange;
}

int TellResult(const Request& request, const writeback::WriteBackResult& result) {
  switch (result.outcome) {
    case Outcome::kWritten:
    case Outcome::kUnchanged: return TellDone(request, result);
    case Outcome::kEdited: return TellConflict(request, result);
    case Outcome::kRefused: return Fail(request, "invalid", result.message, kExitInvalid);
    case Outcome::kImpossible: break;
  }
  return Fail(request, "unwritable",
              result.message +
                  ". Change it as its owner, or where it comes from (a ConfigMap, an image, a mount): a "
                  "running job takes that up as well",
              kExitDegraded);
}

// A text that no job would take is not touched: the word alone would have no effect.
int Switch(const SwitchArguments& arguments, bool on) {
  const Request request{arguments.file, arguments.if_match,
                        fmt::format("says \"dynamic_on\": {} now; a running job takes it up at its next step", on),
                        arguments.json};
  ConfigChange change(arguments.file);
  int exit_code = kExitInvalid;
  for (int i = 1; i <= kTriesMax; ++i) {
    const Result<ConfigFile> file = ReadConfigFile(arguments.file);
    if (!file.ok()) return Refuse(request, arguments.file, file.status());
    const std::string& expected = arguments.if_match.empty() ? file.value().sha256 : arguments.if_match;
    const writeback::WriteBackResult result =
        change.Make([&] { return writeback::SetDynamicOn(arguments.file, expected, on); });
    // Somebody saved meanwhile: the word is changed in what they saved.
    if (result.outcome == Outcome::kEdited && arguments.if_match.empty() && i < kTriesMax) continue;
    exit_code = TellResult(request, result);
    break;
  }
  change.LookAfterDisplaced();
  return exit_code;
}

}  // namespace

int RunStart(const SwitchArguments& arguments) {
  return Switch(arguments, true);
}

int RunStop(const SwitchArguments& arguments) {
  return Switch(arguments, false);
}

int RunApply(const ApplyArguments& arguments) {
  const Result<ConfigFile> file = ReadConfigFile(arguments.file);
  if (file.ok())
    return ApplyText({arguments.file, file.value().text, arguments.config, arguments.if_match, arguments.json});
  return Refuse({arguments.config, arguments.if_match, "", arguments.json}, arguments.file, file.status());
}

int ApplyText(const ApplyTextArguments& arguments) {
  const Request request{
      arguments.config, arguments.if_match,
      fmt::format("holds {} now, sha256 {}", base::Printable(arguments.name, 200), base::Sha256Hex(arguments.text)),
      arguments.json};
  const Result<config::ParsedConfig> parsed = config::ParseConfig(arguments.text);
  if (!parsed.ok()) return Refuse(request, arguments.name, parsed.status());
  for (const config::Warning& warning : parsed.value().warnings)
    std::fprintf(stderr, "%s\n", PlacedLine(arguments.name, "warning", warning.place, warning.message).c_str());
  ConfigChange change(arguments.config);
  const writeback::WriteBackResult result =
      change.Make([&] { return writeback::ReplaceConfig(arguments.config, arguments.if_match, arguments.text); });
  const int exit_code = TellResult(request, result);
  change.LookAfterDisplaced();
  return exit_code;
}

}  // namespace stepwatch::cli
