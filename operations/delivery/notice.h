// One message to people: a change of an incident, or one alert of Alertmanager's webhook.
//
// Its texts are bounded, valid UTF-8 and printable on one line (base::Printable); a receiver escapes them for its
// format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/vocabulary/names.h"

namespace stepwatch::operations::delivery {

enum class NoticeState : uint8_t { kOpened, kAcknowledged, kResolved };
// opened, acknowledged, resolved.
std::string_view NameOf(NoticeState state);

struct Notice {
  std::string key;     // identity of the incident: stays over its changes
  std::string change;  // identity of this change: one message for each
  NoticeState state = NoticeState::kOpened;
  Severity severity = Severity::kWarning;
  std::string kind;   // "loss_spike", or the name of the alert
  std::string title;  // a clause in English, such as "the loss jumped"
  std::string title_zh;
  std::string advice, advice_zh;
  std::string run, host, owner;
  std::vector<int64_t> ranks;  // kRanksMax at most, and one more where others follow
  std::optional<int64_t> step;
  std::vector<std::pair<std::string, std::string>> evidence;  // name, value; kEvidenceMax at most
  // Further labels for Alertmanager, besides alertname, severity, run, host, owner, component and incident. All labels
  // must be the same for each change of a key: an alert is its labels.
  std::vector<std::pair<std::string, std::string>> labels;
  double t = 0;                  // of this change, seconds since 1970
  double opened_t = 0;           // of the opening
  std::string by;                // who acknowledged
  std::string link;              // to the incident, http or https; empty: none
  std::string acknowledge_link;  // empty: none
  std::string silence_link;      // of the Alertmanager that sent the alert; empty: none
  bool is_repeated = false;      // perhaps sent before a crash

  bool operator==(const Notice&) const = default;

  static constexpr size_t kRanksMax = 16;
  static constexpr size_t kEvidenceMax = 16;
  static constexpr size_t kLabelsMax = 32;
  static constexpr size_t kTextBytesMax = 1000;  // of a title, an advice, a value of evidence
  static constexpr size_t kNameBytesMax = 200;   // of the other texts
  static constexpr size_t kLinkBytesMax = 2000;
};

}  // namespace stepwatch::operations::delivery
