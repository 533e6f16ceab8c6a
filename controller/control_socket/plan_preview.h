// What a config would mean for a running job, beside what runs: POST /v1/plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/config/difference.h"
#include "src/plan/plan_cost.h"
#include "src/plan/site_changes.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/status.h"

namespace stepwatch::control_socket {

// What one of the two collects.
struct PlanSide {
  std::string config_sha256;
  PlanId plan_id = 0;  // of what runs; 0: of what is proposed
  int64_t collect_times = 0;
  int64_t step_interval = 1;
  bool rank_collects = true;  // false: module_ranks leaves this rank out
  plan::PlanCost cost;        // of a collected step, of this rank
};

// The newest plan whose cost is known: that was drained.
struct MeasuredPlan {
  PlanId plan_id = 0;
  int64_t collected = 0;
  double seconds = 0;  // of threads of the trainer, for all of it
};

struct PlanPreview {
  enum class State : uint8_t {
    kSame,     // the same keys have the same values, and the same sites are collected
    kDiffers,  // from what runs, or, while nothing runs, from what the file holds
    kInvalid,  // it would be refused
  };
  // What happens when the text is saved.
  enum class Effect : uint8_t {
    kNothing,    // it is what the file holds, or nothing is collected before or after
    kCollects,   // a new window begins, and counts from 0
    kStops,      // what runs ends at the next boundary
    kAtRestart,  // nothing now: the mode is static
  };
  enum class ComparedWith : uint8_t { kPlan, kFile, kDefaults };

  State state = State::kSame;
  Effect effect = Effect::kNothing;
  ComparedWith compared_with = ComparedWith::kDefaults;
  std::string sha256;  // of the text
  Status refusal;      // kInvalid
  std::vector<config::Warning> warnings;
  std::vector<config::KeyDifference> differences;
  std::vector<plan::SiteChanges> sites;
  std::optional<PlanSide> running;   // armed or in force
  std::optional<PlanSide> proposed;  // nothing: it would collect nothing
  std::optional<MeasuredPlan> measured;
};

}  // namespace stepwatch::control_socket
