// A request that a rank hands on to the door of rank 0, and its answer, as texts. Both are read as untrusted: whoever
// can write into the job's store can write them.
#pragma once

#include <string>
#include <string_view>

#include "controller/door/answers.h"
#include "controller/door/routes.h"
#include "stepwatch/status.h"

namespace stepwatch::door {

struct Forwarded {
  std::string method;
  Request request;
};

// Refused: the body is no UTF-8, which a store need not carry.
Result<std::string> ForwardText(const Forwarded& forwarded);
// `rank`: that has handed it on.
Result<Forwarded> ForwardedFrom(int rank, std::string_view text_untrusted);
std::string AnswerText(const Answer& answer);
Result<Answer> AnswerFrom(std::string_view text_untrusted);

}  // namespace stepwatch::door
