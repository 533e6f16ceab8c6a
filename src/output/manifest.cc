#include "src/output/manifest.h"

#include <nlohmann/json.hpp>

#include "src/base/text.h"
#include "stepwatch/version.h"

namespace stepwatch::output {
namespace {

using Json = nlohmann::ordered_json;

// Names come from users' models: what is not UTF-8 is replaced, never thrown over.
std::string Dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json SitesJson(const SiteIndex& sites) {
  Json modules = Json::array();
  for (const ModuleEntry& module : sites.modules)
    modules.push_back(
        {{"chunk", module.chunk}, {"name", module.name}, {"type", module.type}, {"watchable", module.watchable}});
  Json parameters = Json::array();
  for (const ParameterEntry& parameter : sites.parameters)
    parameters.push_back({{"chunk", parameter.chunk},
                          {"name", parameter.name},
                          {"dtype", DTypeName(parameter.dtype)},
                          {"shape", parameter.shape},
                          {"requires_grad", parameter.requires_grad}});
  return {{"modules", modules},         {"parameters", parameters}, {"operators", sites.operators},
          {"features", sites.features}, {"stacks", sites.stacks},   {"heatmaps", sites.heatmaps}};
}

Json LedgerJson(const Ledger& ledger) {
  Json dropped = Json::object();
  for (int i = 0; i < kDropReasonCount; ++i)
    dropped[DropReasonName(static_cast<DropReason>(i))] = ledger.dropped[static_cast<size_t>(i)];
  return {{"produced", ledger.produced}, {"written", ledger.written}, {"dropped", dropped}};
}

Json PlanJson(const ManifestPlan& plan) {
  Json json = {{"plan", plan.plan_id}, {"config_sha256", plan.config_sha256}, {"state", plan.state}};
  if (plan.first_step >= 0) json["first_step"] = plan.first_step;
  if (plan.last_step >= 0) json["last_step"] = plan.last_step;
  json["collected"] = plan.collected;
  if (!plan.end_reason.empty()) json["end_reason"] = plan.end_reason;
  if (plan.ledger) json["ledger"] = LedgerJson(*plan.ledger);
  if (!plan.write_back.empty()) json["write_back"] = plan.write_back;
  return json;
}

DType DTypeFromName(const std::string& name) {
  for (int i = 0; i < static_cast<int>(DType::kOther); ++i)
    if (name == DTypeName(static_cast<DType>(i))) return static_cast<DType>(i);
  return DType::kOther;
}

ModuleEntry ModuleFromJson(const Json& json) {
  return {json.value("chunk", 0), json.at("name").get<std::string>(), json.value("type", std::string()),
          json.value("watchable", true)};
}

ParameterEntry ParameterFromJson(const Json& json) {
  return {json.value("chunk", 0), json.at("name").get<std::string>(), DTypeFromName(json.value("dtype", std::string())),
          json.value("shape", std::vector<int64_t>()), json.value("requires_grad", true)};
}

}  // namespace

std::string ManifestText(const Manifest& manifest) {
  Json plans = Json::array();
  for (const ManifestPlan& plan : manifest.plans) plans.push_back(PlanJson(plan));
  return Dump({{"format", 1},
               {"stepwatch", kVersion},
               {"run_id", manifest.run_id},
               {"rank", manifest.rank},
               {"world_size", manifest.world_size},
               {"pid", manifest.pid},
               {"grad_acc_steps", manifest.grad_acc_steps},
               {"started", manifest.started},
               {"config", manifest.config_path},
               {"dynamic", manifest.dynamic},
               {"plans", plans},
               {"sites", SitesJson(manifest.sites ? *manifest.sites : SiteIndex())}});
}

Result<ManifestSites> SitesFromManifest(const std::string& text_untrusted) {
  try {
    const Json json = Json::parse(text_untrusted);
    ManifestSites result;
    result.grad_acc_steps = json.value("grad_acc_steps", 1);
    const Json& sites = json.at("sites");
    for (const Json& module : sites.at("modules")) result.sites.modules.push_back(ModuleFromJson(module));
    for (const Json& parameter : sites.at("parameters"))
      result.sites.parameters.push_back(ParameterFromJson(parameter));
    result.sites.operators = sites.value("operators", std::vector<std::string>());
    result.sites.features = sites.value("features", false);
    result.sites.stacks = sites.value("stacks", false);
    result.sites.heatmaps = sites.value("heatmaps", false);
    return result;
  } catch (const Json::exception& error) {
    return Status(StatusCode::kInvalid,
                  std::string("not a manifest.json of a run: ") + base::Printable(error.what(), 200));
  }
}

}  // namespace stepwatch::output
