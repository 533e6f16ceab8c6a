#include "operations/delivery/acknowledge_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include <array>
#include <cmath>

#include "operations/delivery/escape.h"
#include "operations/delivery/sign.h"
#include "src/base/file.h"
#include "src/base/parse_number.h"
#include "src/base/text.h"
#include "src/base/time_text.h"
#include "src/http/router.h"

namespace stepwatch::operations::delivery {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr const char* kKeyFile = "acknowledge.key";
constexpr size_t kIncidentMax = 300, kPersonMax = 100;

std::string Html(std::string_view text_untrusted) {
  std::string html;
  for (const char c : base::ValidUtf8(text_untrusted)) switch (c) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      case '"': html += "&quot;"; break;
      case '\'': html += "&#39;"; break;
      default: html += c;
    }
  return html;
}

std::string PageWith(std::string_view title, const std::string& content) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"robots\" content=\"noindex\">\n<title>{}</title>\n</head>\n<body>\n<h1>{}</h1>\n{}</body>\n"
      "</html>\n",
      Html(title), Html(title), content);
}

std::string Row(std::string_view name, std::string_view value) {
  return value.empty() ? "" : fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", Html(name), Html(value));
}

}  // namespace

Result<AcknowledgeLinks> AcknowledgeLinks::Open(const std::string& state_directory, base::FileSystem& files) {
  const std::string path = base::JoinPath(state_directory, kKeyFile);
  if (Status made = base::MakeDirectories(state_directory, files); !made.ok()) return made;
  Result<std::string> key = base::ReadFile(path, kKeyBytes, files);
  if (key.ok() && key.value().size() == kKeyBytes) return AcknowledgeLinks(std::move(key).value());
  std::array<char, kKeyBytes> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Status(StatusCode::kUnavailable, "the system gives no random bytes for " + path);
  const std::string made(bytes.data(), bytes.size());
  // umask 0077 of the daemon keeps it from others; ReplaceFile makes a temporary file beside it.
  if (Status written = base::ReplaceFile(path, made, files); !written.ok()) return written;
  return AcknowledgeLinks(made);
}

std::string AcknowledgeLinks::SignatureOf(const std::string& incident, const std::string& expiry) const {
  return Hex(HmacSha256(key_, "acknowledge\n" + expiry + "\n" + incident));
}

std::string AcknowledgeLinks::LinkTo(const std::string& public_url, const std::string& incident, double now) const {
  const std::string expiry = fmt::format("{:.0f}", std::ceil(now + kLifeSeconds));
  std::string base = public_url;
  while (base.ends_with('/')) base.pop_back();
  return fmt::format("{}/v1/acknowledge/{}/{}/{}", base, PercentEncoded(incident), expiry,
                     SignatureOf(incident, expiry));
}

std::optional<std::string> AcknowledgeLinks::IncidentOf(const std::vector<std::string>& parts_untrusted,
                                                        double now) const {
  if (parts_untrusted.size() != 3 || parts_untrusted[0].size() > kIncidentMax) return std::nullopt;
  const std::string signature = SignatureOf(parts_untrusted[0], parts_untrusted[1]);
  // In time that does not depend on where the two differ.
  const bool is_signed = signature.size() == parts_untrusted[2].size() &&
                         CRYPTO_memcmp(signature.data(), parts_untrusted[2].data(), signature.size()) == 0;
  const std::optional<int64_t> expiry = base::ParseNumber<int64_t>(parts_untrusted[1]);
  if (!is_signed || !expiry || static_cast<double>(*expiry) < now) return std::nullopt;
  return parts_untrusted[0];
}

std::string AcknowledgePage(const Notice& notice, const std::optional<std::string>& acknowledged_by) {
  std::string ranks;
  for (const int64_t rank : notice.ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  std::string content = fmt::format("<p>{}</p>\n<table>\n", Html(notice.title));
  content += Row("run", notice.run) + Row("severity", operations::NameOf(notice.severity)) + Row("ranks", ranks);
  if (notice.step) content += Row("step", std::to_string(*notice.step));
  content += Row("opened", base::UtcText(static_cast<std::time_t>(notice.opened_t)));
  if (notice.state == NoticeState::kResolved)
    content += Row("resolved", base::UtcText(static_cast<std::time_t>(notice.t)));
  for (const auto& [name, value] : notice.evidence) content += Row(name, value);
  content += "</table>\n";
  if (!notice.advice.empty()) content += fmt::format("<p>{}</p>\n", Html(notice.advice));
  if (acknowledged_by)
    content +=
        fmt::format("<p>Acknowledged by {}.</p>\n", Html(acknowledged_by->empty() ? "somebody" : *acknowledged_by));
  else
    content += fmt::format(
        "<form method=\"post\">\n<p><label>Your name <input name=\"by\" maxlength=\"{}\"></label>\n"
        "<button type=\"submit\">Acknowledge</button></p>\n</form>\n",
        kPersonMax);
  return PageWith(notice.kind, content);
}

std::string PlainPage(std::string_view title, std::string_view sentence) {
  return PageWith(title, fmt::format("<p>{}</p>\n", Html(sentence)));
}

std::string NameInForm(std::string_view body_untrusted) {
  std::string form(body_untrusted.substr(0, 10 * kPersonMax));
  for (char& c : form)
    if (c == '+') c = ' ';
  const std::string name = base::Printable(http::ParseQuery(form)["by"], kPersonMax);
  return name.empty() ? "a link in a message" : name + " (by a link in a message)";
}

}  // namespace stepwatch::operations::delivery
