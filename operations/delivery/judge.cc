#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "operations/delivery/escape.h"
#include "operations/delivery/receiver.h"
#include "src/json/members.h"

namespace stepwatch::operations::delivery {
namespace {

constexpr size_t kReasonBytesMax = 300;
constexpr double kPauseSecondsMax = 3600;

struct KnownCode {
  ReceiverType type;
  int64_t code;
  Verdict verdict;
  std::string_view meaning;
};

// The codes in a body whose cause is known; others are tried again.
constexpr KnownCode kCodes[] = {
    {ReceiverType::kFeishu, 19001, Verdict::kRejected, "the address names no bot"},
    {ReceiverType::kFeishu, 19021, Verdict::kRejected, "the signature does not match, or the clock is wrong"},
    {ReceiverType::kFeishu, 19022, Verdict::kRejected, "the bot does not accept this IP address"},
    {ReceiverType::kFeishu, 19024, Verdict::kRejected, "the message lacks a keyword that the bot requires"},
    {ReceiverType::kFeishu, 11232, Verdict::kRetryLater, "too many messages"},
    {ReceiverType::kFeishu, 9499, Verdict::kRetryLater, "too many messages"},
    {ReceiverType::kDingTalk, 310000, Verdict::kRejected,
     "signature, clock, keyword or IP address do not match the bot's settings"},
    {ReceiverType::kDingTalk, 300001, Verdict::kRejected, "the address names no bot"},
    {ReceiverType::kDingTalk, 400013, Verdict::kRejected, "the group of the bot is gone"},
    {ReceiverType::kDingTalk, 400101, Verdict::kRejected, "the address names no bot"},
    {ReceiverType::kDingTalk, 400102, Verdict::kRejected, "the bot is switched off"},
    {ReceiverType::kDingTalk, 130101, Verdict::kRetryLater, "too many messages"},
    {ReceiverType::kDingTalk, 410100, Verdict::kRetryLater, "too many messages"},
    {ReceiverType::kWeCom, 93000, Verdict::kRejected, "the address names no bot"},
    {ReceiverType::kWeCom, 40008, Verdict::kRejected, "the bot does not accept this type of message"},
    {ReceiverType::kWeCom, 45002, Verdict::kRejected, "the message is too long"},
    {ReceiverType::kWeCom, 45009, Verdict::kRetryLater, "too many messages"},
};

bool IsIn(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

std::string Quoted(std::string_view body) {
  const std::string text = Plain(body, 120);
  return text.empty() ? " with an empty body" : fmt::format(" with \"{}\"", text);
}

// The end of an answer of a bot: a number that is 0 for a message that was posted.
Judgement JudgeCode(ReceiverType type, const Reply& reply) {
  const Result<Json> json = json::Parse(reply.body);
  if (!json.ok() || !json.value().is_object())
    return {Verdict::kRetry,
            fmt::format("status {}{}, where JSON with a code is expected", reply.status, Quoted(reply.body)),
            std::nullopt};
  const char* const name = type == ReceiverType::kFeishu ? "code" : "errcode";
  const Json* code = &json::Member(json.value(), name);
  // Feishu's former name.
  if (type == ReceiverType::kFeishu && code->is_null()) code = &json::Member(json.value(), "StatusCode");
  if (!code->is_number_integer())
    return {Verdict::kRetry, fmt::format("status {}{}, which has no \"{}\"", reply.status, Quoted(reply.body), name),
            std::nullopt};
  const auto value = code->get<int64_t>();
  if (value == 0) return {};
  const std::string message = Plain(json::RawText(json.value(), type == ReceiverType::kFeishu ? "msg" : "errmsg"), 120);
  for (const KnownCode& known : kCodes)
    if (known.type == type && known.code == value)
      return {known.verdict, fmt::format("code {}: {} (\"{}\")", value, known.meaning, message), reply.retry_after};
  return {Verdict::kRetry, fmt::format("code {} (\"{}\")", value, message), reply.retry_after};
}

Judgement JudgeSlack(const Reply& reply) {
  const size_t end = reply.body.find_last_not_of(" \t\r\n") + 1;
  const std::string_view body = std::string_view(reply.body).substr(0, end);
  if (body.empty() || body == "ok") return {};
  const Result<Json> json = json::Parse(body);
  if (json.ok() && json.value().is_object() &&
      (json::IsTrue(json.value(), "ok") || json::IsTrue(json.value(), "success")))
    return {};
  if (IsIn(body, "ratelimited") || IsIn(body, "rate_limited"))
    return {Verdict::kRetryLater, "too many messages", reply.retry_after};
  return {Verdict::kRetry, fmt::format("status {}{}, where \"ok\" is expected", reply.status, Quoted(body)),
          std::nullopt};
}

Judgement JudgeMail(const Reply& reply) {
  const std::string because = reply.error.empty() ? std::string() : ": " + Plain(reply.error, 200);
  if (reply.error.empty() && reply.status >= 200 && reply.status < 300) return {};
  if (reply.status >= 500 && reply.status < 600)
    return {Verdict::kRejected, fmt::format("the mail server refused with code {}{}", reply.status, because),
            std::nullopt};
  if (reply.status >= 400)
    return {Verdict::kRetry, fmt::format("the mail server postponed with code {}{}", reply.status, because),
            std::nullopt};
  return {Verdict::kRetry, reply.error.empty() ? "the mail server did not answer" : Plain(reply.error, kReasonBytesMax),
          std::nullopt};
}

// Statuses other than 2xx.
Judgement JudgeFailure(const Reply& reply) {
  const int status = reply.status;
  if (status >= 300 && status < 400)
    return {Verdict::kRejected,
            fmt::format("status {}: a redirect, which is not followed; set the address to its target", status),
            std::nullopt};
  const std::string reason = fmt::format("status {}{}", status, Quoted(reply.body));
  if (status == 429 || (status == 503 && reply.retry_after)) return {Verdict::kRetryLater, reason, reply.retry_after};
  if (status == 408 || status == 425) return {Verdict::kRetry, reason, std::nullopt};
  if (status >= 400 && status < 500) return {Verdict::kRejected, reason, std::nullopt};
  return {Verdict::kRetry, reason, std::nullopt};
}

Judgement JudgeStatus(ReceiverType type, const Reply& reply) {
  if (type == ReceiverType::kEmail) return JudgeMail(reply);
  if (!reply.error.empty() || reply.status == 0)
    return {Verdict::kRetry, reply.error.empty() ? "there was no answer" : Plain(reply.error, kReasonBytesMax),
            std::nullopt};
  if (reply.status < 200 || reply.status >= 300) return JudgeFailure(reply);
  switch (type) {
    case ReceiverType::kFeishu:
    case ReceiverType::kDingTalk:
    case ReceiverType::kWeCom: return JudgeCode(type, reply);
    case ReceiverType::kSlack: return JudgeSlack(reply);
    case ReceiverType::kAlertmanager:
      // A proxy in front of it shows a page for people.
      if (reply.body.starts_with("<"))
        return {Verdict::kRetry, fmt::format("status {}{}, a page for people", reply.status, Quoted(reply.body)),
                std::nullopt};
      return {};
    case ReceiverType::kEmail:
    case ReceiverType::kWebhook: return {};
  }
  return {};
}

}  // namespace

Judgement Judge(ReceiverType type, const Reply& reply) {
  Judgement judgement = JudgeStatus(type, reply);
  judgement.reason = Plain(judgement.reason, kReasonBytesMax);
  if (judgement.verdict != Verdict::kRetryLater || !judgement.retry_after || !std::isfinite(*judgement.retry_after) ||
      *judgement.retry_after < 0)
    judgement.retry_after.reset();
  else
    judgement.retry_after = std::min(*judgement.retry_after, kPauseSecondsMax);
  return judgement;
}

}  // namespace stepwatch::operations::delivery
