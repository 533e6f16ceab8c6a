#include "controller/control_socket/json_values.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "src/http/answers.h"
#include "stepwatch/version.h"

namespace stepwatch::control_socket {
namespace {

Json RefusalJson(const RefusedEdit& refusal) {
  Json json = http::PlaceJson(refusal.place, refusal.message);
  json["sha256"] = refusal.sha256;
  return json;
}

Json PlanJson(const PlanFacts& plan) {
  return {{"plan_id", plan.plan_id},
          {"config_sha256", plan.config_sha256},
          {"collect_times", plan.collect_times},
          {"step_interval", plan.step_interval},
          {"at_step", json::Unless(plan.at_step, -1)},
          {"sites", plan.sites},
          {"rows_per_step", plan.rows_per_step},
          {"queue_bytes", plan.queue_bytes}};
}

Json LimitsJson(const LimitFacts& limits) {
  const bool counts = limits.bytes_max > 0;
  return {{"output_root", json::OrNull(limits.output_root)},
          {"bytes_max", json::Unless(limits.bytes_max, 0)},
          {"bytes_used", counts ? Json(limits.bytes_used) : Json()},
          {"bytes_used_up", limits.bytes_used_up},
          {"rows_per_step_max", json::Unless(limits.rows_per_step_max, 0)},
          {"queue_bytes_max", json::Unless(limits.queue_bytes_max, 0)},
          {"formats", limits.formats.empty() ? Json() : Json(limits.formats)}};
}

Json CostJson(const CostFacts& cost) {
  Json parts = Json::object(), per_collected = Json::object();
  for (const CostFacts::Part& part : cost.parts) {
    parts[part.name] = part.seconds;
    per_collected[part.name] = part.per_collected;
  }
  return {{"collected", cost.collected},
          {"steps", cost.steps},
          {"seconds", cost.seconds},
          {"percent", cost.step_seconds > 0 ? Json(100 * cost.seconds / cost.step_seconds) : Json()},
          {"device_seconds", cost.device_seconds},
          {"parts", parts},
          {"per_collected_step", per_collected}};
}

Json BudgetJson(const BudgetFacts& budget) {
  return {{"percent", budget.percent},
          {"spent_percent", budget.spent_percent ? Json(*budget.spent_percent) : Json()},
          {"acting", budget.why_not.empty()},
          {"reason", json::OrNull(budget.why_not)},
          {"interval_factor", budget.factor},
          {"left_out", budget.left_out},
          {"decisions", budget.decisions},
          {"last_decision", json::OrNull(budget.last_decision)}};
}

// JSON has no literals for these.
Json NumberJson(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

const char* TakenName(ChangeReport::Taken taken) {
  using Taken = ChangeReport::Taken;
  switch (taken) {
    case Taken::kPending: return "pending";
    case Taken::kArmed: return "armed";
    case Taken::kRunning: return "running";
    case Taken::kStopping: return "stopping";
    case Taken::kOff: return "off";
    case Taken::kRefused: return "refused";
    case Taken::kSuperseded: return "superseded";
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

Json LedgerJson(const Ledger& ledger) {
  Json dropped = Json::object();
  for (int i = 0; i < kDropReasonCount; ++i)
    dropped[DropReasonName(static_cast<DropReason>(i))] = ledger.dropped[static_cast<size_t>(i)];
  return {{"produced", ledger.produced}, {"written", ledger.written}, {"dropped", dropped}};
}

Json EventJson(const Event& event) {
  Json json = {{"event", EventKindName(event.kind)}};
  if (event.plan_id != 0) json["plan"] = event.plan_id;
  if (event.step >= 0) json["step"] = event.step;
  if (event.collected >= 0) json["collected_steps"] = event.collected;
  if (!event.place.key.empty()) json["key"] = event.place.key;
  if (event.place.line > 0) json["line"] = event.place.line, json["column"] = event.place.column;
  if (!event.sha256.empty()) json["sha256"] = event.sha256, json["bytes"] = event.bytes;
  if (event.kind == EventKind::kDrained) {
    json["ledger"] = LedgerJson(event.ledger);
    json["busy_ms"] = event.busy_seconds * 1e3;
  }
  if (!event.message.empty()) json["message"] = event.message;
  json["t"] = event.t;
  return json;
}

Json StatusJson(const JobStatus& status) {
  const MonitorStatus& monitor = status.monitor;
  Json json = http::VersionedAnswer();
  json["stepwatch"] = kVersion;
  json["pid"] = status.pid;
  json["run_id"] = status.run_id;
  json["job_id"] = json::OrNull(status.job_id);
  json["rank"] = status.rank;
  json["world_size"] = status.world_size;
  json["dynamic"] = status.dynamic;
  json["uptime_seconds"] = status.uptime_seconds;
  json["state"] = RunStateName(monitor.state);
  json["step"] = monitor.step;
  json["collecting_step"] = monitor.collecting_step;
  json["paused"] = monitor.paused;
  json["plan_id"] = json::Unless(monitor.plan_id, 0);
  json["collected"] = monitor.collected;
  json["collect_times"] = status.plan ? Json(status.plan->collect_times) : Json();
  json["at_step"] = status.armed ? json::Unless(status.armed->at_step, -1) : Json();
  json["plan"] = status.plan ? PlanJson(*status.plan) : Json();
  json["armed"] = status.armed ? PlanJson(*status.armed) : Json();
  json["limits"] = LimitsJson(status.limits);
  json["config_path"] = status.config_path;
  json["file_sha256"] = json::OrNull(status.file_sha256);
  json["running_sha256"] = json::OrNull(status.running_sha256);
  json["drift"] = !status.drift.empty();
  json["drift_reason"] = json::OrNull(status.drift);
  json["not_begun"] = json::OrNull(status.not_begun);
  json["file_trouble"] = json::OrNull(status.file_trouble);
  json["refusal"] = status.refusal ? RefusalJson(*status.refusal) : Json();
  json["write_back"] = json::OrNull(status.write_back);
  json["fault"] = json::OrNull(monitor.fault);
  json["watch_mode"] = json::OrNull(status.watch_mode);
  json["tcp_address"] = json::OrNull(status.tcp_address);
  json["output_dir"] = json::OrNull(monitor.output_dir);
  json["segment"] = status.segment;
  json["ledger"] = LedgerJson(status.ledger);
  json["measuring_seconds"] = status.measuring_seconds;
  json["cost"] = status.cost ? CostJson(*status.cost) : Json();
  json["budget"] = status.budget ? BudgetJson(*status.budget) : Json();
  json["step_seconds"] = status.step_seconds ? Json(*status.step_seconds) : Json();
  json["proposed_step"] = json::Unless(monitor.proposed_step, -1);
  json["in_doubt"] = monitor.in_doubt;
  json["decision_waits"] = monitor.decision_waits;
  json["decision_timeouts"] = monitor.decision_timeouts;
  json["decision_wait_seconds"] = monitor.decision_wait_seconds;
  json["newest_event"] = status.events;
  json["written_plan_id"] = json::Unless(status.written_plan_id, 0);
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
  json["cpu"] = {{"target", report.cpu_target},
                 {"available", report.cpu_available},
                 {"wanted", json::OrNull(report.cpu_wanted)},
                 {"granted", report.cpu_granted}};
  json["cuda"] = {
      {"built", report.cuda_built}, {"devices", report.cuda_devices}, {"reason", json::OrNull(report.cuda_reason)}};
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
  json["taken"] = TakenName(report.taken);
  json["plan_id"] = json::Unless(report.plan_id, 0);
  json["at_step"] = json::Unless(report.at_step, -1);
  if (report.taken == ChangeReport::Taken::kRefused)
    json["refusal"] = http::PlaceJson(report.refusal_place, report.refusal);
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
