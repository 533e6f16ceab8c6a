// The effect that a config would have on a running job, compared with the running plan: POST /v1/plan.
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

// The running plan or the proposed one.
struct PlanSide {
  std::string config_sha256;
  PlanId plan_id = 0;  // of the running plan; 0: proposed plan
  int64_t collect_times = 0;
  int64_t step_interval = 1;
  bool rank_collects = true;  // false: module_ranks excludes this rank
  plan::PlanCost cost;        // per collected step of this rank
};

// The newest plan with a known cost: it has been drained.
struct MeasuredPlan {
  PlanId plan_id = 0;
  int64_t collected = 0;
  double seconds = 0;  // total of threads of the trainer
};

struct PlanPreview {
  enum class State : uint8_t {
    kSame,     // same values of the same keys, and the same sites
    kDiffers,  // from the running plan or, without one, from the config file
    kInvalid,  // it would be rejected
  };
  // The effect of saving the text.
  enum class Effect : uint8_t {
    kNothing,    // the file already has this text, or no plan runs before or after
    kCollects,   // a new window begins, counting from 0
    kStops,      // the running plan ends at the next boundary
    kAtRestart,  // no effect now: the mode is static
  };
  enum class ComparedWith : uint8_t { kPlan, kFile, kDefaults };

  State state = State::kSame;
  Effect effect = Effect::kNothing;
  ComparedWith compared_with = ComparedWith::kDefaults;
  std::string sha256;  // of the text
  Status refusal;      // kInvalid: the reason
  std::vector<config::Warning> warnings;
  std::vector<config::KeyDifference> differences;
  std::vector<plan::SiteChanges> sites;
  std::optional<PlanSide> running;   // armed or in force
  std::optional<PlanSide> proposed;  // nullopt: it would collect nothing
  std::optional<MeasuredPlan> measured;
};

}  // namespace stepwatch::control_socket
