// Compiles plans again although the file has not changed: the model has grown, or the program has changed the config in
// force. The step thread waits meanwhile, so the plans that it has applied and ended are known exactly, though the
// drain may not have reported them yet. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "controller/reload/edit_pipeline.h"
#include "controller/reload/edit_reporter.h"
#include "controller/reload/plan_controller.h"
#include "controller/reload/plan_limits.h"
#include "controller/reload/resampler.h"
#include "src/config/config.h"
#include "src/step/data_plane.h"
#include "src/step/pending_plan.h"
#include "stepwatch/monitor.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

// The result of a call of the step thread between two edits; the step thread applies it.
struct Replanned {
  Status status;
  std::unique_ptr<step::PendingPlan> continuation;      // continues the window in force; null: no change
  std::unique_ptr<const step::MovedHooks> moved_hooks;  // of the plan in force, for the rest of the running step; null:
                                                        // the model has not grown in a step
};

class Replanner {
 public:
  // All of them must outlive the replanner.
  struct Dependencies {
    step::DataPlane* data_plane = nullptr;
    PlanController* controller = nullptr;
    EditPipeline* pipeline = nullptr;
    const PlanLimits* limits = nullptr;
    Resampler* resampler = nullptr;
    EditReporter* reports = nullptr;
  };

  explicit Replanner(const Dependencies& dependencies);

  // Gives the pipeline the sites of a model that has grown.
  Replanned OnGrown();
  // See Monitor::Amend.
  Replanned Amend(const Amendment& amendment);
  // The step thread has stopped waiting, and does not apply this.
  void Discard(const Replanned& replanned);

 private:
  // Changes the config and returns true; returns false if it needs no change. An empty function changes nothing.
  using Change = std::function<bool(config::Config*)>;
  // Whether a plan that exceeds a limit of the run is refused or allowed; `over_limit` has the limit.
  enum class OverLimit : uint8_t { kRefused, kAllowed };

  // The newest plan of the window in force: one that continues it may still wait for the boundary. 0: none.
  PlanId InForce() const;
  bool IsAboutToBeReplaced() const;
  std::optional<Edit> Changed(PlanId plan_id, const Change& change) const;
  Replanned Replan(const Change& of_plan_in_force, const Change& of_armed_plan, OverLimit over, Status* over_limit);

  step::DataPlane* const data_plane_;
  PlanController* const controller_;
  PlanRegistry& plans_;
  const MachineState& state_;
  EditPipeline* const pipeline_;
  const PlanLimits* const limits_;
  Resampler* const resampler_;
  EditReporter* const reports_;
};

}  // namespace stepwatch::reload
