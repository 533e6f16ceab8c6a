#include <nlohmann/json.hpp>

#include "operations/delivery/escape.h"
#include "operations/delivery/formats.h"
#include "operations/delivery/message_text.h"
#include "operations/delivery/sign.h"
#include "src/json/json.h"

namespace stepwatch::operations::delivery {
namespace {

// The service accepts 20 KB.
constexpr size_t kFeishuBytesMax = 20'000;

const char* TemplateOf(Colour colour) {
  switch (colour) {
    case Colour::kRed: return "red";
    case Colour::kOrange: return "orange";
    case Colour::kBlue: return "blue";
    case Colour::kGrey: return "grey";
    case Colour::kGreen: return "green";
  }
  return "red";
}

Json LarkText(std::string content) {
  return {{"tag", "lark_md"}, {"content", std::move(content)}};
}

Json CardOf(const MessageText& text) {
  Json elements = Json::array();
  if (!text.fields.empty()) {
    Json fields = Json::array();
    for (const auto& [name, value] : text.fields)
      fields.push_back({{"is_short", true}, {"text", LarkText("**" + FeishuText(name) + "**\n" + FeishuText(value))}});
    elements.push_back({{"tag", "div"}, {"fields", std::move(fields)}});
  }
  const auto add = [&elements](std::string content) {
    if (!content.empty()) elements.push_back({{"tag", "div"}, {"text", LarkText(std::move(content))}});
  };
  std::string evidence;
  for (const auto& [name, value] : text.evidence)
    evidence += (evidence.empty() ? "" : "\n") + FeishuText(name) + ": " + FeishuText(value);
  add(std::move(evidence));
  std::string lines;
  for (const std::string& line : text.lines) lines += (lines.empty() ? "" : "\n") + FeishuText(line);
  add(std::move(lines));
  if (!text.advice.empty()) add("**" + FeishuText(text.advice_label) + "**\n" + FeishuText(text.advice));
  if (!text.links.empty()) {
    Json actions = Json::array();
    for (const auto& [name, address] : text.links)
      actions.push_back({{"tag", "button"},
                         {"text", {{"tag", "plain_text"}, {"content", name}}},
                         {"url", address},
                         {"type", actions.empty() ? "primary" : "default"}});
    elements.push_back({{"tag", "action"}, {"actions", std::move(actions)}});
  }
  for (const std::string& remark : text.remarks) add(FeishuText(remark));
  // A card without elements is refused.
  if (elements.empty()) add(FeishuText(text.headline));
  return {{"config", {{"wide_screen_mode", true}}},
          {"header",
           {{"template", TemplateOf(text.colour)}, {"title", {{"tag", "plain_text"}, {"content", text.headline}}}}},
          {"elements", std::move(elements)}};
}

}  // namespace

std::string FeishuSignature(int64_t seconds, const std::string& secret) {
  return Base64(HmacSha256(std::to_string(seconds) + "\n" + secret, ""));
}

std::string FeishuBody(std::span<const Notice> notices, size_t more, std::string_view language,
                       const std::string& secret, double now) {
  return Fitted(kFeishuBytesMax, [&](const Fit& fit) {
    Json body = Json::object();
    if (!secret.empty()) {
      const auto seconds = static_cast<int64_t>(now);
      body["timestamp"] = std::to_string(seconds);
      body["sign"] = FeishuSignature(seconds, secret);
    }
    body["msg_type"] = "interactive";
    body["card"] = CardOf(TextOf(notices, more, language, fit));
    return json::Dump(body);
  });
}

}  // namespace stepwatch::operations::delivery
