#include <fmt/format.h>

#include "operations/delivery/escape.h"
#include "operations/delivery/formats.h"
#include "operations/delivery/message_text.h"
#include "operations/delivery/sign.h"
#include "src/base/sha256.h"
#include "src/base/time_text.h"

namespace stepwatch::operations::delivery {
namespace {

// Base64 in lines of 76 characters.
std::string Lines76(std::string_view text) {
  const std::string encoded = Base64(text);
  std::string lines;
  for (size_t at = 0; at < encoded.size(); at += 76) lines += encoded.substr(at, 76) + "\r\n";
  return lines;
}

std::string PlainBody(const MessageText& text) {
  std::string body = text.headline + "\n\n";
  for (const auto& [name, value] : text.fields) body += name + ": " + value + "\n";
  if (!text.evidence.empty()) body += "\n";
  for (const auto& [name, value] : text.evidence) body += name + ": " + value + "\n";
  for (const std::string& line : text.lines) body += line + "\n";
  if (!text.advice.empty()) body += "\n" + text.advice_label + ": " + text.advice + "\n";
  if (!text.links.empty()) body += "\n";
  for (const auto& [name, address] : text.links) body += name + ": " + address + "\n";
  for (const std::string& remark : text.remarks) body += "\n" + remark + "\n";
  return body;
}

}  // namespace

std::string MailText(const ReceiverSettings& settings, std::span<const Notice> notices, size_t more, double now) {
  const MessageText text = TextOf(notices, more, settings.language, Fit());
  const std::string host = settings.from.substr(settings.from.find('@') + 1);
  std::string to;
  for (const std::string& address : settings.to) to += (to.empty() ? "" : ",\r\n ") + address;
  // Mail programs show the changes of an incident as one thread. A repeated message has the id of the first one.
  const std::string change = fmt::format("{} {} {}", notices.front().change, notices.size(), more);
  const bool is_one = notices.size() == 1 && more == 0;
  std::string mail;
  const auto header = [&mail](std::string_view name, const std::string& value) {
    mail += fmt::format("{}: {}\r\n", name, value);
  };
  header("Date", base::UtcText(static_cast<std::time_t>(now), "%a, %d %b %Y %H:%M:%S +0000"));
  header("From", settings.from);
  header("To", to);
  header("Subject", HeaderText(text.headline));
  header("Message-ID", fmt::format("<{}@{}>", base::Sha256Hex(change).substr(0, 32), host));
  if (is_one) {
    const std::string thread = fmt::format("<{}@{}>", base::Sha256Hex(notices.front().key).substr(0, 32), host);
    header("References", thread);
  }
  header("Auto-Submitted", "auto-generated");
  header("MIME-Version", "1.0");
  header("Content-Type", "text/plain; charset=utf-8");
  header("Content-Transfer-Encoding", "base64");
  return mail + "\r\n" + Lines76(PlainBody(text));
}

}  // namespace stepwatch::operations::delivery
