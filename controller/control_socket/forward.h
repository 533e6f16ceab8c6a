// Texts of a request that a rank forwards to the control socket of rank 0, and of its answer. Both are untrusted:
// anyone who can write into the job's store can forge them.
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

// Fails if the body is not UTF-8, which a store need not carry.
Result<std::string> ForwardText(const Forwarded& forwarded);
// `rank`: the rank that forwarded the request.
Result<Forwarded> ForwardedFrom(int rank, std::string_view text_untrusted);
std::string AnswerText(const http::Answer& answer);
Result<http::Answer> AnswerFrom(std::string_view text_untrusted);

}  // namespace stepwatch::control_socket
