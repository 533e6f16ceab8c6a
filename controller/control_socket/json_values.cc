#include "controller/control_socket/json_values.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "controller/status/status_json.h"
#include "src/http/answers.h"
#include "stepwatch/version.h"

namespace stepwatch::control_socket {
namespace {

using status::ChangeReport;
using status::Verdict;

// JSON has no literals for these.
Json NumberJson(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

const char* VerdictName(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kPending: return "pending";
    case Verdict::Kind::kArmed: return "armed";
    case Verdict::Kind::kRunning: return "running";
    case Verdict::Kind::kStopping: return "stopping";
    case Verdict::Kind::kOff: return "off";
    case Verdict::Kind::kRefused: return "refused";
    case Verdict::Kind::kSuperseded: return "superseded";
  }
  return "";
}

Json ValueJson(const LatestValue& value) {
  const Record& record = value.record;
  Json json = {{"name", value.name},
               {"tag", value.tag},
               {"chunk", value.chunk},
               {"step", record.step},
               {"micro_step", record.micro_step}};
  if (record.element != kNoElement) json["element"] = record.element;
  if (record.call != 0) json["call"] = record.call;
  if (record.missing()) json["missing"] = true;
  Json& values = json["values"] = Json::object();
  for (size_t i = 0; i < record.value_count; ++i) {
    const StatValue& each = record.values[i];
    values[StatName(each.stat)] = each.is_integer ? Json(each.i64) : NumberJson(each.f64);
  }
  return json;
}

}  // namespace

Json EventJson(const Event& event) {
  Json json = {{"event", EventKindName(event.kind)}};
  if (event.plan_id != 0) json["plan"] = event.plan_id;
  if (event.step >= 0) json["step"] = event.step;
  if (event.collected >= 0) json["collected_steps"] = event.collected;
  if (!event.place.key.empty()) json["key"] = event.place.key;
  if (event.place.line > 0) json["line"] = event.place.line, json["column"] = event.place.column;
  if (!event.sha256.empty()) json["sha256"] = event.sha256, json["bytes"] = event.bytes;
  if (event.kind == EventKind::kDrained) {
    json["ledger"] = status::LedgerJson(event.ledger);
    json["busy_ms"] = event.busy_seconds * 1e3;
  }
  if (!event.message.empty()) json["message"] = event.message;
  json["t"] = event.t;
  return json;
}

Json LatestJson(SiteKind kind, const std::vector<LatestValue>& values) {
  Json json = http::VersionedAnswer();
  json["kind"] = TraitsOf(kind).name;
  Json& list = json["values"] = Json::array();
  for (const LatestValue& value : values) list.push_back(ValueJson(value));
  return json;
}

Json DoctorJson(const DoctorReport& report) {
  Json json = http::VersionedAnswer();
  json["stepwatch"] = kVersion;
  json["cpu"] = {{"target", report.cpu.in_use},
                 {"available", report.cpu.available},
                 {"wanted", json::OrNull(report.cpu.wanted)},
                 {"granted", report.cpu.granted}};
  json["cuda"] = {
      {"built", report.cuda.built}, {"devices", report.cuda.devices}, {"reason", json::OrNull(report.cuda.reason)}};
  json["watch_mode"] = json::OrNull(report.watch_mode);
  return json;
}

Json ValidationJson(const std::string& sha256, const Result<config::ParsedConfig>& parsed) {
  Json json = http::VersionedAnswer();
  json["valid"] = parsed.ok();
  if (parsed.ok()) {
    json["sha256"] = sha256;
    json["warnings"] = Json::array();
    for (const config::Warning& warning : parsed.value().warnings)
      json["warnings"].push_back(http::PlaceJson(warning.place, warning.message));
  } else {
    const Status refusal = parsed.status();
    json["error"] = http::PlaceJson(refusal.place(), refusal.message());
  }
  return json;
}

Json PeerJson(const output::EditPeer& peer) {
  return {{"uid", json::Unless(peer.uid, -1)},
          {"pid", json::Unless(peer.pid, -1)},
          {"exe", json::OrNull(peer.exe)},
          {"rank", json::Unless(peer.rank, -1)}};
}

Json ChangeJson(const ChangeReport& report) {
  Json json = http::VersionedAnswer();
  json["config"] = report.config_path;
  json["outcome"] = report.outcome == ChangeReport::Outcome::kWritten      ? "written"
                    : report.outcome == ChangeReport::Outcome::kOverridden ? "given"
                                                                           : "unchanged";
  json["method"] = report.method;
  json["replaced_sha256"] = report.replaced_sha256;
  json["sha256"] = report.sha256;
  if (report.is_begun) json["begun_again"] = true;
  if (report.old_plan_id != 0) json["old_plan_id"] = report.old_plan_id;
  const Verdict& verdict = report.verdict;
  json["taken"] = VerdictName(verdict.kind);
  json["plan_id"] = json::Unless(verdict.plan_id, 0);
  json["at_step"] = json::Unless(verdict.at_step, -1);
  if (verdict.kind == Verdict::Kind::kRefused)
    json["refusal"] = http::PlaceJson(verdict.refusal.place(), verdict.refusal.message());
  return json;
}

Json HistoryJson(const HistoryReport& report, size_t count) {
  Json json = http::VersionedAnswer();
  const std::vector<output::HistoryLine>& lines = report.history.lines;
  json["directory"] = report.directory;
  json["lines_in_all"] = lines.size() + report.history.lines_before;
  Json& list = json["lines"] = Json::array();
  for (size_t i = lines.size() - std::min(count, lines.size()); i < lines.size(); ++i)
    list.push_back(json::Parse(output::HistoryText(lines[i])).value());
  json["notes"] = report.history.notes;
  return json;
}

}  // namespace stepwatch::control_socket
