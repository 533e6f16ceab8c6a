#include "controller/reload/plan_registry.h"

#include <algorithm>
#include <utility>

namespace stepwatch::reload {

PlanRegistry::PlanRegistry(const Options& options, bool dynamic, step::DataPlane* data_plane, drain::Drain* drain,
                           std::function<void(PlanId)> on_replaced)
    : options_(options),
      dynamic_(dynamic),
      data_plane_(data_plane),
      drain_(drain),
      on_replaced_(std::move(on_replaced)) {}

void PlanRegistry::DiscardOldSources(const MachineState& state) {
  std::erase_if(sources_, [&](const auto& source) {
    const PlanId id = source.first;
    const bool in_window = state.window && (state.window->plan_id == id || state.window->continuation == id);
    return !in_window && std::none_of(state.published.begin(), state.published.end(),
                                      [&](const MachinePlan& plan) { return plan.plan_id == id; });
  });
}

std::unique_ptr<step::PendingPlan> PlanRegistry::MakeWindow(std::shared_ptr<const plan::Plan> plan) const {
  const step::StartRule start = dynamic_ ? step::StartRule::kWhenApplied : step::StartRule::kAsWritten;
  return Make(std::move(plan), step::NewWindow{start});
}

std::unique_ptr<step::PendingPlan> PlanRegistry::MakeContinuation(std::shared_ptr<const plan::Plan> plan) const {
  return Make(std::move(plan), step::Continue{});
}

std::unique_ptr<step::PendingPlan> PlanRegistry::Make(
    std::shared_ptr<const plan::Plan> plan, std::variant<step::NewWindow, step::Continue, step::Stop> effect) const {
  std::shared_ptr<step::Pipeline> pipeline =
      step::MakePipeline(std::move(plan), options_.grad_acc_steps, options_.ring_bytes_max);
  std::unique_ptr<step::BegunPlan> stream = drain_->MakeStream(pipeline);
  return std::make_unique<step::PendingPlan>(effect, std::move(pipeline), std::move(stream));
}

void PlanRegistry::PutInSlot(std::unique_ptr<step::PendingPlan> plan) noexcept {
  DiscardReplaced(data_plane_->plans.slot().Publish(std::move(plan)));
  TidySlot();
}

void PlanRegistry::TidySlot() noexcept {
  while (auto replaced = data_plane_->plans.slot().TakeSuperseded()) DiscardReplaced(std::move(replaced));
  data_plane_->plans.Reclaim();
}

void PlanRegistry::DiscardReplaced(std::unique_ptr<step::PendingPlan> plan) noexcept {
  if (plan != nullptr && plan->pipeline != nullptr) on_replaced_(plan->plan().layout.plan_id);
}

}  // namespace stepwatch::reload
