#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "operations/delivery/escape.h"
#include "operations/delivery/sign.h"
#include "operations/delivery/translate.h"
#include "src/base/parse_number.h"
#include "src/base/sha256.h"
#include "src/json/members.h"

namespace stepwatch::operations::delivery {
namespace {

// A number of exactly `digits` digits at a place of the text.
std::optional<int> DigitsAt(std::string_view text, size_t at, size_t digits) {
  if (at + digits > text.size()) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(at, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value;
}

// Seconds since 1970 of "2026-11-28T01:02:03.5+08:00". Empty for other texts and for years before 1970, such as the
// year 1 of an alert without an end.
std::optional<double> TimeOfText(std::string_view text) {
  const auto year = DigitsAt(text, 0, 4), month = DigitsAt(text, 5, 2), day = DigitsAt(text, 8, 2);
  const auto hour = DigitsAt(text, 11, 2), minute = DigitsAt(text, 14, 2), second = DigitsAt(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second || *year < 1970) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':') return std::nullopt;
  const std::chrono::year_month_day date = std::chrono::year(*year) / *month / *day;
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch();
  double t = static_cast<double>(std::chrono::duration_cast<std::chrono::seconds>(days).count());
  t += 3600 * *hour + 60 * *minute + *second;
  size_t at = 19;
  if (at < text.size() && text[at] == '.') {
    double unit = 0.1;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, unit /= 10) t += unit * (text[at] - '0');
  }
  if (text.substr(at) == "Z") return t;
  if (at + 6 != text.size() || (text[at] != '+' && text[at] != '-') || text[at + 3] != ':') return std::nullopt;
  const auto hours = DigitsAt(text, at + 1, 2), minutes = DigitsAt(text, at + 4, 2);
  if (!hours || !minutes) return std::nullopt;
  const int offset = 3600 * *hours + 60 * *minutes;
  return text[at] == '+' ? t - offset : t + offset;
}

std::string WebText(const Json& object, const char* name, size_t bytes_max) {
  return Plain(json::RawText(object, name), bytes_max);
}

std::string WebAddress(const Json& object, const char* name) {
  const std::string address = json::RawText(object, name);
  return IsWebAddress(address) ? address : std::string();
}

// The ranks in "3, 5"; empty for any other text.
std::vector<int64_t> RanksOfText(std::string_view text) {
  std::vector<int64_t> ranks;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const auto rank = base::ParseNumber<int64_t>(text.substr(0, end));
    if (!rank || *rank < 0 || ranks.size() > Notice::kRanksMax) return {};
    ranks.push_back(*rank);
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
  }
  return ranks;
}

Severity SeverityOfLabel(const std::string& text) {
  if (text == "critical" || text == "page" || text == "error") return Severity::kCritical;
  return text == "info" || text == "none" ? Severity::kInfo : Severity::kWarning;
}

std::string SilenceLinkOf(const std::string& external_url, const Notice& notice) {
  if (external_url.empty() || notice.labels.empty()) return {};
  std::string filter = "{";
  for (const auto& [name, value] : notice.labels) {
    if (filter.size() > 1) filter += ",";
    filter += name + "=\"";
    for (const char c : value) filter += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    filter += "\"";
  }
  const std::string link =
      fmt::format("{}/#/silences/new?filter={}", external_url.substr(0, external_url.find_last_not_of('/') + 1),
                  PercentEncoded(filter + "}"));
  return link.size() <= Notice::kLinkBytesMax ? link : std::string();
}

