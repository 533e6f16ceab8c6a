#include "operations/delivery/receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "operations/delivery/escape.h"
#include "operations/delivery/formats.h"
#include "operations/delivery/redact.h"
#include "operations/delivery/sign.h"
#include "src/base/text.h"

namespace stepwatch::operations::delivery {
namespace {

struct TypeFacts {
  std::string_view name;
  double per_minute;
  size_t notices_max;
  bool has_secret_address;  // the address of a bot lets anybody post
  bool has_secret, has_token;
};

// In the order of ReceiverType. DingTalk and WeCom accept 20 messages a minute, Feishu 100, Slack one a second.
constexpr std::array<TypeFacts, kReceiverTypes> kTypes = {{
    {"alertmanager", 0, 100, false, false, true},
    {"feishu", 90, 1000, true, true, false},
    {"dingtalk", 18, 1000, true, true, false},
    {"wecom", 18, 1000, true, false, false},
    {"slack", 50, 1000, true, false, false},
    {"email", 30, 1000, false, false, false},
    {"webhook", 0, 100, false, true, true},
}};

const TypeFacts& FactsOf(ReceiverType type) {
  return kTypes[static_cast<size_t>(type)];
}

Status Wrong(const char* key, std::string message) {
  return Status(StatusCode::kInvalid, std::move(message), {key, 0, 0});
}

bool IsMailServer(std::string_view url) {
  const size_t host = url.starts_with("smtp://") ? 7 : url.starts_with("smtps://") ? 8 : 0;
  // The rest is that of a web address.
  return host > 0 && url.find_first_of("/?#", host) == std::string_view::npos &&
         IsWebAddress("http://" + std::string(url.substr(host)));
}

Status CheckAddress(const ReceiverSettings& settings) {
  const TypeFacts& facts = FactsOf(settings.type);
  if (settings.url.empty() == settings.url_file.empty()) {
    if (facts.has_secret_address && settings.url.empty())
      return Wrong("url_file", fmt::format("{} needs the path of a file with the address of the bot", facts.name));
    return Wrong("url", settings.url.empty() ? fmt::format("{} needs an address, or \"url_file\" with one", facts.name)
                                             : "there is also \"url_file\"; one of them is expected");
  }
  if (settings.url.empty()) return Status();
  if (facts.has_secret_address)
    return Wrong("url", fmt::format("the address of a {} bot is a secret; \"url_file\" with the path of a file that "
                                    "holds it is expected",
                                    facts.name));
  if (settings.type == ReceiverType::kEmail) {
    if (IsMailServer(settings.url)) return Status();
    return Wrong("url", fmt::format("\"{}\" is not the address of a mail server; smtp://HOST:PORT or smtps://HOST:PORT "
                                    "is expected",
                                    base::Printable(settings.url)));
  }
  if (IsWebAddress(settings.url)) return Status();
  // It may hold a password.
  return Wrong("url", "not a usable address; http://HOST… or https://HOST… without a user or password is expected");
}

Status CheckMail(const ReceiverSettings& settings) {
  if (settings.type != ReceiverType::kEmail) {
    const std::array<std::pair<const char*, bool>, 5> members = {{{"user", settings.user.empty()},
                                                                  {"password_file", settings.password_file.empty()},
                                                                  {"from", settings.from.empty()},
                                                                  {"to", settings.to.empty()},
                                                                  {"starttls", settings.starttls}}};
    for (const auto& [key, is_unset] : members)
      if (!is_unset) return Wrong(key, fmt::format("only email has it, and this is {}", FactsOf(settings.type).name));
    return Status();
  }
  if (!IsMailAddress(settings.from))
    return Wrong("from",
                 fmt::format("\"{}\" is not an address such as stepwatch@example.org", base::Printable(settings.from)));
  if (settings.to.empty() || settings.to.size() > 50) return Wrong("to", "1 to 50 addresses are expected");
  for (const std::string& address : settings.to)
    if (!IsMailAddress(address))
      return Wrong("to", fmt::format("\"{}\" is not an address such as oncall@example.org", base::Printable(address)));
  if (settings.user.empty() != settings.password_file.empty())
    return Wrong("user", "\"user\" and \"password_file\" are expected together");
  if (!settings.starttls && !settings.password_file.empty() && !settings.url.starts_with("smtps://"))
    return Wrong("starttls", "without TLS the password would be readable on the network; true is expected");
  return Status();
}

// An address and what may hold it, as errors name it.
Result<std::string> AddressOf(const ReceiverSettings& settings, const Secrets& secrets) {
  const bool is_mail = settings.type == ReceiverType::kEmail;
  const std::string& url = settings.url_file.empty() ? settings.url : secrets.url;
  if (is_mail ? IsMailServer(url) : IsWebAddress(url)) return url;
  return Status(StatusCode::kInvalid,
                fmt::format("{} holds no usable address; one line with {} is expected",
                            settings.url_file.empty() ? "\"url\"" : base::Printable(settings.url_file, 300),
                            is_mail ? "smtp://HOST:PORT" : "https://HOST…"));
}

std::string AlertsAddress(std::string url) {
  url.resize(url.find_last_not_of('/') + 1);
  return url.ends_with("/api/v2/alerts") ? url : url + "/api/v2/alerts";
}

}  // namespace

std::string_view NameOf(ReceiverType type) {
  return FactsOf(type).name;
}

std::optional<ReceiverType> ReceiverTypeNamed(std::string_view name) {
  for (size_t i = 0; i < kReceiverTypes; ++i)
    if (kTypes[i].name == name) return static_cast<ReceiverType>(i);
  return std::nullopt;
}

std::vector<std::string> ReceiverTypeNames() {
  std::vector<std::string> names;
  for (const TypeFacts& facts : kTypes) names.emplace_back(facts.name);
  return names;
}

double PerMinuteOf(ReceiverType type) {
  return FactsOf(type).per_minute;
}

size_t NoticesMax(ReceiverType type) {
  return FactsOf(type).notices_max;
}

Status Check(const ReceiverSettings& settings) {
  if (settings.name.empty() || settings.name.size() > 64 ||
      !std::all_of(settings.name.begin(), settings.name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
      }))
    return Wrong("name", fmt::format("\"{}\" is not a name of 1 to 64 letters, digits, - and _",
                                     base::Printable(settings.name)));
  const TypeFacts& facts = FactsOf(settings.type);
  if (Status status = CheckAddress(settings); !status.ok()) return status;
  if (!settings.secret_file.empty() && !facts.has_secret)
    return Wrong("secret_file", fmt::format("{} signs no messages; feishu, dingtalk and webhook do", facts.name));
  if (!settings.token_file.empty() && !facts.has_token)
    return Wrong("token_file", fmt::format("{} has no token; alertmanager and webhook have one", facts.name));
  if (Status status = CheckMail(settings); !status.ok()) return status;
  if (settings.language != "en" && settings.language != "zh")
    return Wrong("language", fmt::format("\"{}\" is not a language of messages; en or zh is expected",
                                         base::Printable(settings.language)));
  if (settings.per_minute && !(*settings.per_minute >= 0 && *settings.per_minute <= 6000))
    return Wrong("per_minute", "0 (no limit) to 6000 is expected");
  if (!(settings.lasts_seconds >= 30 && settings.lasts_seconds <= 86400))
    return Wrong("lasts_seconds", "30 to 86400 is expected");
  return Status();
}

