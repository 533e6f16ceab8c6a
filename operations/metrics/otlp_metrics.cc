#include "operations/metrics/otlp_metrics.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/json/json.h"
#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE

Json Double(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

// 64-bit integers are texts in protobuf's JSON.
std::string Nanoseconds(double t) {
  return std::to_string(static_cast<int64_t>(t * 1e6) * 1000);
}

std::string CountText(double count) {
  return std::to_string(static_cast<int64_t>(count));
}

struct Times {
  std::string begin, now;
};

Json PointAt(const Times& times, const http::MetricLabels& labels) {
  Json attributes = Json::array();
  for (const auto& [name, value] : labels)
    if (name != "le") attributes.push_back({{"key", name}, {"value", {{"stringValue", value}}}});
  return {{"attributes", std::move(attributes)}, {"startTimeUnixNano", times.begin}, {"timeUnixNano", times.now}};
}

Json NumberPoints(const http::MetricFamily& family, const Times& times) {
  Json points = Json::array();
  for (const http::MetricSample& sample : family.samples) {
    Json point = PointAt(times, sample.labels);
    point["asDouble"] = Double(sample.value);
    points.push_back(std::move(point));
  }
  return points;
}

// The buckets of a series come first, cumulative and in order, then its sum and its count.
Json HistogramPoints(const http::MetricFamily& family, const Times& times) {
  Json points = Json::array(), counts = Json::array(), bounds = Json::array();
  double below = 0, sum = 0;
  for (const http::MetricSample& sample : family.samples) {
    if (sample.ending == "_bucket") {
      counts.push_back(CountText(sample.value - std::exchange(below, sample.value)));
      if (const std::string& bound = sample.labels.back().second; bound != "+Inf") bounds.push_back(std::stod(bound));
    } else if (sample.ending == "_sum") {
      sum = sample.value;
    } else {
      Json point = PointAt(times, sample.labels);
      point["count"] = CountText(sample.value);
      point["sum"] = Double(sum);
      point["bucketCounts"] = std::exchange(counts, Json::array());
      point["explicitBounds"] = std::exchange(bounds, Json::array());
      points.push_back(std::move(point));
      below = 0;
    }
  }
  return points;
}

Json MetricOf(const http::MetricFamily& family, const Times& times) {
  const bool is_counter = family.type == "counter", is_info = family.type == "info";
  Json metric = {{"name", std::string(family.name) + (is_counter ? "_total"
                                                      : is_info  ? "_info"
                                                                 : "")},
                 {"description", family.help}};
  if (family.type == "histogram")
    metric["histogram"] = {{"dataPoints", HistogramPoints(family, times)}, {"aggregationTemporality", kCumulative}};
  else if (is_counter)
    metric["sum"] = {
        {"dataPoints", NumberPoints(family, times)}, {"aggregationTemporality", kCumulative}, {"isMonotonic", true}};
  else
    metric["gauge"] = {{"dataPoints", NumberPoints(family, times)}};
  return metric;
}

}  // namespace

std::string OtlpBody(const std::vector<http::MetricFamily>& families, double started_t, double now) {
  const Times times{Nanoseconds(started_t), Nanoseconds(now)};
  Json metrics = Json::array();
  for (const http::MetricFamily& family : families)
    if (!family.samples.empty()) metrics.push_back(MetricOf(family, times));
  const Json name = {{"key", "service.name"}, {"value", {{"stringValue", "stepwatchd"}}}};
  const Json resource = {{"attributes", Json::array({name})}};
  const Json scope = {{"scope", {{"name", "stepwatch"}, {"version", kVersion}}}, {"metrics", std::move(metrics)}};
  const Json all = {{"resource", resource}, {"scopeMetrics", Json::array({scope})}};
  return json::Dump({{"resourceMetrics", Json::array({all})}});
}

}  // namespace stepwatch::operations
