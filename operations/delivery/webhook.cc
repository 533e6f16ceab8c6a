#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operations/delivery/formats.h"
#include "operations/delivery/message_text.h"
#include "operations/delivery/sign.h"
#include "src/json/json.h"

namespace stepwatch::operations::delivery {
namespace {

Json PairsJson(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json json = Json::object();
  for (const auto& [name, value] : pairs) json[name] = value;
  return json;
}

Json NoticeJson(const Notice& notice) {
  return {{"key", notice.key},
          {"change", notice.change},
          {"state", NameOf(notice.state)},
          {"severity", operations::NameOf(notice.severity)},
          {"kind", notice.kind},
          {"title", notice.title},
          {"title_zh", json::OrNull(notice.title_zh)},
          {"advice", json::OrNull(notice.advice)},
          {"advice_zh", json::OrNull(notice.advice_zh)},
          {"run", json::OrNull(notice.run)},
          {"host", json::OrNull(notice.host)},
          {"owner", json::OrNull(notice.owner)},
          {"ranks", notice.ranks},
          {"step", json::OrNull(notice.step)},
          {"evidence", PairsJson(notice.evidence)},
          {"labels", PairsJson(notice.labels)},
          {"t", json::Number(notice.t)},
          {"opened_t", json::Number(notice.opened_t)},
          {"by", json::OrNull(notice.by)},
          {"link", json::OrNull(notice.link)},
          {"acknowledge_link", json::OrNull(notice.acknowledge_link)},
          {"repeated", notice.is_repeated}};
}

}  // namespace

std::string WebhookBody(const ReceiverSettings& settings, std::span<const Notice> notices, size_t more, double now) {
  Json list = Json::array();
  for (const Notice& notice : notices) list.push_back(NoticeJson(notice));
  return json::Dump({{"version", 1},
                     {"receiver", settings.name},
                     {"sent_t", json::Number(now)},
                     {"headline", TextOf(notices, more, settings.language, Fit()).headline},
                     {"notices", std::move(list)},
                     {"more", more}});
}

std::string WebhookSignature(int64_t seconds, const std::string& secret, std::string_view body) {
  return "sha256=" + Hex(HmacSha256(secret, fmt::format("{}.{}", seconds, body)));
}

}  // namespace stepwatch::operations::delivery
