#include "controller/control_socket/plan_preview.h"

#include <nlohmann/json.hpp>

#include "controller/control_socket/json_values.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::control_socket {
namespace {

const char* NameOf(PlanPreview::State state) {
  switch (state) {
    case PlanPreview::State::kSame: break;
    case PlanPreview::State::kDiffers: return "differs";
    case PlanPreview::State::kInvalid: return "invalid";
  }
  return "same";
}

const char* NameOf(PlanPreview::Effect effect) {
  switch (effect) {
    case PlanPreview::Effect::kNothing: break;
    case PlanPreview::Effect::kCollects: return "collects";
    case PlanPreview::Effect::kStops: return "stops";
    case PlanPreview::Effect::kAtRestart: return "at_restart";
  }
  return "nothing";
}

const char* NameOf(PlanPreview::ComparedWith compared_with) {
  switch (compared_with) {
    case PlanPreview::ComparedWith::kPlan: break;
    case PlanPreview::ComparedWith::kFile: return "file";
    case PlanPreview::ComparedWith::kDefaults: return "defaults";
  }
  return "plan";
}

Json SideJson(const std::optional<PlanSide>& side) {
  if (!side) return Json();
  Json json = Json::object();
  if (side->plan_id != 0) json["plan_id"] = side->plan_id;
  json["config_sha256"] = side->config_sha256;
  json["collect_times"] = side->collect_times;
  json["step_interval"] = side->step_interval;
  json["rank_collects"] = side->rank_collects;
  json["sites"] = side->cost.sites;
  json["rows_per_step"] = side->cost.rows;
  json["parameter_bytes_per_step"] = side->cost.bytes;
  return json;
}

Json ValueJson(const std::string& text) {
  const Result<Json> json = json::Parse(text);
  return json.ok() ? json.value() : Json();
}

}  // namespace

Json PlanPreviewJson(const PlanPreview& preview) {
  Json json = {{"version", http::kAnswerVersion}, {"state", NameOf(preview.state)}, {"sha256", preview.sha256}};
  json["warnings"] = Json::array();
  for (const config::Warning& warning : preview.warnings)
    json["warnings"].push_back(http::PlaceJson(warning.place, warning.message));
  if (preview.state == PlanPreview::State::kInvalid) {
    json["error"] = http::PlaceJson(preview.refusal.place(), preview.refusal.message());
    return json;
  }
  json["effect"] = NameOf(preview.effect);
  json["compared_with"] = NameOf(preview.compared_with);
  json["differences"] = Json::array();
  for (const config::KeyDifference& each : preview.differences)
    json["differences"].push_back({{"key", each.key}, {"was", ValueJson(each.was)}, {"now", ValueJson(each.now)}});
  json["sites"] = Json::array();
  for (const plan::SiteChanges& each : preview.sites)
    json["sites"].push_back(
        {{"kind", SiteKindName(each.kind)}, {"added", each.added}, {"removed", each.removed}, {"kept", each.kept}});
  json["running"] = SideJson(preview.running);
  json["proposed"] = SideJson(preview.proposed);
  if (preview.measured && preview.measured->collected > 0)
    json["measured"] = {
        {"plan_id", preview.measured->plan_id},
        {"collected", preview.measured->collected},
        {"seconds_per_collected_step", preview.measured->seconds / static_cast<double>(preview.measured->collected)}};
  return json;
}

}  // namespace stepwatch::control_socket
