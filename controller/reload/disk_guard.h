// Ends the collection when the run has used up Limits::bytes_max. Loop thread only.
#pragma once

#include "controller/reload/edit_reporter.h"
#include "controller/reload/plan_controller.h"
#include "controller/reload/plan_limits.h"
#include "controller/reload/resampler.h"
#include "src/output/run_storage.h"

namespace stepwatch::reload {

class DiskGuard {
 public:
  // All of them must outlive the guard.
  DiskGuard(output::RunStorage* storage, const PlanLimits* limits, PlanController* controller, Resampler* resampler,
            EditReporter* reports)
      : storage_(storage), limits_(limits), controller_(controller), resampler_(resampler), reports_(reports) {}

  // The disk usage has crossed a threshold.
  void OnLevel();
  // A previously armed plan may have begun.
  void StopIfUsedUp();

 private:
  output::RunStorage* const storage_;
  const PlanLimits* const limits_;
  PlanController* const controller_;
  Resampler* const resampler_;
  EditReporter* const reports_;
  base::DiskMeter::Level reported_ = base::DiskMeter::Level::kFree;
};

}  // namespace stepwatch::reload
