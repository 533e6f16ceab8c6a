#include "controller/reload/edit_pipeline.h"

#include <utility>

#include "src/config/parse_config.h"

namespace stepwatch::reload {

bool EditPipeline::LooksWhole(const std::string& text) {
  parsed_ = ParsedText{text, config::ParseConfig(text)};
  return parsed_->parsed.status().code() != StatusCode::kInvalid;
}

Edit EditPipeline::Parse(const std::string& sha256, const std::string& text) {
  Edit edit;
  edit.sha256 = sha256;
  edit.text = text;
  edit.parsed = parsed_ && parsed_->text == text ? std::move(parsed_->parsed) : config::ParseConfig(text);
  parsed_.reset();
  return edit;
}

EditIntent EditPipeline::Classify(Edit* edit, PlanId plan_id) const {
  edit->intent = EditIntent::kRefused;
  if (!edit->parsed.ok()) {
    edit->refusal = edit->parsed.status();
    edit->refused_for = edit->refusal.code() == StatusCode::kInvalid ? RefusalReason::kSyntax : RefusalReason::kValue;
    return edit->intent;
  }
  const config::Config& config = edit->parsed.value().config;
  if (dynamic_ && !config.dynamic_on)
    edit->intent = EditIntent::kOff;
  else if (config.collect_times == 0)
    edit->intent = dynamic_ ? EditIntent::kEmpty : EditIntent::kOff;
  else if (Compile(edit, plan_id)) {
    edit->refusal = limits_->Check(*edit->compiled.plan);
    edit->refused_for = RefusalReason::kLimit;
    if (edit->refusal.ok()) edit->intent = EditIntent::kRun;
  }
  return edit->intent;
}

bool EditPipeline::Compile(Edit* edit, PlanId plan_id) const {
  plan::PlanInputs inputs;
  inputs.plan_id = plan_id;
  inputs.rank = rank_;
  inputs.dynamic = dynamic_;
  inputs.config_sha256 = edit->sha256;
  inputs.sampling = edit->sampling;
  auto compiled = plan::CompilePlan(edit->parsed.value().config, *sites_, inputs);
  edit->refusal = compiled.status();
  edit->refused_for = RefusalReason::kValue;
  if (!compiled.ok()) return false;
  edit->compiled = std::move(compiled).value();
  edit->sites = sites_;
  return true;
}

}  // namespace stepwatch::reload
