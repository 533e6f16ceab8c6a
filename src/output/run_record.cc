#include "src/output/run_record.h"

#include <ctime>
#include <utility>

#include "src/base/time_text.h"

namespace stepwatch::output {
namespace {

constexpr size_t kPlansKept = 1000;
constexpr size_t kSegmentsKept = 1000;

}  // namespace

RunRecord::RunRecord(const Options& options, bool dynamic) {
  manifest_.run_id = options.run_id;
  manifest_.rank = options.rank;
  manifest_.world_size = options.world_size;
  manifest_.process = base::ThisProcess();
  manifest_.grad_acc_steps = options.grad_acc_steps;
  manifest_.started = base::LocalText(std::time(nullptr));
  manifest_.config_path = options.config_path;
  manifest_.dynamic = dynamic;
}

void RunRecord::AddPlan(const plan::Plan& plan) {
  ManifestPlan entry;
  entry.plan_id = plan.layout.plan_id;
  entry.config_sha256 = plan.config_sha256;
  entry.state = "armed";
  if (plan.config.own.budget) {
    entry.budget = ManifestBudget{plan.config.own.budget->percent, plan.rule.interval, {}, ""};
    for (const SiteKind kind : plan.sampling.left_out) entry.budget->left_out.emplace_back(SiteKindName(kind));
  }
  manifest_.plans.push_back(std::move(entry));
  if (manifest_.plans.size() > kPlansKept) manifest_.plans.erase(manifest_.plans.begin());
}

void RunRecord::AddSegment(ManifestSegment segment) {
  manifest_.segments.push_back(std::move(segment));
  if (manifest_.segments.size() > kSegmentsKept) manifest_.segments.erase(manifest_.segments.begin());
}

void RunRecord::Update(PlanId plan_id, const std::function<void(ManifestPlan&)>& change) {
  for (ManifestPlan& plan : manifest_.plans)
    if (plan.plan_id == plan_id) change(plan);
}

}  // namespace stepwatch::output
