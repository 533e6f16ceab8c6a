#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operations/delivery/escape.h"
#include "operations/delivery/formats.h"
#include "operations/delivery/message_text.h"
#include "operations/delivery/sign.h"
#include "src/json/json.h"

namespace stepwatch::operations::delivery {
namespace {

constexpr size_t kDingTalkBytesMax = 20'000;
// Limits the text, not the body.
constexpr size_t kWeComTextBytesMax = 4096;

// `paragraph` separates blocks: DingTalk joins lines that have no empty line between them.
std::string MarkdownOf(const MessageText& text, std::string_view paragraph) {
  std::string markdown = "#### " + FullWidthText(text.headline);
  const auto add = [&](const std::string& line) { markdown += std::string(paragraph) + line; };
  for (const auto& [name, value] : text.fields)
    add(fmt::format("**{}**: {}", FullWidthText(name), FullWidthText(value)));
  for (const auto& [name, value] : text.evidence) add(fmt::format("{}: {}", FullWidthText(name), FullWidthText(value)));
  for (const std::string& line : text.lines) add(FullWidthText(line));
  if (!text.advice.empty()) add(fmt::format("**{}**: {}", text.advice_label, FullWidthText(text.advice)));
  std::string links;
  for (const auto& [name, address] : text.links)
    links += fmt::format("{}[{}]({})", links.empty() ? "" : " ", name, address);
  if (!links.empty()) add(links);
  for (const std::string& remark : text.remarks) add(FullWidthText(remark));
  return markdown;
}

}  // namespace

std::string DingTalkBody(std::span<const Notice> notices, size_t more, std::string_view language) {
  return Fitted(kDingTalkBytesMax, [&](const Fit& fit) {
    const MessageText text = TextOf(notices, more, language, fit);
    return json::Dump({{"msgtype", "markdown"},
                       {"markdown", {{"title", FullWidthText(text.headline)}, {"text", MarkdownOf(text, "\n\n")}}},
                       {"at", {{"isAtAll", false}}}});
  });
}

std::string DingTalkAddress(const std::string& url, const std::string& secret, int64_t milliseconds) {
  if (secret.empty()) return url;
  const std::string time = std::to_string(milliseconds);
  return fmt::format("{}{}timestamp={}&sign={}", url, url.find('?') == std::string::npos ? '?' : '&', time,
                     PercentEncoded(Base64(HmacSha256(secret, time + "\n" + secret))));
}

std::string WeComBody(std::span<const Notice> notices, size_t more, std::string_view language) {
  const std::string content = Fitted(
      kWeComTextBytesMax, [&](const Fit& fit) { return MarkdownOf(TextOf(notices, more, language, fit), "\n"); });
  return json::Dump({{"msgtype", "markdown"}, {"markdown", {{"content", content}}}});
}

}  // namespace stepwatch::operations::delivery
