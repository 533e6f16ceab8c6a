#include "controller/door/answers.h"

#include <nlohmann/json.hpp>

#include "controller/door/json_values.h"
#include "src/base/text.h"

namespace stepwatch::door {
namespace {

constexpr int kRetryAfterSeconds = 1;

Answer Error(int status, const char* code, const std::string& message) {
  Answer answer;
  answer.status = status;
  answer.body = Dump(ErrorJson(code, message));
  return answer;
}

}  // namespace

Answer BadRequest(const std::string& message) {
  return Error(400, "bad_request", message);
}

Answer Unauthorized(const std::string& message, const std::string& error) {
  Answer answer = Error(401, "unauthorized", message);
  answer.authenticate = "Bearer realm=\"stepwatch\"" + (error.empty() ? "" : ", error=\"" + error + "\"");
  return answer;
}

Answer Forbidden(const std::string& message) {
  return Error(403, "forbidden", message);
}

Answer NoSuchPath(const std::string& path_untrusted) {
  return Error(404, "not_found",
               "unknown path " + base::Printable(path_untrusted, 200) + "; start with GET /v1/status");
}

Answer NoPulse() {
  return Error(404, "no_pulse", "this process has no pulse: it could not allocate shared memory; an event reports why");
}

Answer NoSuchMethod(const std::string& path, const std::string& allow) {
  Answer answer = Error(405, "method_not_allowed", path + " accepts " + allow);
  answer.allow = allow;
  return answer;
}

Answer TooSlow(const std::string& what) {
  return Error(408, "timeout", what);
}

Answer TooLarge(const std::string& message) {
  return Error(413, "too_large", message);
}

Answer HeaderTooLarge(const std::string& message) {
  return Error(431, "header_too_large", message);
}

Answer Failed(const std::string& message) {
  return Error(500, "internal", message);
}

Answer RequestIdReused() {
  return Error(422, "request_id_reused",
               "another request has used this Idempotency-Key; use a new one for each request");
}

Answer Busy(const std::string& message) {
  Answer answer = Error(503, "busy", message);
  answer.retry_after = kRetryAfterSeconds;
  return answer;
}

}  // namespace stepwatch::door
