#include "operations/store/change_text.h"

#include <nlohmann/json.hpp>

#include "operations/trace/parse_incident.h"
#include "operations/trace/write_line.h"
#include "src/json/parse_json.h"

namespace stepwatch::operations {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string ChangeText(const StoredChange& change) {
  Json json = bounded::ParseJson<Json>(IncidentJson(change.incident)).value();
  json["opened_t"] = change.incident.opened_t;
  if (const auto& told = change.acknowledgement)
    json["acknowledged"] = {{"by", told->by}, {"note", told->note}, {"t", told->t}};
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Result<StoredChange> ParseChange(int64_t number, const std::string& what, std::string_view text) {
  Result<Incident> incident = ParseIncident(text);
  if (!incident.ok()) return incident.status();
  StoredChange change{number, what, std::move(incident).value(), std::nullopt};
  const Result<Json> json = bounded::ParseJson<Json>(text);
  if (!json.ok()) return json.status();
  const auto told = json.value().find("acknowledged");
  if (told != json.value().end() && told->is_object())
    change.acknowledgement = Acknowledgement{told->value("by", ""), told->value("note", ""), told->value("t", 0.0)};
  return change;
}

}  // namespace stepwatch::operations
