#include <nlohmann/json.hpp>

#include "operations/delivery/escape.h"
#include "operations/delivery/formats.h"
#include "operations/delivery/message_text.h"
#include "src/json/json.h"

namespace stepwatch::operations::delivery {
namespace {

// A section has 3000 characters at most; 10 fields of 2000 characters.
constexpr size_t kSectionBytesMax = 3000;
constexpr size_t kFieldsMax = 10;
// No limit of a whole message is published; one of this size was always within those of its blocks.
constexpr size_t kSlackBytesMax = 30'000;

const char* HexOf(Colour colour) {
  switch (colour) {
    case Colour::kRed: return "#d03030";
    case Colour::kOrange: return "#e08000";
    case Colour::kBlue: return "#3070d0";
    case Colour::kGrey: return "#808080";
    case Colour::kGreen: return "#30a050";
  }
  return "#d03030";
}

// `verbatim`: addresses and names in foreign text do not become links or mentions.
Json Mrkdwn(std::string text) {
  return {{"type", "mrkdwn"}, {"text", std::move(text)}, {"verbatim", true}};
}

// Lines as sections, each below the limit. A single line is far below it.
void AddSections(const std::vector<std::string>& lines, Json* blocks) {
  std::string section;
  const auto flush = [&] {
    if (!section.empty()) blocks->push_back({{"type", "section"}, {"text", Mrkdwn(std::move(section))}});
    section.clear();
  };
  for (std::string line : lines) {
    // Entities that a cut would break are left out with it.
    if (line.size() > kSectionBytesMax)
      line = Plain(line.substr(0, line.rfind('&', kSectionBytesMax - 10)), kSectionBytesMax - 10);
    if (section.size() + 1 + line.size() > kSectionBytesMax) flush();
    section += (section.empty() ? "" : "\n") + line;
  }
  flush();
}

Json BlocksOf(const MessageText& text) {
  Json blocks = Json::array();
  Json fields = Json::array();
  for (const auto& [name, value] : text.fields)
    if (fields.size() < kFieldsMax) fields.push_back(Mrkdwn("*" + SlackText(name) + "*\n" + SlackText(value)));
  if (!fields.empty()) blocks.push_back({{"type", "section"}, {"fields", std::move(fields)}});
  std::vector<std::string> lines;
  for (const auto& [name, value] : text.evidence) lines.push_back(SlackText(name) + ": " + SlackText(value));
  for (const std::string& line : text.lines) lines.push_back(SlackText(line));
  AddSections(lines, &blocks);
  if (!text.advice.empty()) AddSections({"*" + text.advice_label + "*", SlackText(text.advice)}, &blocks);
  if (!text.links.empty()) {
    Json buttons = Json::array();
    for (const auto& [name, address] : text.links)
      buttons.push_back({{"type", "button"}, {"text", {{"type", "plain_text"}, {"text", name}}}, {"url", address}});
    blocks.push_back({{"type", "actions"}, {"elements", std::move(buttons)}});
  }
  for (const std::string& remark : text.remarks)
    blocks.push_back({{"type", "context"}, {"elements", Json::array({Mrkdwn(SlackText(remark))})}});
  return blocks;
}

}  // namespace

std::string SlackBody(std::span<const Notice> notices, size_t more, std::string_view language) {
  return Fitted(kSlackBytesMax, [&](const Fit& fit) {
    const MessageText text = TextOf(notices, more, language, fit);
    return json::Dump({{"text", SlackText(text.headline)},
                       {"unfurl_links", false},
                       {"unfurl_media", false},
                       {"attachments", Json::array({{{"color", HexOf(text.colour)}, {"blocks", BlocksOf(text)}}})}});
  });
}

}  // namespace stepwatch::operations::delivery
