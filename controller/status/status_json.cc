#include "controller/status/status_json.h"

#include <nlohmann/json.hpp>

#include "src/http/answers.h"
#include "stepwatch/version.h"

namespace stepwatch::status {
namespace {

Json RefusalJson(const Status& refusal, const std::string& sha256) {
  Json json = http::PlaceJson(refusal.place(), refusal.message());
  json["sha256"] = sha256;
  return json;
}

Json PlanJson(const std::optional<PlanStatus>& plan) {
  if (!plan) return {};
  return {{"plan_id", plan->plan_id},
          {"config_sha256", plan->config_sha256},
          {"collect_times", plan->collect_times},
          {"step_interval", plan->step_interval},
          {"at_step", json::Unless(plan->at_step, -1)},
          {"sites", plan->sites},
          {"rows_per_step", plan->rows_per_step},
          {"queue_bytes", plan->queue_bytes}};
}

Json LimitsJson(const JobStatus& status) {
  const Limits& limits = status.limits;
  Json formats;
  for (const OutputFormat format : limits.formats.value_or(std::vector<OutputFormat>()))
    formats.push_back(kOutputFormats[static_cast<size_t>(format)].name);
  return {{"output_root", json::OrNull(limits.output_root)},
          {"bytes_max", json::Unless(limits.bytes_max, 0)},
          {"bytes_used", limits.bytes_max > 0 ? Json(status.bytes_used) : Json()},
          {"bytes_used_up", status.bytes_used_up},
          {"rows_per_step_max", json::Unless(limits.rows_per_step_max, 0)},
          {"queue_bytes_max", json::Unless(limits.queue_bytes_max, 0)},
          {"formats", formats}};
}

// Null until the first collected step has ended.
Json CostJson(const MeasuringCost& cost) {
  if (cost.total.collected == 0) return {};
  Json parts = Json::object(), per_collected = Json::object();
  for (size_t i = 0; i < cost.total.ns.size(); ++i) {
    if (cost.total.ns[i] == 0) continue;
    parts[MeasuringCost::NameOf(i)] = cost.seconds_of(i);
    per_collected[MeasuringCost::NameOf(i)] = cost.per_collected[i];
  }
  return {{"collected", cost.total.collected},
          {"steps", cost.total.steps},
          {"seconds", cost.seconds()},
          {"percent", cost.step_seconds() > 0 ? Json(100 * cost.seconds() / cost.step_seconds()) : Json()},
          {"device_seconds", cost.device_seconds()},
          {"parts", parts},
          {"per_collected_step", per_collected}};
}

Json BudgetJson(const std::optional<BudgetStatus>& budget) {
  if (!budget) return {};
  Json left_out = Json::array();
  for (const SiteKind kind : budget->left_out) left_out.push_back(SiteKindName(kind));
  return {{"percent", budget->percent},        {"spent_percent", json::OrNull(budget->spent_percent)},
          {"acting", budget->why_not.empty()}, {"reason", json::OrNull(budget->why_not)},
          {"interval_factor", budget->factor}, {"left_out", left_out},
          {"decisions", budget->decisions},    {"last_decision", json::OrNull(budget->last_decision)}};
}

}  // namespace

Json LedgerJson(const Ledger& ledger) {
  Json dropped = Json::object();
  for (int i = 0; i < kDropReasonCount; ++i)
    dropped[DropReasonName(static_cast<DropReason>(i))] = ledger.dropped[static_cast<size_t>(i)];
  return {{"produced", ledger.produced}, {"written", ledger.written}, {"dropped", dropped}};
}

Json StatusJson(const JobStatus& status) {
  const MonitorStatus& monitor = status.monitor;
  const ReloadStatus& reload = status.reload;
  const std::string drift = status.drift();
  Json json = http::VersionedAnswer();
  json["stepwatch"] = kVersion;
  json["pid"] = status.pid;
  json["run_id"] = reload.run_id;
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
  json["collect_times"] = reload.in_force ? Json(reload.in_force->collect_times) : Json();
  json["at_step"] = reload.armed ? json::Unless(reload.armed->at_step, -1) : Json();
  json["plan"] = PlanJson(reload.in_force);
  json["armed"] = PlanJson(reload.armed);
  json["limits"] = LimitsJson(status);
  json["config_path"] = status.config_path;
  json["file_sha256"] = json::OrNull(reload.file_sha256);
  json["running_sha256"] = json::OrNull(status.running_sha256());
  json["drift"] = !drift.empty();
  json["drift_reason"] = json::OrNull(drift);
  json["not_begun"] = json::OrNull(reload.not_begun);
  json["file_trouble"] = json::OrNull(reload.file_trouble);
  json["refusal"] = reload.refusal ? RefusalJson(*reload.refusal, reload.file_sha256) : Json();
  json["write_back"] = json::OrNull(status.counts.write_back);
  json["fault"] = json::OrNull(monitor.fault);
  json["watch_mode"] = json::OrNull(reload.watch_mode);
  json["tcp_address"] = json::OrNull(status.tcp_address);
  json["output_dir"] = json::OrNull(monitor.output_dir);
  json["segment"] = reload.segment.number;
  json["ledger"] = LedgerJson(status.counts.ledger);
  json["measuring_seconds"] = status.counts.measuring_seconds;
  json["cost"] = CostJson(status.cost);
  json["budget"] = BudgetJson(reload.budget);
  json["step_seconds"] = json::OrNull(status.step_seconds);
  json["proposed_step"] = json::Unless(monitor.proposed_step, -1);
  json["in_doubt"] = monitor.in_doubt;
  json["decision_waits"] = monitor.decision_waits;
  json["decision_timeouts"] = monitor.decision_timeouts;
  json["decision_wait_seconds"] = monitor.decision_wait_seconds;
  json["newest_event"] = status.counts.events;
  json["written_plan_id"] = json::Unless(status.written_plan_id, 0);
  return json;
}

}  // namespace stepwatch::status
