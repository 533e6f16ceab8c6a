// The body of an OTLP request.

#include "operations/metrics/otlp_metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

Json MetricsOf(const std::vector<http::MetricFamily>& families) {
  const Json body = json::Parse(OtlpBody(families, 100, 200.5)).value();
  const Json& resource = body["resourceMetrics"][0];
  CHECK(resource["resource"]["attributes"][0]["value"]["stringValue"] == "stepwatchd");
  return resource["scopeMetrics"][0]["metrics"];
}

TEST_CASE("gauges are gauges, with labels as attributes and times as texts") {
  http::MetricFamily loss{"stepwatch_run_loss", "gauge", "The loss.", {}};
  loss.Add(2.5, {{"run", "a\"b"}});
  loss.Add(std::nan(""), {{"run", "c"}});
  const Json metric = MetricsOf({loss, {"empty", "gauge", "Without samples.", {}}})[0];
  CHECK(metric["name"] == "stepwatch_run_loss");
  CHECK(metric["description"] == "The loss.");
  const Json& points = metric["gauge"]["dataPoints"];
  REQUIRE(points.size() == 2);
  CHECK(points[0]["asDouble"] == 2.5);
  CHECK(points[0]["timeUnixNano"] == "200500000000");
  CHECK(points[0]["attributes"][0]["key"] == "run");
  CHECK(points[0]["attributes"][0]["value"]["stringValue"] == "a\"b");
  CHECK(points[1]["asDouble"] == "NaN");
}

TEST_CASE("counters are cumulative sums since the start, and a family without samples is left out") {
  http::MetricFamily tokens{"stepwatch_run_tokens", "counter", "Tokens.", {}};
  tokens.Add(7);
  const Json metrics = MetricsOf({tokens, {"empty", "gauge", "Without samples.", {}}});
  REQUIRE(metrics.size() == 1);
  CHECK(metrics[0]["name"] == "stepwatch_run_tokens_total");
  CHECK(metrics[0]["sum"]["isMonotonic"] == true);
  CHECK(metrics[0]["sum"]["aggregationTemporality"] == 2);
  CHECK(metrics[0]["sum"]["dataPoints"][0]["startTimeUnixNano"] == "100000000000");
}

TEST_CASE("a histogram has the counts of its buckets, one point for each series") {
  http::MetricFamily steps{"steps_seconds", "histogram", "Steps.", {}};
  for (const char* run : {"a", "b"}) {
    steps.samples.push_back({{{"run", run}, {"le", "0.5"}}, 2, "_bucket"});
    steps.samples.push_back({{{"run", run}, {"le", "+Inf"}}, 5, "_bucket"});
    steps.samples.push_back({{{"run", run}}, 9.5, "_sum"});
    steps.samples.push_back({{{"run", run}}, 5, "_count"});
  }
  const Json points = MetricsOf({steps})[0]["histogram"]["dataPoints"];
  REQUIRE(points.size() == 2);
  CHECK(points[1]["bucketCounts"] == Json::array({"2", "3"}));
  CHECK(points[1]["explicitBounds"] == Json::array({0.5}));
  CHECK(points[1]["count"] == "5");
  CHECK(points[1]["sum"] == 9.5);
  CHECK(points[1]["attributes"].size() == 1);
}

}  // namespace
}  // namespace stepwatch::operations
