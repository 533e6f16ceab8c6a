// One function for each format of messages: the body of a request.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "operations/delivery/notice.h"
#include "operations/delivery/receiver.h"

namespace stepwatch::operations::delivery {

// The body of POST /api/v2/alerts. An open alert ends `lasts_seconds` after `now`, a resolved one at its end.
std::string AlertmanagerBody(std::span<const Notice> notices, double now, double lasts_seconds);
// A name that Alertmanager accepts for a label: [a-zA-Z_][a-zA-Z0-9_]*.
std::string LabelName(std::string_view untrusted);

// An interactive card. With a secret it is signed for the second `now`.
std::string FeishuBody(std::span<const Notice> notices, size_t more, std::string_view language,
                       const std::string& secret, double now);
// base64(HMAC-SHA256(key = "SECONDS\nSECRET", no text)).
std::string FeishuSignature(int64_t seconds, const std::string& secret);

std::string DingTalkBody(std::span<const Notice> notices, size_t more, std::string_view language);
// The address with timestamp and signature.
std::string DingTalkAddress(const std::string& url, const std::string& secret, int64_t milliseconds);

std::string WeComBody(std::span<const Notice> notices, size_t more, std::string_view language);

std::string SlackBody(std::span<const Notice> notices, size_t more, std::string_view language);

// The text of an e-mail, with its headers.
std::string MailText(const ReceiverSettings& settings, std::span<const Notice> notices, size_t more, double now);

// All members of each notice; see docs/operate/receivers.md.
std::string WebhookBody(const ReceiverSettings& settings, std::span<const Notice> notices, size_t more, double now);
// "sha256=" and the hex of HMAC-SHA256(SECRET, "SECONDS.BODY").
std::string WebhookSignature(int64_t seconds, const std::string& secret, std::string_view body);

}  // namespace stepwatch::operations::delivery
