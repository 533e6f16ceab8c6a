#include "controller/cli/plan.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/cli/config_file.h"
#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/verbs.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/config/config.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "src/output/manifest.h"
#include "src/plan/plan.h"
#include "src/plan/plan_cost.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kPreviewBytesMax = 200;
constexpr size_t kPreviewLabelWidth = 12;
constexpr size_t kEntriesShown = 10;  // of a list

std::string PreviewValueText(const Json& value) {
  return base::Printable(json::Dump(value), kPreviewBytesMax);
}

// The entries of a list or object that the other one lacks; of another value the value itself.
std::vector<std::string> EntriesLeft(const Json& value, const Json& other) {
  std::vector<std::string> entries;
  if (value.is_array() && other.is_array()) {
    std::set<std::string> there;
    for (const Json& entry : other) there.insert(json::Dump(entry));
    for (const Json& entry : value)
      if (!there.contains(json::Dump(entry))) entries.push_back(PreviewValueText(entry));
  } else if (value.is_object() && other.is_object()) {
    for (const auto& [name, entry] : value.items())
      if (const auto found = other.find(name); found == other.end() || *found != entry)
        entries.push_back(PreviewValueText(name) + (entry.empty() ? "" : ": " + PreviewValueText(entry)));
  } else {
    entries.push_back(PreviewValueText(value));
  }
  return entries;
}

void AddEntries(const char* sign, Colour colour, const std::string& key, const std::vector<std::string>& entries,
                std::vector<std::vector<Cell>>* rows) {
  for (size_t i = 0; i < std::min(entries.size(), kEntriesShown); ++i)
    rows->push_back({{sign + key, colour}, {entries[i], colour}});
  if (entries.size() > kEntriesShown)
    rows->push_back({{sign + key, colour}, {fmt::format("and {} more", entries.size() - kEntriesShown), colour}});
}

std::string DifferencesText(const Json& differences) {
  std::vector<std::vector<Cell>> rows;
  for (const Json& each : differences) {
    if (!each.is_object() || !each.contains("was") || !each.contains("now")) continue;
    const std::string key = Text(each, "key");
    const std::vector<std::string> gone = EntriesLeft(each["was"], each["now"]);
    const std::vector<std::string> come = EntriesLeft(each["now"], each["was"]);
    AddEntries("- ", Colour::kRed, key, gone, &rows);
    AddEntries("+ ", Colour::kGreen, key, come, &rows);
    if (gone.empty() && come.empty()) rows.push_back({{"~ " + key}, {"same entries, different order"}});
  }
  return rows.empty() ? "" : TableText(rows);
}

Cell CountCell(const char* sign, int64_t count, Colour colour) {
  return count <= 0 ? Cell{"-", Colour::kDim} : Cell{sign + std::to_string(count), colour};
}

// The time that a kind takes in a collected step.
Cell MeasuredCell(const Json& kind) {
  const double seconds = Number(kind, "seconds_per_collected_step", -1);
  return seconds < 0 ? Cell{"unknown", Colour::kDim} : Cell{fmt::format("{:.3f} ms per step", seconds * 1e3)};
}

std::string SitesText(const Json& sites) {
  if (sites.empty()) return "";
  std::vector<std::vector<Cell>> rows = {HeadingRow({"SITES", "ADDED", "REMOVED", "KEPT", "MEASURED"})};
  for (const Json& each : sites)
    rows.push_back({{Text(each, "kind")},
                    CountCell("+", Whole(each, "added"), Colour::kGreen),
                    CountCell("-", Whole(each, "removed"), Colour::kRed),
                    CountCell("", Whole(each, "kept"), Colour::kPlain),
                    MeasuredCell(each)});
  return TableText(rows);
}

std::string HeadText(const std::string& job, const Json& preview) {
  const std::string with = Text(preview, "compared_with");
  const std::string other = with == "plan"
                                ? fmt::format("the running plan {}", Whole(Part(preview, "running"), "plan_id"))
                            : with == "file" ? "its config file (no plan is running)"
                                             : "an empty config (no plan is running, and its config file is invalid)";
  const bool is_same = Text(preview, "state") == "same";
  const std::string word = is_same ? "same" : "differs";
  return Coloured(word, is_same ? Colour::kGreen : Colour::kYellow) +
         fmt::format("{:{}}job {}, compared with {}\n", "", kPreviewLabelWidth - word.size(), job, other);
}

