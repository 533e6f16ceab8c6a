// Any bytes as a webhook of Alertmanager, and as the reply of a receiver: what is taken fits each receiver.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "operations/delivery/formats.h"
#include "operations/delivery/translate.h"
#include "src/base/text.h"
#include "src/json/json.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepwatch;
  using namespace stepwatch::operations::delivery;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (size_t i = 0; i < kReceiverTypes; ++i) {
    Reply reply;
    reply.status = 200;
    reply.body = text;
    const std::string reason = Judge(static_cast<ReceiverType>(i), reply).reason;
    FUZZ_CHECK(reason.find('\n') == std::string::npos);
    FUZZ_CHECK(base::ValidUtf8(reason) == reason);
  }
  const Result<std::vector<Notice>> notices = NoticesOfWebhook(text);
  if (!notices.ok() || notices.value().empty()) return 0;
  ReceiverSettings settings;
  settings.from = "a@example.org";
  settings.to = {"b@example.org"};
  for (const char* language : {"en", "zh"}) {
    settings.language = language;
    const std::vector<std::string> bodies = {
        AlertmanagerBody(notices.value(), 1e9, 300), FeishuBody(notices.value(), 0, language, "secret", 1e9),
        DingTalkBody(notices.value(), 0, language),  WeComBody(notices.value(), 0, language),
        SlackBody(notices.value(), 0, language),     WebhookBody(settings, notices.value(), 0, 1e9)};
    for (const std::string& body : bodies) {
      FUZZ_CHECK(json::Parse(body).ok());
      FUZZ_CHECK(base::ValidUtf8(body) == body);
    }
    FUZZ_CHECK(bodies[1].size() <= 20'000);
    FUZZ_CHECK(bodies[2].size() <= 20'000);
    const std::string mail = MailText(settings, notices.value(), 0, 1e9);
    const std::string head = mail.substr(0, mail.find("\r\n\r\n"));
    // Each line is a header of ours, or continues one.
    size_t lines = 0;
    for (size_t at = head.find('\n'); at != std::string::npos; at = head.find('\n', at + 1)) {
      FUZZ_CHECK(head[at - 1] == '\r');
      if (head[at + 1] != ' ') ++lines;
    }
    FUZZ_CHECK(lines == (notices.value().size() == 1 ? 9U : 8U));
  }
  return 0;
}
