// The judgement of replies.
#include <limits>

#include "operations/delivery/receiver.h"
#include "tests/catch.h"
#include "tests/has.h"

using namespace stepwatch;
using stepwatch::testing::Has;
using namespace stepwatch::operations::delivery;

namespace {

constexpr ReceiverType kHttpTypes[] = {ReceiverType::kAlertmanager, ReceiverType::kFeishu, ReceiverType::kDingTalk,
                                       ReceiverType::kWeCom,        ReceiverType::kSlack,  ReceiverType::kWebhook};

Verdict VerdictOf(ReceiverType type, int status, const std::string& body = "") {
  return Judge(type, {status, body, "", std::nullopt}).verdict;
}

}  // namespace

TEST_CASE("A bot's 200 counts only with a code of 0 in its body") {
  CHECK(VerdictOf(ReceiverType::kFeishu, 200, R"({"code":0,"msg":"success","data":{}})") == Verdict::kSent);
  CHECK(VerdictOf(ReceiverType::kFeishu, 200, R"({"StatusCode":0,"StatusMessage":"success"})") == Verdict::kSent);
  CHECK(VerdictOf(ReceiverType::kDingTalk, 200, R"({"errcode":0,"errmsg":"ok"})") == Verdict::kSent);
  CHECK(VerdictOf(ReceiverType::kWeCom, 200, R"({"errcode":0,"errmsg":"ok"})") == Verdict::kSent);
  for (const ReceiverType type : {ReceiverType::kFeishu, ReceiverType::kDingTalk, ReceiverType::kWeCom}) {
    CHECK(VerdictOf(type, 200, "") == Verdict::kRetry);
    CHECK(VerdictOf(type, 200, "<html>log in</html>") == Verdict::kRetry);
    CHECK(VerdictOf(type, 200, "[]") == Verdict::kRetry);
    CHECK(VerdictOf(type, 202, "{}") == Verdict::kRetry);
    CHECK(VerdictOf(type, 200, R"({"code":"0","errcode":"0"})") == Verdict::kRetry);
  }
}

TEST_CASE("Known codes in a body are final, or ask for a pause, and others are tried again") {
  for (const int code : {19021, 19022, 19024})
    CHECK(VerdictOf(ReceiverType::kFeishu, 200, "{\"code\":" + std::to_string(code) + "}") == Verdict::kRejected);
  for (const int code : {11232, 9499})
    CHECK(VerdictOf(ReceiverType::kFeishu, 200, "{\"code\":" + std::to_string(code) + "}") == Verdict::kRetryLater);
  CHECK(VerdictOf(ReceiverType::kFeishu, 200, R"({"code":12345})") == Verdict::kRetry);
  CHECK(VerdictOf(ReceiverType::kDingTalk, 200, R"({"errcode":310000})") == Verdict::kRejected);
  CHECK(VerdictOf(ReceiverType::kDingTalk, 200, R"({"errcode":130101})") == Verdict::kRetryLater);
  CHECK(VerdictOf(ReceiverType::kDingTalk, 200, R"({"errcode":-1})") == Verdict::kRetry);
  CHECK(VerdictOf(ReceiverType::kWeCom, 200, R"({"errcode":93000})") == Verdict::kRejected);
  CHECK(VerdictOf(ReceiverType::kWeCom, 200, R"({"errcode":45009})") == Verdict::kRetryLater);
  // A code of one receiver has no meaning for another.
  CHECK(VerdictOf(ReceiverType::kWeCom, 200, R"({"errcode":19021})") == Verdict::kRetry);
  const Judgement judgement = Judge(ReceiverType::kFeishu, {200, R"({"code":19021,"msg":"sign\nmatch"})", "", {}});
  CHECK(judgement.reason == "code 19021: the signature does not match, or the clock is wrong (\"sign\\x0amatch\")");
}

TEST_CASE("Each status of HTTP has its judgement for each receiver") {
  for (const ReceiverType type : kHttpTypes) {
    CAPTURE(NameOf(type));
    for (const int status : {301, 302, 307, 400, 401, 403, 404, 410, 413})
      CHECK(VerdictOf(type, status, "no") == Verdict::kRejected);
    for (const int status : {408, 425, 500, 502, 503, 504}) CHECK(VerdictOf(type, status) == Verdict::kRetry);
    CHECK(VerdictOf(type, 429) == Verdict::kRetryLater);
    CHECK(Judge(type, {}).verdict == Verdict::kRetry);
    CHECK(Judge(type, {0, "", "host: Timeout was reached", {}}).reason == "host: Timeout was reached");
    // An answer that broke off is no answer.
    CHECK(Judge(type, {200, "ok", "Recv failure: Connection reset by peer", {}}).verdict == Verdict::kRetry);
  }
  for (const ReceiverType type : {ReceiverType::kAlertmanager, ReceiverType::kWebhook, ReceiverType::kSlack})
    for (const int status : {200, 202, 204}) CHECK(VerdictOf(type, status) == Verdict::kSent);
  CHECK(VerdictOf(ReceiverType::kAlertmanager, 200, "<html>log in") == Verdict::kRetry);
  CHECK(VerdictOf(ReceiverType::kSlack, 200, "ok\n") == Verdict::kSent);
  CHECK(VerdictOf(ReceiverType::kSlack, 200, R"({"ok":false,"error":"invalid_blocks"})") == Verdict::kRetry);
  CHECK(VerdictOf(ReceiverType::kSlack, 200, R"({"ok":false,"error":"ratelimited"})") == Verdict::kRetryLater);
}

TEST_CASE("A receiver's pause is followed up to an hour") {
  CHECK(Judge(ReceiverType::kSlack, {429, "", "", 30.0}).retry_after == 30);
  CHECK(Judge(ReceiverType::kSlack, {503, "", "", 30.0}).verdict == Verdict::kRetryLater);
  CHECK(Judge(ReceiverType::kSlack, {429, "", "", 1e9}).retry_after == 3600);
  CHECK_FALSE(Judge(ReceiverType::kSlack, {429, "", "", -1.0}).retry_after);
  CHECK_FALSE(Judge(ReceiverType::kSlack, {429, "", "", std::numeric_limits<double>::quiet_NaN()}).retry_after);
}

TEST_CASE("A mail server's codes decide over a mail") {
  CHECK(VerdictOf(ReceiverType::kEmail, 250) == Verdict::kSent);
  CHECK(Judge(ReceiverType::kEmail, {550, "", "RCPT failed: 550", {}}).verdict == Verdict::kRejected);
  CHECK(Judge(ReceiverType::kEmail, {535, "", "Login denied", {}}).verdict == Verdict::kRejected);
  CHECK(Judge(ReceiverType::kEmail, {451, "", "RCPT failed: 451", {}}).verdict == Verdict::kRetry);
  CHECK(Judge(ReceiverType::kEmail, {250, "", "Connection reset", {}}).verdict == Verdict::kRetry);
  CHECK(Judge(ReceiverType::kEmail, {}).verdict == Verdict::kRetry);
}

TEST_CASE("A reason is one short printable line, however long or hostile the reply is") {
  for (const ReceiverType type : kHttpTypes) {
    const Judgement judgement = Judge(type, {500, std::string(100'000, '\n') + "\x1b[31m\xff", "", {}});
    CHECK(judgement.reason.size() <= 310);
    CHECK(judgement.reason.find_first_of("\n\x1b\xff") == std::string::npos);
  }
  CHECK(Has(Judge(ReceiverType::kWebhook, {302, "https://other", "", {}}).reason, "not followed"));
}