std::string EffectText(const Json& preview) {
  const std::string effect = Text(preview, "effect");
  const Json& proposed = Part(preview, "proposed");
  std::string text = "if saved    ";
  if (effect == "stops") return text + "collecting stops at the next step\n";
  if (effect == "nothing") return text + "the collection does not change\n";
  if (effect == "at_restart")
    return text + "no change now: the mode is static, the job reads the file when it starts\n";
  text += "a new window begins at the next step";
  if (!proposed.empty() && !IsTrue(proposed, "rank_collects")) return text + "; this rank is not in module_ranks\n";
  if (const int64_t times = Whole(proposed, "collect_times"); times > 0 && times < config::kCollectTimesForever)
    text += fmt::format(", {} steps collected", times);
  if (const int64_t interval = Whole(proposed, "step_interval"); interval > 1)
    text += fmt::format(", one in {}", interval);
  return text + "\n";
}

std::string Change(const std::string& was, const std::string& now) {
  return was == now ? now : was + " -> " + now;
}

std::string CostText(const Json& running, const Json& proposed) {
  if (running.empty() && proposed.empty()) return "";
  const auto count = [](const Json& side, const char* name) {
    return std::to_string(std::max<int64_t>(Whole(side, name), 0));
  };
  const auto megabytes = [](const Json& side) {
    return fmt::format("{:.1f}", Number(side, "parameter_bytes_per_step") / 1e6);
  };
  return fmt::format(
      "per collected step: {} sites, {} rows, {} MB of parameters, gradients and moments read (plus "
      "activations)\n",
      Change(count(running, "sites"), count(proposed, "sites")),
      Change(count(running, "rows_per_step"), count(proposed, "rows_per_step")),
      Change(megabytes(running), megabytes(proposed)));
}

std::string MeasuredText(const Json& measured) {
  if (measured.empty()) return "";
  return fmt::format("measured: a collected step of plan {} took {:.3f} ms of training time\n",
                     Whole(measured, "plan_id"), Number(measured, "seconds_per_collected_step") * 1e3);
}