Result<Outgoing> MakeOutgoing(const ReceiverSettings& settings, const Secrets& secrets, std::span<const Notice> notices,
                              size_t more, double now) {
  if (notices.empty()) return Status(StatusCode::kInternal, "a message without a notice");
  const Result<std::string> address = AddressOf(settings, secrets);
  if (!address.ok()) return address.status();
  Outgoing out;
  out.url = address.value();
  out.ca_file = settings.ca_file;
  // The address in the settings is no secret, but its path may hold one.
  out.secrets = SecretPartsOf(out.url);
  for (const std::string* secret : {&secrets.url, &secrets.secret, &secrets.token, &secrets.password}) {
    if (secret->empty()) continue;
    out.secrets.push_back(*secret);
    if (std::string encoded = PercentEncoded(*secret); encoded != *secret) out.secrets.push_back(std::move(encoded));
  }
  // It lets anybody acknowledge; a digest has no links.
  if (notices.size() == 1 || settings.type == ReceiverType::kWebhook)
    for (const Notice& notice : notices)
      for (std::string& part : SecretPartsOf(notice.acknowledge_link)) out.secrets.push_back(std::move(part));
  const std::string& language = settings.language;
  const auto seconds = static_cast<int64_t>(now);
  switch (settings.type) {
    case ReceiverType::kAlertmanager:
      out.url = AlertsAddress(out.url);
      out.body = AlertmanagerBody(notices, now, settings.lasts_seconds);
      break;
    case ReceiverType::kFeishu:
      out.body = FeishuBody(notices, more, language, secrets.secret, now);
      if (!secrets.secret.empty()) out.secrets.push_back(FeishuSignature(seconds, secrets.secret));
      break;
    case ReceiverType::kDingTalk:
      out.url = DingTalkAddress(out.url, secrets.secret, static_cast<int64_t>(1e3 * now));
      for (std::string& part : SecretPartsOf(out.url)) out.secrets.push_back(std::move(part));
      out.body = DingTalkBody(notices, more, language);
      break;
    case ReceiverType::kWeCom: out.body = WeComBody(notices, more, language); break;
    case ReceiverType::kSlack: out.body = SlackBody(notices, more, language); break;
    case ReceiverType::kEmail:
      out.mail = Mail{settings.from, settings.to, MailText(settings, notices, more, now)};
      out.user = settings.user;
      out.password = secrets.password;
      out.starttls = settings.starttls;
      // As it travels.
      if (!out.password.empty())
        for (const std::string& text : {out.password, '\0' + out.user + '\0' + out.password})
          out.secrets.push_back(Base64(text));
      return out;
    case ReceiverType::kWebhook:
      out.body = WebhookBody(settings, notices, more, now);
      if (!secrets.secret.empty()) {
        out.headers.push_back(fmt::format("X-Stepwatch-Timestamp: {}", seconds));
        out.secrets.push_back(WebhookSignature(seconds, secrets.secret, out.body));
        out.headers.push_back("X-Stepwatch-Signature: " + out.secrets.back());
      }
      break;
  }
  out.headers.emplace_back("Content-Type: application/json; charset=utf-8");
  if (!secrets.token.empty()) out.headers.push_back("Authorization: Bearer " + secrets.token);
  return out;
}

}  // namespace stepwatch::operations::delivery
