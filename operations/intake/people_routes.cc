#include "operations/intake/people_routes.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <vector>

#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {
namespace {

using http::Answer;

constexpr size_t kTextMax = 1000;
constexpr double kSilenceSecondsMax = 366 * 86400.0;

// The members of a body, or the reason why it is unusable. `keys`: name, and whether it is a number.
Result<Json> BodyOf(const RouteCall& call, const std::map<std::string, bool>& keys) {
  const Result<Json> parsed = json::Parse(call.request.body.empty() ? "{}" : call.request.body);
  if (parsed.status().code() == StatusCode::kExhausted)
    return Status(StatusCode::kExhausted, "the body " + parsed.status().message());
  if (!parsed.ok() || !parsed.value().is_object()) return Status(StatusCode::kInvalid, "the body is not a JSON object");
  const Json& body = parsed.value();
  for (const auto& [key, value] : body.items()) {
    const auto known = keys.find(key);
    if (known == keys.end()) return Status(StatusCode::kInvalid, "unknown key " + base::Printable(key));
    if (known->second ? !value.is_number() : !value.is_string())
      return Status(StatusCode::kWrongType, key + " must be " + (known->second ? "a number" : "text"));
    if (value.is_string() && CharactersIn(value.get_ref<const std::string&>()) > kTextMax)
      return Status(StatusCode::kOutOfRange, fmt::format("{} must have at most {} characters", key, kTextMax));
  }
  return body;
}

std::string NewId() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

Answer NoSuchKind(const std::string& kind_untrusted) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kIncidentKinds; ++i) names.push_back(NameOf(static_cast<IncidentKind>(i)));
  const std::string_view nearest = base::NearestWord(kind_untrusted, names);
  return http::BadRequest("unknown kind of incident " + base::Printable(kind_untrusted) +
                          (nearest.empty() ? fmt::format("; the kinds are {}", fmt::join(names, ", "))
                                           : fmt::format("; the nearest kind is {}", nearest)));
}

Answer NoRoom() {
  const std::string message =
      fmt::format("there are {} silences, which is the limit; end some first", IncidentRegistry::kSilencesMax);
  return AnswerWith({{"error", {{"code", "no_room"}, {"message", message}}}}, 409);
}

}  // namespace

void PostAck(const RouteCall& call) {
  const Result<Json> body = BodyOf(call, {{"by", false}, {"note", false}});
  if (!body.ok()) return call.then(http::BadRequest(body.status().message()));
  const std::string id = call.parameters[0];
  Service* service = call.service;
  const Acknowledgement acknowledgement{body.value().value("by", ""), body.value().value("note", ""), service->t()};
  const bool is_there = service->Acknowledge(id, acknowledgement, [then = call.then, service, id] {
    const StoredIncident* found = service->incidents().Find(id);
    if (found == nullptr) return then(Missing("the incident was removed in the meantime"));
    then(AnswerWith({{"incident", IncidentNow(service, *found)}}));
  });
  if (!is_there) call.then(Missing("unknown incident " + base::Printable(id, 200)));
}

void PostSilence(const RouteCall& call) {
  const Result<Json> body =
      BodyOf(call, {{"run", false}, {"kind", false}, {"seconds", true}, {"by", false}, {"note", false}});
  if (!body.ok()) return call.then(http::BadRequest(body.status().message()));
  const double seconds = body.value().value("seconds", 0.0);
  if (!(seconds > 0) || seconds > kSilenceSecondsMax)
    return call.then(http::BadRequest("seconds, the duration of the silence, must be above 0 and at most 366 days"));
  Silence silence;
  silence.id = NewId();
  silence.run = body.value().value("run", "");
  silence.kind = body.value().value("kind", "");
  silence.by = body.value().value("by", "");
  silence.note = body.value().value("note", "");
  silence.created_t = call.service->t();
  silence.until_t = silence.created_t + seconds;
  if (silence.kind.find('*') == std::string::npos && !silence.kind.empty() && !IncidentKindNamed(silence.kind))
    return call.then(NoSuchKind(silence.kind));
  (void)call.service->incidents().Silences(silence.created_t);  // expired ones make room
  const bool is_added = call.service->AddSilence(silence, [then = call.then, silence] {
    then(AnswerWith({{"silence", SilenceJson(silence)}}));
  });
  if (!is_added) call.then(NoRoom());
}

void GetSilences(const RouteCall& call) {
  Json list = Json::array();
  for (const Silence& each : call.service->incidents().Silences(call.service->t())) list.push_back(SilenceJson(each));
  call.then(AnswerWith({{"silences", std::move(list)}}));
}

void DeleteSilence(const RouteCall& call) {
  const std::string id = call.parameters[0];
  const bool is_removed = call.service->RemoveSilence(id, [then = call.then, id] {
    then(AnswerWith({{"removed", id}}));
  });
  if (!is_removed) call.then(Missing("unknown silence " + base::Printable(id, 200)));
}

}  // namespace stepwatch::operations