std::string Paragraph(const std::string& text) {
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string PreviewText(const std::string& job, const Json& preview) {
  return HeadText(job, preview) + EffectText(preview) + Paragraph(DifferencesText(List(preview, "differences"))) +
         Paragraph(SitesText(List(preview, "sites"))) +
         Paragraph(CostText(Part(preview, "running"), Part(preview, "proposed"))) +
         MeasuredText(Part(preview, "measured"));
}

namespace {

struct PlanArguments {
  std::string file;
  std::string sites;  // a run's manifest.json; empty: the model is not known
  std::string job;    // a JOB argument of FindJob; empty: the job that watches the file, or the only one
  // For a future job: with either option the only job is not queried, unless it watches the file.
  int rank = 0;
  bool dynamic = false;
  bool json = false;
};

Result<Json> RequestPreview(const control_socket::FoundJob& job, const std::string& text) {
  const Result<http::Reply> reply = control_socket::ClientOf(job).Ask("POST", "/v1/plan", text);
  if (!reply.ok()) return Status(StatusCode::kUnavailable, reply.status().message());
  const Result<Json> answer = json::Parse(reply.value().body);
  if (reply.value().status == 404 || reply.value().status == 405)
    return Status(StatusCode::kUnavailable, "job " + job.name + " runs an older stepwatch without plan previews");
  if (reply.value().status != 200 || !answer.ok() || Text(answer.value(), "state").empty()) {
    const std::string why = answer.ok() ? Text(Part(answer.value(), "error"), "message") : "";
    return Status(StatusCode::kUnavailable,
                  "job " + job.name + " returned no preview: " + (why.empty() ? "invalid response" : why));
  }
  return answer;
}

void PrintLines(const std::string& file, const control_socket::FoundJob& job, const Json& answer) {
  for (const Json& warning : List(answer, "warnings"))
    base::Print(stdout, "%s\n", PlacedLine(file, "warning", PlaceOf(warning), Text(warning, "message")).c_str());
  if (Text(answer, "state") == "invalid") {
    const Json& error = Part(answer, "error");
    base::Print(stderr, "%s\n", PlacedLine(file, "error", PlaceOf(error), Text(error, "message")).c_str());
  } else {
    base::Print(stdout, "%s", PreviewText(job.name, answer).c_str());
  }
}

int RunPlanOfJob(const std::string& file, const control_socket::FoundJob& job, bool json) {
  const Result<std::string> text = ReadGivenText(file);
  if (!text.ok()) {
    base::Print(stderr, "%s\n", PlacedLine(file, "error", {}, text.status().message()).c_str());
    return kExitInvalid;
  }
  const Result<Json> answer = RequestPreview(job, text.value());
  if (!answer.ok()) return NoJob(answer.status(), json);
  if (json)
    base::Print(stdout, "%s\n", json::Dump(answer.value()).c_str());
  else
    PrintLines(file, job, answer.value());
  const std::string state = Text(answer.value(), "state");
  return state == "same" ? kExitDone : state == "differs" ? kExitDiffers : kExitInvalid;
}

// Mean rows and bytes of a collected step, over the steps of a long window.
std::pair<double, double> MeanOf(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs) {
  double rows = 0, bytes = 0;
  for (size_t group = 0; group < costs.size(); ++group) {
    if (costs[group].sites == 0) continue;
    const double every = group == 0 ? 1 : static_cast<double>(plan.layout.groups[group - 1].every);
    rows += static_cast<double>(costs[group].rows) / every;
    bytes += static_cast<double>(costs[group].bytes) / every;
  }
  return {rows, bytes};
}

const std::vector<Stat>& OpsOf(const plan::Plan& plan, size_t group) {
  const std::vector<Stat>& ops = plan.layout.groups[group].stats;
  return ops.empty() ? plan.layout.stats : ops;
}

std::string OpsText(const std::vector<Stat>& ops) {
  std::vector<std::string> names;
  for (Stat stat : ops) names.emplace_back(StatName(stat));
  return base::Joined(names, ", ");
}

void PrintGroups(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs) {
  const auto& groups = plan.config.own.sites;
  for (size_t i = 0; i < groups.size(); ++i) {
    const plan::PlanCost& cost = costs[i + 1];
    base::Print(stdout, "sites[%zu]    \"%s\": ", i, base::Printable(groups[i].match).c_str());
    if (groups[i].every == 0) {
      base::Print(stdout, "not collected\n");
      continue;
    }
    const std::string when =
        groups[i].every == 1 ? "each collected step" : "one of " + std::to_string(groups[i].every) + " collected steps";
    base::Print(stdout, "%s\n",
                fmt::format("{} sites, {} rows, {:.1f} MB in {}; {}", cost.sites, cost.rows,
                            static_cast<double>(cost.bytes) / 1e6, when, OpsText(OpsOf(plan, i)))
                    .c_str());
  }
}

void PrintMean(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs) {
  if (plan.layout.groups.empty()) return;
  const auto [rows, bytes] = MeanOf(plan, costs);
  base::Print(stdout, "that is the first one, with all groups; in the mean %.1f rows, %.1f MB\n", rows, bytes / 1e6);
}

void AddGroups(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs, Json* json) {
  if (plan.layout.groups.empty()) return;
  const auto [rows, bytes] = MeanOf(plan, costs);
  (*json)["mean_rows_per_step"] = rows;
  (*json)["mean_parameter_bytes_per_step"] = bytes;
  Json& list = (*json)["groups"] = Json::array();
  for (size_t i = 0; i < plan.layout.groups.size(); ++i) {
    Json group = {{"match", plan.config.own.sites[i].match},
                  {"every", plan.config.own.sites[i].every},
                  {"sites", costs[i + 1].sites},
                  {"rows", costs[i + 1].rows},
                  {"parameter_bytes", costs[i + 1].bytes}};
    for (Stat stat : OpsOf(plan, i)) group["ops"].push_back(StatName(stat));
    list.push_back(std::move(group));
  }
}

constexpr size_t kManifestBytesMax = size_t{256} << 20;
constexpr int64_t kStepsShown = 5;

struct Preview {
  ConfigFile file;
  std::optional<output::ManifestSites> job;
  std::optional<plan::CompiledPlan> compiled;  // with a job
};

Result<Preview> MakePreview(const PlanArguments& arguments) {
  auto file = ReadGivenConfig(arguments.file);
  if (!file.ok()) return file.status();
  Preview preview{std::move(file).value(), {}, {}};
  if (arguments.sites.empty()) return preview;
  auto text = base::ReadFile(arguments.sites, kManifestBytesMax);
  if (!text.ok()) return text.status();
  auto job = output::SitesFromManifest(text.value());
  if (!job.ok()) return Status(job.status().code(), arguments.sites + ": " + job.status().message());
  preview.job = std::move(job).value();
  const plan::PlanInputs inputs{1, arguments.rank, arguments.dynamic, preview.file.sha256};
  auto compiled = plan::CompilePlan(preview.file.parsed.config, preview.job->sites, inputs);
  if (!compiled.ok()) return compiled.status();
  preview.compiled = std::move(compiled).value();
  return preview;
}

// The first collected steps, and how many more; "edit" stands for the step after the accepted edit.
std::string StepsText(const config::Config& config, bool dynamic) {
  if (dynamic && !config.dynamic_on) return "none: dynamic_on is false";
  if (config.collect_times == 0) return "none: collect_times is 0";
  std::string text;
  const int64_t shown = std::min(kStepsShown, config.collect_times);
  for (int64_t i = 0; i < shown; ++i) {
    const int64_t offset = i * config.step_interval;
    if (i > 0) text += ", ";
    text += dynamic ? (offset == 0 ? std::string("e") : fmt::format("e+{}", offset))
                    : fmt::format("{}", config.start_step + offset);
  }
  if (config.collect_times >= config::kCollectTimesForever) {
    text += ", … for the whole run";
  } else if (config.collect_times > shown) {
    text += fmt::format(", … {} in all", config.collect_times);
  }
  return text + (dynamic ? "   (e: the step after the one in which the edit is accepted)" : "");
}

std::array<uint64_t, kSiteKindCount> SitesByKind(const plan::Plan& plan) {
  std::array<uint64_t, kSiteKindCount> counts{};
  for (const PlannedSite& site : plan.layout.sites) ++counts[static_cast<size_t>(site.kind)];
  return counts;
}

void PrintLines(const PlanArguments& arguments, const Preview& preview) {
  const config::Config& config = preview.file.parsed.config;
  for (const config::Warning& warning : preview.file.parsed.warnings)
    base::Print(stdout, "%s\n", PlacedLine(arguments.file, "warning", warning.place, warning.message).c_str());
  base::Print(stdout, "mode        %s\n", arguments.dynamic ? "dynamic" : "static");
  base::Print(stdout, "steps       %s\n", StepsText(config, arguments.dynamic).c_str());
  base::Print(stdout, "statistics  %s\n", OpsText(config.ops).c_str());
  if (config.own.budget)
    base::Print(stdout,
                "budget      %g %% of the training time for measuring; above it fewer steps are collected, then fewer "
                "kinds\n",
                config.own.budget->percent);
  if (!preview.compiled) {
    base::Print(stdout, "sites       unknown; --sites MANIFEST names a run's manifest.json\n");
    return;
  }
  for (const config::Warning& warning : preview.compiled->warnings)
    base::Print(stdout, "%s\n", PlacedLine(arguments.file, "warning", warning.place, warning.message).c_str());
  const plan::Plan& plan = *preview.compiled->plan;
  if (!plan.rank_writes) base::Print(stdout, "rank %d      not in module_ranks: it collects no data\n", arguments.rank);
  const auto counts = SitesByKind(plan);
  for (int kind = 0; kind < kSiteKindCount; ++kind)
    if (counts[static_cast<size_t>(kind)] > 0)
      base::Print(stdout, "%-22s %llu sites\n", SiteKindName(static_cast<SiteKind>(kind)),
                  static_cast<unsigned long long>(counts[static_cast<size_t>(kind)]));
  const std::vector<plan::PlanCost> costs = plan::CostsByGroup(plan, preview.job->sites, preview.job->grad_acc_steps);
  PrintGroups(plan, costs);
  const plan::PlanCost all = plan::CostOfAll(costs);
  base::Print(stdout,
              "a collected step: %llu rows, %.1f MB of parameters, gradients and moments read (plus activations)\n",
              static_cast<unsigned long long>(all.rows), static_cast<double>(all.bytes) / 1e6);
  PrintMean(plan, costs);
}

void PrintJson(const PlanArguments& arguments, const Preview& preview) {
  const config::Config& config = preview.file.parsed.config;
  Json json = {{"sha256", preview.file.sha256},
               {"mode", arguments.dynamic ? "dynamic" : "static"},
               {"start_step", config.start_step},
               {"step_interval", config.step_interval},
               {"collect_times", config.collect_times}};
  if (config.own.budget) json["budget_percent"] = config.own.budget->percent;
  json["ops"] = Json::array();
  for (Stat stat : config.ops) json["ops"].push_back(StatName(stat));
  if (preview.compiled) {
    const plan::Plan& plan = *preview.compiled->plan;
    json["sites"] = Json::object();
    const auto counts = SitesByKind(plan);
    for (int kind = 0; kind < kSiteKindCount; ++kind)
      json["sites"][SiteKindName(static_cast<SiteKind>(kind))] = counts[static_cast<size_t>(kind)];
    const std::vector<plan::PlanCost> costs = plan::CostsByGroup(plan, preview.job->sites, preview.job->grad_acc_steps);
    json["rows_per_step"] = plan::CostOfAll(costs).rows;
    json["parameter_bytes_per_step"] = plan::CostOfAll(costs).bytes;
    AddGroups(plan, costs, &json);
  }
  PrintObject(json);
}

// The job that `apply` would send the file to, so that both agree.
std::optional<control_socket::FoundJob> JobAsked(const PlanArguments& arguments) {
  if (!arguments.sites.empty()) return std::nullopt;
  const std::vector<control_socket::FoundJob> jobs = AllJobs();
  if (jobs.empty() || arguments.dynamic || arguments.rank != 0) return JobThatWatches(jobs, arguments.file);
  Result<control_socket::FoundJob> job = JobForFile(jobs, arguments.file);
  if (job.ok()) return std::move(job).value();
  base::Print(stderr, "stepwatch: not compared with a job: %s\n", job.status().message().c_str());
  return std::nullopt;
}

// 0: printed, or the same as the running plan; 1: different; 2: the config or the manifest is unusable; 6: the job does
// not answer. With a manifest no job is queried.
int RunPlan(const PlanArguments& arguments) {
  if (!arguments.job.empty()) {
    const Result<control_socket::FoundJob> job = FindJob(arguments.job);
    return job.ok() ? RunPlanOfJob(arguments.file, job.value(), arguments.json) : NoJob(job.status(), arguments.json);
  }
  if (const auto job = JobAsked(arguments)) return RunPlanOfJob(arguments.file, *job, arguments.json);
  const Result<Preview> preview = MakePreview(arguments);
  if (!preview.ok()) {
    base::Print(stderr, "%s\n",
                PlacedLine(arguments.file, "error", preview.status().place(), preview.status().message()).c_str());
    return kExitInvalid;
  }
  if (arguments.json) {
    PrintJson(arguments, preview.value());
  } else {
    PrintLines(arguments, preview.value());
  }
  return kExitDone;
}

}  // namespace

void AddPlan(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App* verb =
      app->add_subcommand("plan", "Show what a config would change in a running job, or what a new job would collect");
  verb->add_option("FILE", arguments->file, "config.json; - reads standard input")->required();
  CLI::Option* job =
      verb->add_option("--job", arguments->job,
                       "compare with the plan of this job: its name in `stepwatch ps`, a pid, a socket, a "
                       "config file or the prefix of a run id (default: the job that watches FILE, else the "
                       "only job)");
  verb->add_option("--sites", arguments->sites,
                   "use the model in this manifest.json of a run instead of a job; adds sites, rows and bytes per step")
      ->excludes(job);
  verb->add_option("--rank", arguments->rank, "rank for which module_ranks is evaluated")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53));
  verb->add_flag("--dynamic", arguments->dynamic, "assume dynamic mode");
  verb->add_flag("--json", arguments->json, "one JSON object instead of lines");
  verb->footer(
      "The job compiles the config for its model and changes nothing. Without a job, the exit code is 0 or 2.\n"
      "Examples:\n"
      "  stepwatch plan gradients.json --job config.json\n"
      "  stepwatch plan config.json --sites monitor_output/Dec03_21-34-40-rank0-1a2b3c4d/manifest.json\n"
      "Exit codes: 0 same as the running plan, 1 different, 2 invalid FILE, 6 no such job, or the job does not "
      "respond.");
  verb->callback([=] { *exit_code = RunPlan(*arguments); });
}

}  // namespace stepwatch::cli
