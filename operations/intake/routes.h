// The routes of the intake: a request in, an answer out, at once or later. No I/O.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "operations/intake/service.h"
#include "src/http/handler.h"

namespace stepwatch::operations {

struct IntakeRequest {
  std::string method;
  std::string target;  // path and query, as they were sent
  std::string body;
  std::string sent;         // the header Stepwatch-Sent: the time of sending, in the sender's clock; empty: absent
  bool may_write = true;    // false: the client may only read
  std::string accept = {};  // the header Accept
  std::string content_type = {}, content_encoding = {};  // of the body, as sent
};

// `then` is called once, on the thread of the service, in the call or later.
void AnswerIntake(const IntakeRequest& request, Service* service, http::OnAnswer then);

// A signed link of a message, which needs no token.
bool IsLink(const std::string& target);

// GET /v1/events, which has no end.
bool IsEventStream(const std::string& method, const std::string& target);
// Events after a number as server-sent events, and the number of the last one in `last`. Empty without events.
std::string EventTextAfter(int64_t* last, Service* service);

}  // namespace stepwatch::operations
