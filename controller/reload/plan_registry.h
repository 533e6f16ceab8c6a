// The plans that are published and not over: the edit of each, the pending plan for the step thread, and the slot in
// which the newest waits. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <variant>

#include "controller/reload/edit_pipeline.h"
#include "controller/reload/machine.h"
#include "src/drain/drain.h"
#include "src/step/data_plane.h"
#include "src/step/pending_plan.h"
#include "stepwatch/options.h"

namespace stepwatch::reload {

class PlanRegistry {
 public:
  // `on_replaced` is called for each plan that a newer one has replaced in the slot; it must not throw. The options,
  // the data plane and the drain must outlive the registry.
  PlanRegistry(const Options& options, bool dynamic, step::DataPlane* data_plane, drain::Drain* drain,
               std::function<void(PlanId)> on_replaced);

  const Edit& Source(PlanId plan_id) const { return sources_.at(plan_id); }
  // Null: the plan is over.
  const Edit* Find(PlanId plan_id) const {
    const auto source = sources_.find(plan_id);
    return source == sources_.end() ? nullptr : &source->second;
  }
  // Keeps an existing source: the plan was compiled again.
  const Edit& AddSource(PlanId plan_id, const Edit& edit) { return sources_.try_emplace(plan_id, edit).first->second; }
  void SetSource(PlanId plan_id, const Edit& edit) { sources_.insert_or_assign(plan_id, edit); }
  void DiscardOldSources(const MachineState& state);

  // Begins a window that this rank decides on alone.
  std::unique_ptr<step::PendingPlan> MakeWindow(std::shared_ptr<const plan::Plan> plan) const;
  // Continues the window in force.
  std::unique_ptr<step::PendingPlan> MakeContinuation(std::shared_ptr<const plan::Plan> plan) const;

  // A plan or a stop waits in the slot from now on, for its at_step. Takes ownership.
  void PutInSlot(std::unique_ptr<step::PendingPlan> plan) noexcept;
  // Frees plans that the step thread has found replaced, or has finished with.
  void TidySlot() noexcept;

 private:
  std::unique_ptr<step::PendingPlan> Make(std::shared_ptr<const plan::Plan> plan,
                                          std::variant<step::NewWindow, step::Continue, step::Stop> effect) const;
  void DiscardReplaced(std::unique_ptr<step::PendingPlan> plan) noexcept;

  const Options& options_;
  const bool dynamic_;
  step::DataPlane* const data_plane_;
  drain::Drain* const drain_;
  const std::function<void(PlanId)> on_replaced_;
  std::map<PlanId, Edit> sources_;
};

}  // namespace stepwatch::reload
