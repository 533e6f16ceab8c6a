// Receivers as pure functions: notices in, a request out; a reply in, a judgement out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operations/delivery/notice.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::delivery {

enum class ReceiverType : uint8_t { kAlertmanager, kFeishu, kDingTalk, kWeCom, kSlack, kEmail, kWebhook };
inline constexpr size_t kReceiverTypes = 7;
// alertmanager, feishu, dingtalk, wecom, slack, email, webhook.
std::string_view NameOf(ReceiverType type);
std::optional<ReceiverType> ReceiverTypeNamed(std::string_view name);
// All names, for messages that list them.
std::vector<std::string> ReceiverTypeNames();

// Messages in a minute that the service allows, with a reserve; 0: no limit.
double PerMinuteOf(ReceiverType type);
// The number of notices that one message can list or, for kAlertmanager and kWebhook, carry. kAlertmanager and kWebhook
// carry each of them, so a caller sends the others in another message; for the rest they count as `more`.
size_t NoticesMax(ReceiverType type);

struct ReceiverSettings {
  std::string name;
  ReceiverType type = ReceiverType::kWebhook;
  std::string url;          // only for alertmanager, webhook and email: addresses of chat bots are secrets
  std::string url_file;     // the file with the address
  std::string secret_file;  // signs messages: feishu, dingtalk, webhook
  std::string token_file;   // "Authorization: Bearer …": alertmanager, webhook
  std::string user;         // email; with password_file
  std::string password_file;
  std::string from;                  // email
  std::vector<std::string> to;       // email
  std::string ca_file;               // certificates to trust instead of those of the system
  bool starttls = true;              // email with smtp://: false sends without TLS, and then without a password
  std::string language = "en";       // en, zh
  std::optional<double> per_minute;  // instead of PerMinuteOf; 0: no limit
  // kAlertmanager: an open alert ends by itself this long after its last post. Post it again within a third of it.
  double lasts_seconds = 300;

  bool operator==(const ReceiverSettings&) const = default;
};

// Finds what cannot work: a missing or superfluous member, an address or language that is not valid. The key of the
// status is the name of the member.
Status Check(const ReceiverSettings& settings);

// Contents of the files, read right before each sending. See secrets.h.
struct Secrets {
  std::string url, secret, token, password;
};

struct Mail {
  std::string from;
  std::vector<std::string> to;
  std::string text;  // headers and body, lines end in CR LF
};

struct Outgoing {
  std::string method = "POST";
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  std::optional<Mail> mail;    // then `url` is smtp:// or smtps://, and method, headers and body are unused
  std::string user, password;  // mail
  bool starttls = true;        // mail, with smtp://: required
  std::string ca_file;
  std::vector<std::string> secrets;  // must not appear in a reply or an error; the transport removes them
  std::chrono::milliseconds connect_time_max{10'000};
  std::chrono::milliseconds time_max{30'000};  // of the whole exchange
  size_t reply_bytes_max = 64 << 10;
};

struct Reply {
  int status = 0;                     // of HTTP or SMTP; 0: no reply
  std::string body;                   // the first bytes
  std::string error;                  // of the network, TLS or SMTP; empty: none
  std::optional<double> retry_after;  // seconds
};

enum class Verdict : uint8_t {
  kSent,
  kRetry,       // a passing fault: try again, with growing pauses
  kRetryLater,  // the receiver asks for a pause: retry_after seconds if it says so
  kRejected,    // would fail again: a dead letter at once
};
struct Judgement {
  Verdict verdict = Verdict::kSent;
  std::string reason;                 // one line, printable, without a secret; empty for kSent
  std::optional<double> retry_after;  // seconds, an hour at most
};

// The request that carries the notices, the oldest first. `more`: that many others happened besides. One notice and
// `more` of 0 give a full message; otherwise a digest names the first ones ("17 more, the first: …"). kAlertmanager
// and kWebhook carry every notice in full. An error: the secrets are unusable (no address in the file). Its message
// has no secret in it.
Result<Outgoing> MakeOutgoing(const ReceiverSettings& settings, const Secrets& secrets, std::span<const Notice> notices,
                              size_t more, double now);

Judgement Judge(ReceiverType type, const Reply& reply);

}  // namespace stepwatch::operations::delivery
