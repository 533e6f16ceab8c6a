// A request that a rank hands on to the control socket of rank 0, and its answer, as texts. Both are read as untrusted:
// whoever can write into the job's store can write them.
#pragma once

#include <string>
#include <string_view>

#include "controller/control_socket/routes.h"
#include "src/http/answers.h"
#include "stepwatch/status.h"

namespace stepwatch::control_socket {

struct Forwarded {
  std::string method;
  Request request;
};

// Refused: the body is no UTF-8, which a store need not carry.
Result<std::string> ForwardText(const Forwarded& forwarded);
// `rank`: that has handed it on.
Result<Forwarded> ForwardedFrom(int rank, std::string_view text_untrusted);
std::string AnswerText(const http::Answer& answer);
Result<http::Answer> AnswerFrom(std::string_view text_untrusted);

}  // namespace stepwatch::control_socket
