// What the door says, as JSON: flat, snake_case, every answer with "version": 1.
//
// A later release only ever adds members. Whoever reads an answer passes over members that it does not know.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "controller/door/job.h"
#include "src/config/config.h"
#include "stepwatch/status.h"

namespace stepwatch::door {

using Json = nlohmann::ordered_json;

inline constexpr int kAnswerVersion = 1;

Json StatusJson(const JobStatus& status);
Json LatestJson(SiteKind kind, const std::vector<LatestValue>& values);
Json DoctorJson(const DoctorReport& report);
// Whether a config is usable, and what is odd about it.
Json ValidationJson(const std::string& sha256, const Result<config::ParsedConfig>& parsed);
Json PlanPreviewJson(const PlanPreview& preview);
Json ErrorJson(const std::string& code, const std::string& message);
// One event, without a version: a line of `rehearse --json`, the data of /v1/events.
Json EventJson(const Event& event);
Json PeerJson(const output::EditPeer& peer);
// What became of a change, with what the monitor makes of it.
Json ChangeJson(const ChangeReport& report);
// The newest lines of a history, at most `count`, the newest last.
Json HistoryJson(const HistoryReport& report, size_t count);
// `place`: as far as it is known.
Json ErrorJson(const std::string& code, const std::string& message, const TextPlace& place);
Json LedgerJson(const Ledger& ledger);
// Key, line and column as far as they are known, and the message.
Json PlaceJson(const TextPlace& place, const std::string& message);

// One line. What is no UTF-8 in it is replaced.
std::string Dump(const Json& json);
// See bounded::ParseJson.
Result<Json> ParseJson(std::string_view text_untrusted);

}  // namespace stepwatch::door
