#include "controller/reload/disk_guard.h"

#include <utility>

namespace stepwatch::reload {

namespace {

using Level = base::DiskMeter::Level;

}  // namespace

void DiskGuard::OnLevel() {
  const Level level = storage_->meter()->level();
  if (level <= std::exchange(reported_, level)) return;
  if (level == Level::kNear)
    reports_->Emit(EventKind::kLimited, limits_->DiskText() + "; when they are used up, the collection ends");
  else
    reports_->Emit(
        EventKind::kLimited,
        limits_->DiskText() + ": the collection ends, and no more rows are written until the job is started again");
  StopIfUsedUp();
}

void DiskGuard::StopIfUsedUp() {
  if (reported_ != Level::kUsedUp) return;
  const MachineState& state = controller_->state();
  const std::optional<MachinePlan>& newest = state.armed ? state.armed : state.window;
  const Edit* source = newest ? controller_->plans().Find(newest->plan_id) : nullptr;
  if (source == nullptr || !PlanLimits::WritesFiles(*source->compiled.plan)) return;
  resampler_->Drop();
  controller_->Feed(LimitReached{});
}

}  // namespace stepwatch::reload
