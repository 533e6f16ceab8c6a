#include "controller/api/preview.h"

#include <utility>

#include "controller/reload/edit_pipeline.h"
#include "src/base/sha256.h"

namespace stepwatch::api {
namespace {

using control_socket::PlanPreview;

control_socket::PlanSide SideOf(const plan::Plan& plan, const SiteIndex& sites, int micro_batches) {
  control_socket::PlanSide side;
  side.config_sha256 = plan.config_sha256;
  side.collect_times = plan.config.collect_times;
  side.step_interval = plan.config.step_interval;
  side.rank_collects = plan.rank_writes;
  side.cost = plan::CostOfAll(plan::CostsByGroup(plan, sites, micro_batches));
  return side;
}

PlanPreview::Effect EffectOf(const PreviewInputs& inputs, const reload::Edit& edit) {
  if (edit.sha256 == inputs.file_sha256) return PlanPreview::Effect::kNothing;
  if (!inputs.dynamic) return PlanPreview::Effect::kAtRestart;
  if (edit.intent == reload::EditIntent::kRun) return PlanPreview::Effect::kCollects;
  return inputs.running ? PlanPreview::Effect::kStops : PlanPreview::Effect::kNothing;
}

void CompareKeys(const PreviewInputs& inputs, const config::Config& proposed, PlanPreview* preview) {
  config::Config defaults;
  const config::Config* was = &defaults;
  if (inputs.running) {
    preview->compared_with = PlanPreview::ComparedWith::kPlan;
    was = &inputs.running->plan->config;
  } else if (inputs.in_file) {
    preview->compared_with = PlanPreview::ComparedWith::kFile;
    was = inputs.in_file.get();
  }
  preview->differences = config::DifferencesOf(*was, proposed);
}

bool AreSame(const PlanPreview& preview) {
  for (const plan::SiteChanges& changes : preview.sites)
    if (changes.added > 0 || changes.removed > 0) return false;
  return preview.differences.empty();
}

}  // namespace

PlanPreview MakePreview(const PreviewInputs& inputs, const std::string& text_untrusted) {
  PlanPreview preview;
  preview.sha256 = base::Sha256Hex(text_untrusted);
  preview.measured = inputs.measured;
  reload::EditPipeline pipeline(inputs.rank, inputs.dynamic, inputs.limits);
  pipeline.SetSites(inputs.sites);
  reload::Edit edit = pipeline.Parse(preview.sha256, text_untrusted);
  const bool is_usable = pipeline.Classify(&edit, /*plan_id=*/1) != reload::EditIntent::kRefused;
  if (edit.parsed.ok()) preview.warnings = std::move(edit.parsed.value().warnings);
  preview.warnings.insert(preview.warnings.end(), edit.compiled.warnings.begin(), edit.compiled.warnings.end());
  if (!is_usable) {
    preview.state = PlanPreview::State::kInvalid;
    preview.refusal = edit.refusal;
    return preview;
  }
  preview.effect = EffectOf(inputs, edit);
  CompareKeys(inputs, edit.parsed.value().config, &preview);
  const plan::Plan* running = nullptr;
  if (inputs.running) {
    running = inputs.running->plan.get();
    preview.running = SideOf(*running, *inputs.running->model, inputs.micro_batches);
    preview.running->plan_id = inputs.running->plan_id;
  }
  // Saving the bytes of a window that has ended does not begin it again.
  const bool would_collect = inputs.running || preview.effect != PlanPreview::Effect::kNothing;
  const plan::Plan* proposed = would_collect ? edit.compiled.plan.get() : nullptr;
  if (proposed != nullptr) preview.proposed = SideOf(*proposed, *inputs.sites, inputs.micro_batches);
  preview.sites = plan::SiteChangesOf(running, proposed);
  preview.state = AreSame(preview) ? PlanPreview::State::kSame : PlanPreview::State::kDiffers;
  return preview;
}

}  // namespace stepwatch::api
