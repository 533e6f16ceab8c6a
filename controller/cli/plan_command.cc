#include "controller/cli/plan_command.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "controller/cli/config_file.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/find_job.h"
#include "controller/cli/plan_groups.h"
#include "controller/cli/plan_job.h"
#include "controller/cli/print_answer.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/output/manifest.h"
#include "src/plan/plan.h"

namespace stepwatch::cli {
namespace {

using Json = nlohmann::ordered_json;

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

// Where `apply` would put the file, so that this says what it would do.
std::optional<control_socket::FoundJob> JobAsked(const PlanArguments& arguments) {
  if (!arguments.sites.empty()) return std::nullopt;
  const std::vector<control_socket::FoundJob> jobs = AllJobs();
  if (jobs.empty() || arguments.dynamic || arguments.rank != 0) return JobThatWatches(jobs, arguments.file);
  Result<control_socket::FoundJob> job = JobForFile(jobs, arguments.file);
  if (job.ok()) return std::move(job).value();
  base::Print(stderr, "stepwatch: not compared with a job: %s\n", job.status().message().c_str());
  return std::nullopt;
}

}  // namespace

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

}  // namespace stepwatch::cli