Notice NoticeOfAlert(const Json& alert, const std::string& external_url) {
  const Json& labels = json::Part(alert, "labels");
  const Json& annotations = json::Part(alert, "annotations");
  Notice notice;
  std::string all_labels;
  for (const auto& [name, value] : labels.items()) {
    if (!value.is_string()) continue;
    const std::string& text = value.get_ref<const std::string&>();
    all_labels += fmt::format("{}:{}={}:{},", name.size(), name, text.size(), text);
    if (notice.labels.size() >= Notice::kLabelsMax) continue;
    notice.labels.emplace_back(Plain(name, Notice::kNameBytesMax), Plain(text, Notice::kNameBytesMax));
  }
  const auto label = [&labels](const char* name) { return WebText(labels, name, Notice::kNameBytesMax); };
  const std::string fingerprint = WebText(alert, "fingerprint", 64);
  notice.key = "alert " + (fingerprint.empty() ? base::Sha256Hex(all_labels).substr(0, 16) : fingerprint);
  // Its own status: resolved alerts arrive within groups that fire.
  notice.state = json::RawText(alert, "status") == "resolved" ? NoticeState::kResolved : NoticeState::kOpened;
  const std::string starts = WebText(alert, "startsAt", 64);
  // Groups are sent again as a whole, and by each server of a cluster.
  notice.change = fmt::format("{} {} {}", notice.key, NameOf(notice.state), starts);
  notice.severity = SeverityOfLabel(label("severity"));
  notice.kind = label("alertname");
  if (notice.kind.empty()) notice.kind = "alert";

  const auto note = [&annotations](const char* name) { return WebText(annotations, name, Notice::kTextBytesMax); };
  notice.title = note("summary");
  if (notice.title.empty()) notice.title = notice.kind;
  notice.title_zh = note("summary_zh");
  notice.advice = note("advice");
  notice.advice_zh = note("advice_zh");
  if (std::string description = note("description"); !description.empty())
    notice.evidence.emplace_back("description", std::move(description));
  notice.run = label("run");
  notice.host = label("host");
  if (notice.host.empty()) notice.host = label("instance");
  notice.owner = label("owner");
  notice.ranks = RanksOfText(label("rank"));
  // The ranks of an incident are an annotation, not a label.
  if (notice.ranks.empty()) notice.ranks = RanksOfText(note("ranks"));
  notice.step = base::ParseNumber<int64_t>(note("step"));
  // Labels that no field shows.
  constexpr std::array<std::string_view, 9> kShown = {"alertname", "severity", "run",      "host",     "instance",
                                                      "owner",     "rank",     "incident", "component"};
  for (const auto& [name, value] : notice.labels) {
    if (notice.evidence.size() >= Notice::kEvidenceMax) break;
    if (std::find(kShown.begin(), kShown.end(), name) == kShown.end()) notice.evidence.emplace_back(name, value);
  }
  notice.opened_t = TimeOfText(starts).value_or(0);
  const std::optional<double> ended = TimeOfText(json::RawText(alert, "endsAt"));
  notice.t = notice.state == NoticeState::kResolved ? ended.value_or(notice.opened_t) : notice.opened_t;
  for (const char* name : {"dashboard_url", "runbook_url"})
    if (notice.link.empty()) notice.link = WebAddress(annotations, name);
  if (notice.link.empty()) notice.link = WebAddress(alert, "generatorURL");
  notice.silence_link = SilenceLinkOf(external_url, notice);
  return notice;
}

}  // namespace

Result<std::vector<Notice>> NoticesOfWebhook(std::string_view body_untrusted) {
  if (body_untrusted.size() > kWebhookBytesMax)
    return Status(StatusCode::kExhausted,
                  fmt::format("the body has more than {} MiB; nothing of it is sent", kWebhookBytesMax >> 20));
  Result<Json> body = json::Parse(body_untrusted);
  if (!body.ok()) return body.status();
  const Json& group = body.value();
  if (!group.is_object() || json::RawText(group, "version") != "4" || !json::Member(group, "alerts").is_array())
    return Status(StatusCode::kInvalid,
                  "the body is no webhook of Alertmanager: an object with \"version\" \"4\" and a list \"alerts\" is "
                  "expected");
  const Json& alerts = json::Member(group, "alerts");
  if (alerts.size() > kWebhookAlertsMax)
    return Status(StatusCode::kExhausted,
                  fmt::format("the body has {} alerts, and {} are the most; set max_alerts in the webhook_config of "
                              "Alertmanager",
                              alerts.size(), kWebhookAlertsMax));
  const std::string external_url = WebAddress(group, "externalURL");
  std::vector<Notice> notices;
  notices.reserve(alerts.size());
  for (const Json& alert : alerts) {
    if (!alert.is_object())
      return Status(StatusCode::kInvalid, fmt::format("alerts[{}] is not an object", notices.size()));
    notices.push_back(NoticeOfAlert(alert, external_url));
  }
  return notices;
}

}  // namespace stepwatch::operations::delivery
