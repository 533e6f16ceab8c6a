// `stepwatch prune`: removes old runs of an output base.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/text/time_text.h"
#include "controller/cli/verbs.h"
#include "src/base/byte_count.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/json/json.h"
#include "src/offline/old_runs.h"

namespace stepwatch::cli {
namespace {

struct PruneArguments {
  std::string directory;
  int64_t older_than = -1;  // seconds; -1: age does not matter
  int64_t keep_bytes = -1;  // -1: size does not matter
  bool yes = false;
  bool json = false;
};

using offline::RunVerdict;
using offline::StoredRun;
using offline::StoredRuns;
using VerdictKind = RunVerdict::Kind;

// The runs that were found, the decision on each, and the result of its removal.
struct PruneOutcome {
  StoredRuns found;
  std::vector<RunVerdict> verdicts;            // of found.runs
  std::vector<std::optional<Status>> removed;  // likewise; no value: not tried
  std::vector<std::string> failures;           // of leftovers
  uint64_t bytes_to_remove = 0;
  size_t to_remove = 0;  // without leftovers
};

std::set<std::string> AnsweringRuns() {
  std::set<std::string> runs;
  for (const control_socket::FoundJob& job : AllJobs()) runs.insert(RunRankOf(job).run_id);
  runs.erase("");
  return runs;
}

std::vector<RunVerdict> VerdictsOf(const StoredRuns& found, const PruneArguments& arguments) {
  const std::set<std::string> answering = AnsweringRuns();
  const std::time_t now = std::time(nullptr);
  std::vector<std::string> why_live;
  for (const StoredRun& run : found.runs) why_live.push_back(offline::WhyLive(run, answering, now));
  return offline::Judge(found.runs, why_live, {now, arguments.older_than, arguments.keep_bytes});
}

void RemoveAll(offline::RunStore* store, PruneOutcome* outcome) {
  for (const std::string& name : outcome->found.leftovers)
    if (const Status removed = store->RemoveLeftover(name); !removed.ok())
      outcome->failures.push_back(name + ": " + removed.message());
  for (size_t i = 0; i < outcome->found.runs.size(); ++i)
    if (outcome->verdicts[i].kind == VerdictKind::kRemoved) outcome->removed[i] = store->Remove(outcome->found.runs[i]);
}

bool HasFailed(const PruneOutcome& outcome) {
  if (!outcome.failures.empty()) return true;
  for (const auto& removed : outcome.removed)
    if (removed && !removed->ok()) return true;
  return false;
}

const char* Word(const PruneOutcome& outcome, size_t run, bool yes) {
  switch (outcome.verdicts[run].kind) {
    case VerdictKind::kKept: return "kept";
    case VerdictKind::kLive: return "live";
    case VerdictKind::kLeftAlone: return "left_alone";
    case VerdictKind::kRemoved: break;
  }
  return !yes ? "to_remove" : outcome.removed[run]->ok() ? "removed" : "failed";
}

std::string WhyOf(const PruneOutcome& outcome, size_t run) {
  const auto& removed = outcome.removed[run];
  return removed && !removed->ok() ? removed->message() : outcome.verdicts[run].why;
}

void PrintJson(const PruneOutcome& outcome, const PruneArguments& arguments) {
  Json runs = Json::array();
  for (size_t i = 0; i < outcome.found.runs.size(); ++i) {
    const StoredRun& run = outcome.found.runs[i];
    Json directories = Json::array();
    for (const StoredRun::Directory& directory : run.directories) directories.push_back(directory.name);
    runs.push_back({{"run_id", run.run_id},
                    {"directories", directories},
                    {"bytes", run.bytes},
                    {"changed_unix", run.changed},
                    {"verdict", Word(outcome, i, arguments.yes)},
                    {"why", json::OrNull(WhyOf(outcome, i))}});
  }
  Json strange = Json::array();
  for (const offline::StrangeEntry& entry : outcome.found.strange)
    strange.push_back({{"name", entry.name}, {"why", entry.why}});
  PrintObject({{"version", 1},
               {"directory", arguments.directory},
               {"dry_run", !arguments.yes},
               {"runs", runs},
               {"leftovers", outcome.found.leftovers},
               {"left_alone", strange},
               {"failures", outcome.failures},
               {"runs_to_remove", outcome.to_remove},
               {"bytes_to_remove", outcome.bytes_to_remove}});
}

void PrintText(const PruneOutcome& outcome, const PruneArguments& arguments) {
  std::vector<std::vector<Cell>> rows = {HeadingRow({"RUN", "RANKS", "SIZE", "LAST CHANGE", "VERDICT", "WHY"})};
  for (size_t i = 0; i < outcome.found.runs.size(); ++i) {
    const StoredRun& run = outcome.found.runs[i];
    std::string word = Word(outcome, i, arguments.yes);
    if (word == "to_remove" || word == "left_alone") word[word.find('_')] = ' ';
    const bool goes = outcome.verdicts[i].kind == VerdictKind::kRemoved;
    rows.push_back({{base::Printable(run.directories.front().name)},
                    {std::to_string(run.directories.size())},
                    {base::ByteCountText(run.bytes)},
                    {LocalTimeText(static_cast<double>(run.changed), TimeDigits::kMinute)},
                    {word, goes ? Colour::kRed : Colour::kPlain},
                    {base::Printable(WhyOf(outcome, i), 1000)}});
  }
  if (rows.size() > 1) base::Print(stdout, "%s", TableText(rows).c_str());
  for (const std::string& name : outcome.found.leftovers)
    base::Print(stdout, "%s: left over from an interrupted removal\n", base::Printable(name).c_str());
  for (const offline::StrangeEntry& entry : outcome.found.strange)
    base::Print(stdout, "%s is kept: it %s\n", base::Printable(entry.name).c_str(), entry.why.c_str());
  for (const std::string& failure : outcome.failures)
    base::Print(stderr, "stepwatch: error: %s\n", base::Printable(failure, 1000).c_str());
  const std::string what = fmt::format("{} {} with {}", outcome.to_remove, outcome.to_remove == 1 ? "run" : "runs",
                                       base::ByteCountText(outcome.bytes_to_remove));
  if (outcome.to_remove + outcome.found.leftovers.size() == 0)
    base::Print(stdout, "nothing to remove\n");
  else if (!arguments.yes)
    base::Print(stdout, "%s to remove; use --yes to remove them\n", what.c_str());
  else if (HasFailed(outcome))
    base::Print(stdout, "failed to remove all of %s\n", what.c_str());
  else
    base::Print(stdout, "removed %s\n", what.c_str());
}

int RunPrune(const PruneArguments& arguments) {
  if (arguments.older_than < 0 && arguments.keep_bytes < 0)
    return FailInvalid(Status(StatusCode::kInvalid, "--older-than 30d, --keep-bytes 50G or both are required"),
                       arguments.json);
  Result<offline::RunStore> store = offline::RunStore::Open(arguments.directory);
  if (!store.ok()) return FailInvalid(store.status(), arguments.json);
  Result<StoredRuns> found = store.value().List();
  if (!found.ok()) return FailInvalid(found.status(), arguments.json);
  PruneOutcome outcome;
  outcome.found = std::move(found).value();
  outcome.verdicts = VerdictsOf(outcome.found, arguments);
  outcome.removed.resize(outcome.verdicts.size());
  for (size_t i = 0; i < outcome.verdicts.size(); ++i) {
    if (outcome.verdicts[i].kind != VerdictKind::kRemoved) continue;
    ++outcome.to_remove;
    outcome.bytes_to_remove += outcome.found.runs[i].bytes;
  }
  if (arguments.yes) RemoveAll(&store.value(), &outcome);
  if (arguments.json)
    PrintJson(outcome, arguments);
  else
    PrintText(outcome, arguments);
  if (HasFailed(outcome)) return kExitDegraded;
  return outcome.to_remove + outcome.found.leftovers.size() == 0 ? kExitNoChange : kExitDone;
}

}  // namespace

void AddPrune(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<PruneArguments>();
  CLI::App* verb = app->add_subcommand("prune", "Remove old runs with all their ranks; without --yes only list them");
  verb->add_option("DIR", arguments->directory, "output base directory, which holds one directory per run and rank")
      ->required();
  verb->add_option_function<std::string>(
      "--older-than",
      [arguments](const std::string& text) {
        const auto age = ParseDuration(text);
        if (!age) throw CLI::ValidationError("invalid age \"" + base::Printable(text) + "\"; examples: 30d, 12h, 2w");
        arguments->older_than = *age;
      },
      "remove runs without a change for this long: 30d, 12h, 2w");
  verb->add_option_function<std::string>(
      "--keep-bytes",
      [arguments](const std::string& text) {
        const auto bytes = base::ParseByteCount(text);
        if (!bytes) throw CLI::ValidationError("invalid size \"" + base::Printable(text) + "\"; examples: 50G, 800M");
        arguments->keep_bytes = static_cast<int64_t>(*bytes);
      },
      "remove the oldest runs until at most this much remains: 50G, 800M");
  verb->add_flag("--yes", arguments->yes, "remove the runs; without it they are only listed");
  verb->add_flag("--json", arguments->json, "one JSON object instead of a table");
  verb->footer(
      "Runs that may still be active are kept, and so are directories with files that Stepwatch does not write.\n"
      "Examples:\n"
      "  stepwatch prune monitor_output --older-than 30d\n"
      "  stepwatch prune monitor_output --older-than 30d --keep-bytes 50G --yes\n"
      "Exit codes: 0 done (or, without --yes, there is something to remove), 2 no such directory, 5 not all of it "
      "could\n"
      "be removed, 7 nothing to remove.");
  verb->callback([arguments, exit_code] { *exit_code = RunPrune(*arguments); });
}

}  // namespace stepwatch::cli
