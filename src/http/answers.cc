#include "src/http/answers.h"

#include <nlohmann/json.hpp>

#include "src/base/text.h"

namespace stepwatch::http {
namespace {

constexpr int kRetryAfterSeconds = 1;

}  // namespace

Json VersionedAnswer() {
  return {{"version", kAnswerVersion}};
}

Json PlaceJson(const TextPlace& place, const std::string& message) {
  Json json = Json::object();
  if (!place.key.empty()) json["key"] = place.key;
  if (place.line > 0) json["line"] = place.line, json["column"] = place.column;
  json["message"] = message;
  return json;
}

Json ErrorJson(const std::string& code, const std::string& message, const TextPlace& place) {
  Json json = VersionedAnswer();
  Json& error = json["error"] = {{"code", code}};
  error.update(PlaceJson(place, message));
  return json;
}

Answer JsonAnswer(const Json& json, int status) {
  Answer answer;
  answer.status = status;
  answer.body = json::Dump(json);
  return answer;
}

Answer ErrorAnswer(int status, const std::string& code, const std::string& message, const TextPlace& place) {
  return JsonAnswer(ErrorJson(code, message, place), status);
}

Answer BadRequest(const std::string& message) {
  return ErrorAnswer(400, "bad_request", message);
}

Answer Unauthorized(const std::string& message, const std::string& error) {
  Answer answer = ErrorAnswer(401, "unauthorized", message);
  answer.authenticate = "Bearer realm=\"stepwatch\"" + (error.empty() ? "" : ", error=\"" + error + "\"");
  return answer;
}

Answer Forbidden(const std::string& message) {
  return ErrorAnswer(403, "forbidden", message);
}

Answer ReadersOnlyGet(const std::string& method, const std::string& process) {
  return Forbidden("a user of the readers' group may use GET only; " + method + " is reserved for the user that runs " +
                   process + " and for root");
}

Answer NoSuchPath(const std::string& path_untrusted) {
  return ErrorAnswer(404, "not_found",
                     "unknown path " + base::Printable(path_untrusted, 200) + "; start with GET /v1/status");
}

Answer NoSuchMethod(const std::string& path, const std::string& allow) {
  Answer answer = ErrorAnswer(405, "method_not_allowed", path + " accepts " + allow);
  answer.allow = allow;
  return answer;
}

Answer NoRoute(const std::string& path_untrusted, const std::string& allow) {
  return allow.empty() ? NoSuchPath(path_untrusted) : NoSuchMethod(path_untrusted, allow);
}

Answer TooSlow(const std::string& what) {
  return ErrorAnswer(408, "timeout", what);
}

Answer TooLarge(const std::string& message) {
  return ErrorAnswer(413, "too_large", message);
}

Answer HeaderTooLarge(const std::string& message) {
  return ErrorAnswer(431, "header_too_large", message);
}

Answer Failed(const std::string& message) {
  return ErrorAnswer(500, "internal", message);
}

Answer Busy(const std::string& message) {
  Answer answer = ErrorAnswer(503, "busy", message);
  answer.retry_after = kRetryAfterSeconds;
  return answer;
}

}  // namespace stepwatch::http
