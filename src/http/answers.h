// An HTTP answer before it is sent, and the answers that report an error.
#pragma once

#include <string>

#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::http {

struct Answer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::string etag;          // the hash of what the config file held at the last look; empty: none
  std::string allow;         // the methods that the path has; empty: not said
  int retry_after = 0;       // seconds; 0: not said
  std::string authenticate;  // how to show who one is; empty: not said
};

// Each answer in JSON has this member.
inline constexpr int kAnswerVersion = 1;
Json VersionedAnswer();
// {"version", "error": {"code", "message", and of "key", "line", "column" what is known}}.
Json ErrorJson(const std::string& code, const std::string& message, const TextPlace& place = {});
Json PlaceJson(const TextPlace& place, const std::string& message);
Answer ErrorAnswer(int status, const std::string& code, const std::string& message);

Answer BadRequest(const std::string& message);  // 400
// 401. `error`: what is wrong with the token that was shown, in RFC 6750's words; empty: none was.
Answer Unauthorized(const std::string& message, const std::string& error);
Answer Forbidden(const std::string& message);                            // 403
Answer NoSuchPath(const std::string& path_untrusted);                    // 404
Answer NoSuchMethod(const std::string& path, const std::string& allow);  // 405
Answer TooSlow(const std::string& what);                                 // 408
Answer TooLarge(const std::string& message);                             // 413
Answer HeaderTooLarge(const std::string& message);                       // 431
Answer Failed(const std::string& message);                               // 500
Answer Busy(const std::string& message);                                 // 503, with Retry-After

}  // namespace stepwatch::http
