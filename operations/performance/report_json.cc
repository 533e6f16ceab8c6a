#include "operations/performance/report_json.h"

#include <nlohmann/json.hpp>

namespace stepwatch::operations {
namespace {

constexpr size_t kDeviationsMax = 20;

Json DistributionJson(const Distribution& of) {
  return {{"p5", json::OrNull(of.p5)},
          {"p50", json::OrNull(of.p50)},
          {"p95", json::OrNull(of.p95)},
          {"p99", json::OrNull(of.p99)},
          {"max", json::OrNull(of.max)},
          {"mean", json::OrNull(of.mean)},
          {"mean_by_time", json::OrNull(of.mean_by_time)},
          {"samples", of.samples},
          {"values", of.values}};
}

Json TrendJson(const Trend& trend) {
  Json json = {{"series", trend.series},
               {"over", trend.over},
               {"verdict", json::OrNull(trend.verdict)},
               {"slope", nullptr},
               {"slope_low", nullptr},
               {"slope_high", nullptr},
               {"first", json::OrNull(trend.first)},
               {"last", json::OrNull(trend.last)},
               {"best", json::OrNull(trend.best)},
               {"nonfinite", trend.nonfinite}};
  if (!trend.slope) return json;
  json["slope"] = trend.slope->slope;
  json["slope_low"] = trend.slope->low;
  json["slope_high"] = trend.slope->high;
  return json;
}

Json ScheduleJson(const Schedule& schedule) {
  Json deviations = Json::array();
  for (size_t i = 0; i < schedule.deviations.size() && i < kDeviationsMax; ++i)
    deviations.push_back({{"step", schedule.deviations[i].x}, {"lr", schedule.deviations[i].y}});
  return {{"kind", NameOf(schedule.kind)},
          {"warm_up_until", json::OrNull(schedule.warm_up_until)},
          {"peak", schedule.peak},
          {"error", schedule.error},
          {"deviations_count", schedule.deviations.size()},
          {"deviations", std::move(deviations)}};
}

Json InterruptionJson(const Interruption& each) {
  return {{"from_t", each.from_t},
          {"until_t", each.until_t},
          {"seconds", each.seconds},
          {"count", each.count},
          {"cause", each.cause},
          {"incident", json::OrNull(each.incident)},
          {"incident_kind", json::OrNull(each.incident_kind)}};
}

Json PlotJson(const Plot& plot) {
  Json points = Json::array();
  for (const PlotPoint& each : plot.points) points.push_back({each.x, each.low, each.middle, each.high});
  return {{"name", plot.name}, {"unit", plot.unit}, {"x", plot.x}, {"points", std::move(points)}};
}

template <class Each, class Write>
Json ListOf(const std::vector<Each>& all, const Write& write) {
  Json list = Json::array();
  for (const Each& each : all) list.push_back(write(each));
  return list;
}

}  // namespace

Json ReportJson(const PerformanceReport& report) {
  Json json = {{"run", report.run},
               {"from_t", report.from_t},
               {"until_t", report.until_t},
               {"seconds", report.seconds},
               {"step", json::OrNull(report.step)},
               {"steps_counted", report.steps_counted},
               {"goodput", json::OrNull(report.goodput)},
               {"mfu", json::OrNull(report.mfu)},
               {"steps_per_second", json::OrNull(report.steps_per_second)},
               {"tokens_per_second", json::OrNull(report.tokens_per_second)},
               {"samples_per_second", json::OrNull(report.samples_per_second)},
               {"step_seconds", DistributionJson(report.step_seconds)},
               {"counted_seconds", report.counted_seconds},
               {"lost_seconds", report.lost_seconds},
               {"other_seconds", report.other_seconds},
               {"interruptions", ListOf(report.interruptions, InterruptionJson)},
               {"interruptions_left_out", report.interruptions_left_out},
               {"exposed_communication", json::OrNull(report.exposed_communication)},
               {"parts", Json::object()}};
  for (const auto& [name, seconds] : report.parts) json["parts"][name] = seconds;
  json["checkpoint"] = {{"seconds_mean", json::OrNull(report.checkpoint_seconds_mean)},
                        {"share", json::OrNull(report.checkpoint_share)},
                        {"bytes", json::OrNull(report.checkpoint_bytes)}};
  json["stragglers"] = ListOf(report.stragglers, [](const Straggler& each) {
    return Json{{"rank", each.rank}, {"step_seconds", each.step_seconds}, {"ratio", each.ratio}};
  });
  json["gpu"] = {{"utilization", json::OrNull(report.gpu_utilization)},
                 {"utilization_low", json::OrNull(report.gpu_utilization_low)}};
  json["memory"] = {{"allocated_bytes", json::OrNull(report.allocated_bytes)},
                    {"reserved_bytes", json::OrNull(report.reserved_bytes)},
                    {"fragmentation", json::OrNull(report.fragmentation)},
                    {"alloc_retries", json::OrNull(report.alloc_retries)},
                    {"host_share_max", json::OrNull(report.host_memory)}};
  json["losses"] = ListOf(report.losses, TrendJson);
  json["generalisation_gap"] = json::OrNull(report.generalisation_gap);
  json["grad_norm"] = DistributionJson(report.grad_norm);
  json["clip_share"] = json::OrNull(report.clip_share);
  json["schedule"] = report.schedule ? ScheduleJson(*report.schedule) : Json();
  json["evaluations"] = ListOf(report.evaluations, [](const Evaluation& each) {
    return Json{{"name", each.name},     {"count", each.count},
                {"last", each.last},     {"last_step", each.last_step},
                {"best", each.best},     {"best_step", each.best_step},
                {"better", each.better}, {"regression", each.is_regression}};
  });
  json["findings"] = report.findings;
  json["legacy"] = {{"score", json::OrNull(report.legacy_score)}, {"rating", json::OrNull(report.legacy_rating)}};
  json["plots"] = ListOf(report.plots, PlotJson);
  return json;
}

}  // namespace stepwatch::operations
