// A plan: a config compiled for one model. Immutable; the same inputs give the same plan on every rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/plan/step_rule.h"
#include "stepwatch/hook_table.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"

namespace stepwatch::plan {

// Reduction of collection relative to the config, so that measuring stays within its budget.
struct Sampling {
  int64_t factor = 1;              // multiplies step_interval
  std::vector<SiteKind> left_out;  // kinds that are not collected at all, in the order of SiteKind

  bool operator==(const Sampling&) const = default;
};

struct Plan {
  RecordLayout layout;  // ID, sites, columns
  StepRule rule;
  double eps = 1e-8;
  EpsMode eps_mode = EpsMode::kParity;
  bool rank_writes = true;  // false: module_ranks excludes this rank; no sites, no directory, the same step counting
  FrontEndRequests requests;
  std::string config_sha256;  // of the bytes of the config
  config::Config config;
  Sampling sampling;  // already applied to the rule and the sites
  std::vector<std::string> append_output;

  // The groups of sites collected in a collected step; `round` is its StepRule::Round.
  GroupSet DueGroups(int64_t round) const noexcept;

  // Rows of a collected step that collects all groups, with the job's `micro_batches`; a module called more than once
  // adds rows, and so does a communication operator with more than one tensor.
  uint64_t RowsPerStep(int micro_batches) const;
  // The same for one of its sites.
  uint64_t RowsPerStep(const PlannedSite& site, int micro_batches) const;
  // Observations behind those rows: the calls of a communication operator in one step are one row.
  uint64_t RecordsPerStep(int micro_batches) const;
};

// Inputs of a plan other than config and sites.
struct PlanInputs {
  PlanId plan_id = 1;
  int rank = 0;
  bool dynamic = false;
  std::string config_sha256;
  Sampling sampling{};
};

struct CompiledPlan {
  std::shared_ptr<const Plan> plan;
  std::vector<config::Warning> warnings;  // targets that match nothing, sites that this front end cannot watch
};

// Pure: performs no I/O, reads no clock. Fails only if the plan cannot work at all.
//
// The sites are ordered by owner: the selected modules in index order, each with actv input, actv output, actv_grad
// input, actv_grad output and then its L2 features; then the selected parameters in index order; then the communication
// operators in index order, each before and after. Features and kinds of parameters are in the order of SiteKind.
// `rule.start` is the config's start_step; in dynamic mode the runtime replaces it by the first step of the window.
Result<CompiledPlan> CompilePlan(const config::Config& config, const SiteIndex& sites, const PlanInputs& inputs);

}  // namespace stepwatch::plan
