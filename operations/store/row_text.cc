#include "operations/store/row_text.h"

#include <nlohmann/json.hpp>

#include "operations/trace/write_line.h"
#include "src/json/json.h"
#include "src/json/loose_json.h"
#include "src/json/members.h"

namespace stepwatch::operations {
namespace {

Json IdentityJson(const base::ProcessIdentity& process) {
  return {{"host", process.host},
          {"boot_id", process.boot_id},
          {"pid_namespace", process.pid_namespace},
          {"pid", process.pid},
          {"started", process.started}};
}

base::ProcessIdentity IdentityOf(const Json& json) {
  return {json.at("host").get<std::string>(), json.at("boot_id").get<std::string>(),
          json.at("pid_namespace").get<std::string>(), json.at("pid").get<int>(), json.at("started").get<uint64_t>()};
}

std::optional<EvidenceValue> ListOf(const Json& list) {
  bool whole = true, numbers = true, texts = true;
  for (const Json& value : list) {
    whole = whole && value.is_number_integer();
    numbers = numbers && json::LooseNumber(value).has_value();
    texts = texts && value.is_string();
  }
  if (whole) return list.get<std::vector<int64_t>>();
  if (numbers) {
    std::vector<double> values;
    for (const Json& value : list) values.push_back(*json::LooseNumber(value));
    return values;
  }
  if (texts) return list.get<std::vector<std::string>>();
  return std::nullopt;
}

std::optional<EvidenceValue> EvidenceOf(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (const std::optional<double> number = json::LooseNumber(value)) return *number;
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return ListOf(value);
  return std::nullopt;
}

// The reverse of IncidentJson. Evidence of a type that IncidentJson does not write is left out.
Result<Incident> IncidentOf(const Json& json) {
  const Status refusal(StatusCode::kInvalid, "not an incident");
  const auto kind = IncidentKindNamed(json::RawText(json, "incident"));
  const auto state = IncidentStateNamed(json::RawText(json, "state"));
  const auto severity = SeverityNamed(json::RawText(json, "severity"));
  const std::optional<double> t = json::LooseNumber(json::Member(json, "t"));
  Incident incident;
  incident.id = json::RawText(json, "id");
  incident.run = json::RawText(json, "run");
  if (!kind || !state || !severity || !t || incident.id.empty() || incident.run.empty()) return refusal;
  incident.kind = *kind;
  incident.state = *state;
  incident.severity = *severity;
  incident.t = *t;
  incident.opened_t = json::LooseNumber(json::Member(json, "opened_t")).value_or(*t);
  if (const Json& step = json::Member(json, "since_step"); step.is_number_integer())
    incident.since_step = step.get<int64_t>();
  for (const Json& rank : json::List(json, "ranks"))
    if (rank.is_number_integer()) incident.ranks.push_back(rank.get<int64_t>());
  for (const auto& [key, value] : json::Part(json, "evidence").items())
    if (const auto evidence = EvidenceOf(value)) incident.evidence.Set(key, *evidence);
  return incident;
}

}  // namespace

std::string ChangeText(const StoredChange& change) {
  Json json = json::Parse(IncidentJson(change.incident)).value();
  json["opened_t"] = change.incident.opened_t;
  if (const auto& given = change.acknowledgement)
    json["acknowledged"] = {{"by", given->by}, {"note", given->note}, {"t", given->t}};
  return json::Dump(json);
}

Result<StoredChange> ParseChange(int64_t number, const std::string& what, std::string_view text) {
  const Result<Json> json = json::Parse(text);
  if (!json.ok() || !json.value().is_object()) return Status(StatusCode::kInvalid, "not an incident");
  Result<Incident> incident = IncidentOf(json.value());
  if (!incident.ok()) return incident.status();
  StoredChange change{number, what, std::move(incident).value(), std::nullopt};
  const auto given = json.value().find("acknowledged");
  if (given != json.value().end() && given->is_object())
    change.acknowledgement = Acknowledgement{given->value("by", ""), given->value("note", ""), given->value("t", 0.0)};
  return change;
}

std::string ProcessText(const KnownProcess& process) {
  Json json = {{"run", process.run},
               {"rank", process.rank},
               {"process", IdentityJson(process.process)},
               {"own", IdentityJson(process.own)},
               {"seen_t", process.seen_t}};
  if (process.uid) json["uid"] = *process.uid;
  return json::Dump(json);
}

Result<KnownProcess> ParseProcess(std::string_view text) {
  const Result<Json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.status();
  const Json& json = parsed.value();
  try {
    const auto uid = json.find("uid");
    return KnownProcess{json.at("run").get<std::string>(),
                        json.at("rank").get<int64_t>(),
                        IdentityOf(json.at("process")),
                        IdentityOf(json.at("own")),
                        json.at("seen_t").get<double>(),
                        0,
                        uid == json.end() ? std::nullopt : std::optional(uid->get<uid_t>())};
  } catch (const Json::exception&) {
    return Status(StatusCode::kInvalid, "the store contains an invalid process");
  }
}

}  // namespace stepwatch::operations
