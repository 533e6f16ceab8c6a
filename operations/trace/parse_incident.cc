#include "operations/trace/parse_incident.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "operations/trace/read_json.h"
#include "src/json/parse_json.h"

namespace stepwatch::operations {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::optional<double> NumberOf(const OrderedJson& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::nan("");
  if (value == "inf") return HUGE_VAL;
  if (value == "-inf") return -HUGE_VAL;
  return std::nullopt;
}

std::string TextOf(const OrderedJson& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

std::optional<EvidenceValue> ListOf(const OrderedJson& list) {
  bool whole = true, numbers = true, texts = true;
  for (const OrderedJson& value : list) {
    whole = whole && value.is_number_integer();
    numbers = numbers && NumberOf(value).has_value();
    texts = texts && value.is_string();
  }
  if (whole) return list.get<std::vector<int64_t>>();
  if (numbers) {
    std::vector<double> values;
    for (const OrderedJson& value : list) values.push_back(*NumberOf(value));
    return values;
  }
  if (texts) return list.get<std::vector<std::string>>();
  return std::nullopt;
}

std::optional<EvidenceValue> EvidenceOf(const OrderedJson& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (const std::optional<double> number = NumberOf(value)) return *number;
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return ListOf(value);
  return std::nullopt;
}

}  // namespace

Result<Incident> ParseIncident(std::string_view text_untrusted) {
  const Status refusal(StatusCode::kInvalid, "not an incident");
  const Result<OrderedJson> parsed = bounded::ParseJson<OrderedJson>(text_untrusted);
  if (!parsed.ok() || !parsed.value().is_object()) return refusal;
  const OrderedJson& json = parsed.value();
  const auto kind = IncidentKindNamed(TextOf(json, "incident"));
  const auto state = IncidentStateNamed(TextOf(json, "state"));
  const auto severity = SeverityNamed(TextOf(json, "severity"));
  const std::optional<double> t = json.contains("t") ? NumberOf(json["t"]) : std::nullopt;
  Incident incident;
  incident.id = TextOf(json, "id");
  incident.run = TextOf(json, "run");
  if (!kind || !state || !severity || !t || incident.id.empty() || incident.run.empty()) return refusal;
  incident.kind = *kind;
  incident.state = *state;
  incident.severity = *severity;
  incident.t = *t;
  incident.opened_t = json.contains("opened_t") ? NumberOf(json["opened_t"]).value_or(*t) : *t;
  if (json.contains("since_step") && json["since_step"].is_number_integer())
    incident.since_step = json["since_step"].get<int64_t>();
  if (json.contains("ranks") && json["ranks"].is_array())
    for (const OrderedJson& rank : json["ranks"])
      if (rank.is_number_integer()) incident.ranks.push_back(rank.get<int64_t>());
  if (json.contains("evidence") && json["evidence"].is_object())
    for (const auto& [key, value] : json["evidence"].items())
      if (const auto evidence = EvidenceOf(value)) incident.evidence.Set(key, *evidence);
  return incident;
}

}  // namespace stepwatch::operations
