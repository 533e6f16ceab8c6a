// Answers of the control socket as JSON: flat, snake_case, each with "version": 1.
// Later releases only add members. Clients ignore unknown members.
#pragma once

#include <string>
#include <vector>

#include "controller/control_socket/job.h"
#include "src/config/config.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::control_socket {

Json LatestJson(SiteKind kind, const std::vector<LatestValue>& values);
Json DoctorJson(const DoctorReport& report);
// Reports whether a config is valid, with its warnings.
Json ValidationJson(const std::string& sha256, const Result<config::ParsedConfig>& parsed);
Json PlanPreviewJson(const PlanPreview& preview);
// One event, without a version: a line of `rehearse --json`, or the data of an event in /v1/events.
Json EventJson(const Event& event);
Json PeerJson(const output::EditPeer& peer);
// The result of a change, with the monitor's verdict on it.
Json ChangeJson(const status::ChangeReport& report);
// The newest lines of a history, at most `count`, the newest last.
Json HistoryJson(const HistoryReport& report, size_t count);

}  // namespace stepwatch::control_socket
