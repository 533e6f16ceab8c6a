// HTTP responses before they are sent, and the responses that report an error.
#pragma once

#include <string>

#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::http {

struct Answer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::string etag;          // hash of the config file's content at the last read; empty: unknown
  std::string allow;         // methods of the path; empty: no header
  int retry_after = 0;       // seconds; 0: no header
  std::string authenticate;  // authentication scheme; empty: no header
};

// Every JSON response has this member.
inline constexpr int kAnswerVersion = 1;
Json VersionedAnswer();
// {"version", "error": {"code", "message", and "key", "line", "column" if known}}.
Json ErrorJson(const std::string& code, const std::string& message, const TextPlace& place = {});
Json PlaceJson(const TextPlace& place, const std::string& message);
Answer JsonAnswer(const Json& json, int status = 200);
Answer ErrorAnswer(int status, const std::string& code, const std::string& message, const TextPlace& place = {});

Answer BadRequest(const std::string& message);  // 400
// 401. `error`: the RFC 6750 error code of the presented token; empty: no token was presented.
Answer Unauthorized(const std::string& message, const std::string& error);
Answer Forbidden(const std::string& message);  // 403
// 403: a user of the readers' group sent `method`. `process`: whose user may send it, such as "the job".
Answer ReadersOnlyGet(const std::string& method, const std::string& process);
Answer NoSuchPath(const std::string& path_untrusted);                    // 404
Answer NoSuchMethod(const std::string& path, const std::string& allow);  // 405
// One of the two; `allow` is empty for an unknown path.
Answer NoRoute(const std::string& path_untrusted, const std::string& allow);
Answer TooSlow(const std::string& what);            // 408
Answer TooLarge(const std::string& message);        // 413
Answer HeaderTooLarge(const std::string& message);  // 431
Answer Failed(const std::string& message);          // 500
Answer Busy(const std::string& message);            // 503, with Retry-After

}  // namespace stepwatch::http
