#include "operations/delivery/message.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/json/json.h"
#include "src/json/members.h"

namespace stepwatch::operations::delivery {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"waiting", "sending", "sent", "dead", "open"};
constexpr NoticeState kNoticeStates[] = {NoticeState::kOpened, NoticeState::kAcknowledged, NoticeState::kResolved};

using Pairs = std::vector<std::pair<std::string, std::string>>;

Json PairsJson(const Pairs& pairs) {
  Json list = Json::array();
  for (const auto& [name, value] : pairs) list.push_back({name, value});
  return list;
}

Pairs PairsOf(const Json& list) {
  Pairs pairs;
  for (const Json& each : list)
    if (each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string())
      pairs.emplace_back(each[0].get<std::string>(), each[1].get<std::string>());
  return pairs;
}

// The members of text, the same for both directions.
template <class NoticeT, class Do>
void ForEachText(NoticeT& notice, bool with_details, const Do& act) {
  act("key", notice.key);
  act("change", notice.change);
  act("kind", notice.kind);
  act("title", notice.title);
  act("run", notice.run);
  act("host", notice.host);
  act("owner", notice.owner);
  act("by", notice.by);
  if (!with_details) return;
  act("title_zh", notice.title_zh);
  act("advice", notice.advice);
  act("advice_zh", notice.advice_zh);
  act("link", notice.link);
  act("silence_link", notice.silence_link);
}

}  // namespace

std::string_view NameOf(MessageState state) {
  return kNames[static_cast<size_t>(state)];
}

std::string RowOf(const Message& message) {
  const Notice& notice = message.notice;
  const bool with_details = message.state != MessageState::kSent && message.state != MessageState::kDead;
  Json json = {{"state", NameOf(message.state)},
               {"notice", NameOf(notice.state)},
               {"severity", operations::NameOf(notice.severity)},
               {"queued_t", message.queued_t},
               {"changed_t", message.changed_t},
               {"attempts", message.attempts},
               {"counted", message.is_counted},
               {"reason", message.reason},
               {"t", notice.t},
               {"opened_t", notice.opened_t},
               {"repeated", notice.is_repeated}};
  ForEachText(notice, with_details, [&](const char* name, const std::string& text) {
    if (!text.empty()) json[name] = text;
  });
  json["ranks"] = notice.ranks;
  if (notice.step) json["step"] = *notice.step;
  if (!with_details) return json::Dump(json);
  json["evidence"] = PairsJson(notice.evidence);
  json["labels"] = PairsJson(notice.labels);
  return json::Dump(json);
}

Result<Message> MessageOfRow(std::string_view text) {
  const Result<Json> parsed = json::Parse(text);
  if (!parsed.ok() || !parsed.value().is_object()) return Status(StatusCode::kInvalid, "not a message");
  const Json& json = parsed.value();
  Message message;
  Notice& notice = message.notice;
  ForEachText(notice, true, [&](const char* name, std::string& out) { out = json::RawText(json, name); });
  const std::string state = json::RawText(json, "state"), change = json::RawText(json, "notice");
  bool is_known = false;
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == state) message.state = static_cast<MessageState>(i), is_known = true;
  for (const NoticeState each : kNoticeStates)
    if (NameOf(each) == change) notice.state = each;
  if (!is_known || notice.key.empty() || notice.change.empty()) return Status(StatusCode::kInvalid, "not a message");
  notice.severity = SeverityNamed(json::RawText(json, "severity")).value_or(Severity::kWarning);
  message.queued_t = json::Number(json, "queued_t");
  message.changed_t = json::Number(json, "changed_t");
  message.attempts = json::Whole(json, "attempts", 0);
  message.is_counted = json::IsTrue(json, "counted");
  message.reason = json::RawText(json, "reason");
  notice.t = json::Number(json, "t");
  notice.opened_t = json::Number(json, "opened_t");
  notice.is_repeated = json::IsTrue(json, "repeated");
  for (const Json& rank : json::List(json, "ranks"))
    if (rank.is_number_integer()) notice.ranks.push_back(rank.get<int64_t>());
  if (json::Member(json, "step").is_number_integer()) notice.step = json::Whole(json, "step");
  notice.evidence = PairsOf(json::List(json, "evidence"));
  notice.labels = PairsOf(json::List(json, "labels"));
  return message;
}

}  // namespace stepwatch::operations::delivery
