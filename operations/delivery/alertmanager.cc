#include <algorithm>
#include <nlohmann/json.hpp>

#include "operations/delivery/escape.h"
#include "operations/delivery/formats.h"
#include "operations/delivery/message_text.h"
#include "src/json/json.h"

namespace stepwatch::operations::delivery {
namespace {

// An empty value would be a missing label.
void SetLabel(std::string_view name, std::string_view value, Json* labels) {
  if (!value.empty()) (*labels)[LabelName(name)] = Plain(value, Notice::kNameBytesMax);
}

Json AlertJson(const Notice& notice, double now, double lasts_seconds) {
  Json labels = Json::object();
  size_t count = 0;
  for (const auto& [name, value] : notice.labels)
    if (count++ < Notice::kLabelsMax) SetLabel(name, value, &labels);
  SetLabel("alertname", notice.kind, &labels);
  SetLabel("severity", operations::NameOf(notice.severity), &labels);
  SetLabel("component", "training", &labels);
  SetLabel("run", notice.run, &labels);
  SetLabel("host", notice.host, &labels);
  SetLabel("owner", notice.owner, &labels);
  SetLabel("incident", notice.key, &labels);

  // Values that change are annotations: they are not part of the identity of an alert.
  Json annotations = Json::object();
  const auto annotate = [&annotations](const char* name, std::string_view text) {
    if (!text.empty()) annotations[name] = Plain(text, 4000);
  };
  annotate("summary", notice.title);
  annotate("summary_zh", notice.title_zh);
  annotate("advice", notice.advice);
  annotate("advice_zh", notice.advice_zh);
  std::string ranks;
  for (size_t i = 0; i < notice.ranks.size() && i < Notice::kRanksMax; ++i)
    ranks += (i == 0 ? "" : ", ") + std::to_string(notice.ranks[i]);
  annotate("ranks", ranks);
  if (notice.step) annotate("step", std::to_string(*notice.step));
  std::string description = ranks.empty() ? "" : "ranks: " + ranks;
  const auto describe = [&description](const std::string& name, const std::string& value) {
    description += (description.empty() ? "" : "; ") + name + ": " + value;
  };
  if (notice.step) describe("step", std::to_string(*notice.step));
  for (const auto& [name, value] : notice.evidence) describe(name, value);
  annotate("description", description);
  annotate("dashboard_url", IsWebAddress(notice.link) ? notice.link : "");
  annotate("acknowledged_by", notice.by);

  const double opened = std::min(notice.opened_t > 0 ? notice.opened_t : notice.t, now);
  const double ends = notice.state == NoticeState::kResolved ? std::clamp(notice.t, opened, now) : now + lasts_seconds;
  Json alert = {{"labels", std::move(labels)},
                {"annotations", std::move(annotations)},
                {"startsAt", TimeText(opened, true)},
                {"endsAt", TimeText(ends, true)}};
  if (IsWebAddress(notice.link)) alert["generatorURL"] = notice.link;
  return alert;
}

}  // namespace

std::string LabelName(std::string_view untrusted) {
  std::string name;
  for (const char c : untrusted.substr(0, Notice::kNameBytesMax)) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool is_digit = c >= '0' && c <= '9';
    if (name.empty() && is_digit) name += '_';
    name += is_letter || is_digit ? c : '_';
  }
  return name.empty() ? "_" : name;
}

std::string AlertmanagerBody(std::span<const Notice> notices, double now, double lasts_seconds) {
  Json alerts = Json::array();
  for (const Notice& notice : notices) alerts.push_back(AlertJson(notice, now, lasts_seconds));
  return json::Dump(alerts);
}

}  // namespace stepwatch::operations::delivery
