#include "operations/delivery/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

#include "operations/delivery/escape.h"
#include "src/base/text.h"
#include "src/vocabulary/incident_kinds_zh.h"

namespace stepwatch::operations::delivery {
namespace {

constexpr size_t kValuesMax = 16;

std::string NumberText(double value) {
  return fmt::format("{:.6g}", value);
}

std::string ValueText(const EvidenceValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using Value = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return v ? "true" : "false";
        } else if constexpr (std::is_same_v<Value, int64_t>) {
          return std::to_string(v);
        } else if constexpr (std::is_same_v<Value, double>) {
          return NumberText(v);
        } else if constexpr (std::is_same_v<Value, std::string>) {
          return v;
        } else {
          std::string text;
          for (size_t i = 0; i < v.size() && i < kValuesMax; ++i) {
            if (i > 0) text += ", ";
            if constexpr (std::is_same_v<Value, std::vector<double>>)
              text += NumberText(v[i]);
            else if constexpr (std::is_same_v<Value, std::vector<int64_t>>)
              text += std::to_string(v[i]);
            else
              text += v[i].substr(0, Notice::kTextBytesMax);
          }
          return v.size() > kValuesMax ? text + ", …" : text;
        }
      },
      value);
}

// Stacks have many lines; they are behind the link.
bool IsStack(std::string_view name) {
  return name == "stack" || name.starts_with("stacks_of_");
}

std::string LinkOf(std::string pattern, const Incident& incident) {
  const std::pair<std::string_view, std::string_view> values[] = {
      {"{id}", incident.id}, {"{run}", incident.run}, {"{kind}", NameOf(incident.kind)}};
  for (const auto& [name, value] : values) {
    const std::string encoded = PercentEncoded(value.substr(0, Notice::kNameBytesMax));
    for (size_t at = pattern.find(name); at != std::string::npos; at = pattern.find(name, at + encoded.size()))
      pattern.replace(at, name.size(), encoded);
  }
  return IsWebAddress(pattern) ? pattern : std::string();
}

}  // namespace

Notice NoticeOf(const StoredChange& change, const Links& links) {
  const Incident& incident = change.incident;
  const auto& text = vocabulary::kIncidentKindTexts[static_cast<size_t>(incident.kind)];
  const auto& text_zh = vocabulary::kIncidentKindTextsZh[static_cast<size_t>(incident.kind)];
  Notice notice;
  notice.key = Plain(incident.id, Notice::kNameBytesMax);
  notice.state = change.what == "resolved"       ? NoticeState::kResolved
                 : change.what == "acknowledged" ? NoticeState::kAcknowledged
                                                 : NoticeState::kOpened;
  notice.change = fmt::format("{} {}", notice.key, NameOf(notice.state));
  // It can be acknowledged again, by another person.
  if (notice.state == NoticeState::kAcknowledged) notice.change += fmt::format(" {}", change.number);
  notice.severity = incident.severity;
  notice.kind = text.name;
  notice.title = text.meaning;
  notice.title_zh = text_zh.meaning;
  notice.advice = text.advice;
  notice.advice_zh = text_zh.advice;
  notice.run = Plain(incident.run, Notice::kNameBytesMax);
  notice.ranks.assign(incident.ranks.begin(),
                      incident.ranks.begin() + std::min<size_t>(incident.ranks.size(), Notice::kRanksMax + 1));
  notice.step = incident.since_step;
  for (const auto& [name, value] : incident.evidence.entries()) {
    if (notice.evidence.size() >= Notice::kEvidenceMax) break;
    if (IsStack(name)) continue;
    if (name == "host" && std::holds_alternative<std::string>(value))
      notice.host = Plain(std::get<std::string>(value), Notice::kNameBytesMax);
    notice.evidence.emplace_back(Plain(name, Notice::kNameBytesMax), Plain(ValueText(value), Notice::kTextBytesMax));
  }
  notice.t =
      notice.state == NoticeState::kAcknowledged && change.acknowledgement ? change.acknowledgement->t : incident.t;
  notice.opened_t = incident.opened_t;
  if (change.acknowledgement) notice.by = Plain(change.acknowledgement->by, Notice::kNameBytesMax);
  notice.link = LinkOf(links.incident, incident);
  if (links.acknowledge && notice.state == NoticeState::kOpened && !change.acknowledgement)
    notice.acknowledge_link = links.acknowledge(incident);
  return notice;
}

Notice TestNotice(double now) {
  Notice notice;
  notice.key = "test";
  notice.change = fmt::format("test {:.3f}", now);
  notice.severity = Severity::kInfo;
  notice.kind = "test";
  notice.title = "a test of this receiver; all runs are well";
  notice.title_zh = "接收端测试，训练一切正常";
  notice.run = "stepwatch-test";
  notice.step = 1200;
  notice.ranks = {3};
  notice.evidence = {{"loss", "2.5"}, {"marks", "<b>&*_`[x](http://x)"}};
  notice.t = notice.opened_t = now;
  return notice;
}

}  // namespace stepwatch::operations::delivery
