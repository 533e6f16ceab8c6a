#include "src/output/manifest.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/text.h"
#include "src/json/json.h"
#include "src/output/json_text.h"
#include "stepwatch/version.h"

namespace stepwatch::output {
namespace {

void WriteSites(const SiteIndex& sites, JsonText* json) {
  json->Key("modules");
  json->Array(sites.modules, [json](const ModuleEntry& module) {
    json->Object([&] {
      json->Member("chunk", module.chunk);
      json->Member("name", module.name);
      json->Member("type", module.type);
      json->Member("watchable", module.watchable);
      if (module.as_written) json->Member("as_written", *module.as_written);
    });
  });
  json->Key("parameters");
  json->Array(sites.parameters, [json](const ParameterEntry& parameter) {
    json->Object([&] {
      json->Member("chunk", parameter.chunk);
      json->Member("name", parameter.name);
      json->Member("dtype", DTypeName(parameter.dtype));
      json->Member("shape", parameter.shape);
      json->Member("requires_grad", parameter.requires_grad);
      if (parameter.as_written) json->Member("as_written", *parameter.as_written);
    });
  });
  json->Member("operators", sites.operators);
  json->Member("features", sites.features);
  json->Member("stacks", sites.stacks);
  json->Member("heatmaps", sites.heatmaps);
}

void WriteLedger(const Ledger& ledger, JsonText* json) {
  json->Member("produced", ledger.produced);
  json->Member("written", ledger.written);
  json->Key("dropped");
  json->Object([&] {
    for (int i = 0; i < kDropReasonCount; ++i)
      json->Member(DropReasonName(static_cast<DropReason>(i)), ledger.dropped[static_cast<size_t>(i)]);
  });
}

void WritePlan(const ManifestPlan& plan, JsonText* json) {
  json->Member("plan", plan.plan_id);
  json->Member("config_sha256", plan.config_sha256);
  json->Member("state", plan.state);
  if (plan.first_step >= 0) json->Member("first_step", plan.first_step);
  if (plan.last_step >= 0) json->Member("last_step", plan.last_step);
  json->Member("collected", plan.collected);
  if (!plan.end_reason.empty()) json->Member("end_reason", plan.end_reason);
  if (plan.ledger) {
    json->Key("ledger");
    json->Object([&] { WriteLedger(*plan.ledger, json); });
  }
  if (plan.budget) {
    json->Key("budget");
    json->Object([&] {
      json->Member("percent", plan.budget->percent);
      json->Member("step_interval", plan.budget->step_interval);
      json->Member("left_out", plan.budget->left_out);
      if (!plan.budget->decision.empty()) json->Member("decision", plan.budget->decision);
    });
  }
  if (!plan.write_back.empty()) json->Member("write_back", plan.write_back);
}

void WriteSegment(const ManifestSegment& segment, JsonText* json) {
  json->Member("segment", segment.segment);
  json->Member("last_step", segment.last_step);
  json->Member("files", segment.files);
}

void WriteManifest(const Manifest& manifest, JsonText* json) {
  json->Member("format", 1);
  json->Member("stepwatch", kVersion);
  json->Member("run_id", manifest.run_id);
  json->Member("rank", manifest.rank);
  json->Member("world_size", manifest.world_size);
  json->Member("pid", manifest.process.pid);
  json->Member("pid_started", manifest.process.started);
  json->Member("pid_namespace", manifest.process.pid_namespace);
  json->Member("host", manifest.process.host);
  json->Member("boot_id", manifest.process.boot_id);
  json->Member("grad_acc_steps", manifest.grad_acc_steps);
  json->Member("started", manifest.started);
  json->Member("config", manifest.config_path);
  json->Member("dynamic", manifest.dynamic);
  json->Key("plans");
  json->Array(manifest.plans, [json](const ManifestPlan& plan) { json->Object([&] { WritePlan(plan, json); }); });
  json->Key("segments");
  json->Array(manifest.segments,
              [json](const ManifestSegment& segment) { json->Object([&] { WriteSegment(segment, json); }); });
  json->Key("sites");
  json->Object([&] { WriteSites(manifest.sites ? *manifest.sites : SiteIndex(), json); });
}

DType DTypeFromName(const std::string& name) {
  for (int i = 0; i < static_cast<int>(DType::kOther); ++i)
    if (name == DTypeName(static_cast<DType>(i))) return static_cast<DType>(i);
  return DType::kOther;
}

std::optional<std::string> NameAsWritten(const Json& json) {
  const auto found = json.find("as_written");
  return found == json.end() ? std::nullopt : std::optional(found->get<std::string>());
}

ModuleEntry ModuleFromJson(const Json& json) {
  return {json.value("chunk", 0), json.at("name").get<std::string>(), json.value("type", std::string()),
          json.value("watchable", true), NameAsWritten(json)};
}

ParameterEntry ParameterFromJson(const Json& json) {
  return {json.value("chunk", 0),
          json.at("name").get<std::string>(),
          DTypeFromName(json.value("dtype", std::string())),
          json.value("shape", std::vector<int64_t>()),
          json.value("requires_grad", true),
          NameAsWritten(json)};
}

}  // namespace

std::string ManifestText(const Manifest& manifest) {
  JsonText json(1);
  json.Object([&] { WriteManifest(manifest, &json); });
  return json.Take() + "\n";
}

Result<ManifestSites> SitesFromManifest(const std::string& text_untrusted) {
  const Result<Json> parsed = json::Parse(text_untrusted);
  if (!parsed.ok())
    return Status(parsed.status().code(), "not a manifest.json of a run: the file " + parsed.status().message());
  const Json& json = parsed.value();
  try {
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
