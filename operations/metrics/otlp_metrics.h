// Families of metrics as the body of an OTLP/HTTP request in JSON (POST /v1/metrics of a collector). Pure.
#pragma once

#include <string>
#include <vector>

#include "src/http/metric_family.h"

namespace stepwatch::operations {

// Gauges and infos become gauges, counters cumulative monotonic sums, histograms cumulative histograms. A value that is
// not finite becomes the text that protobuf's JSON has for it. `started_t` and `now`: seconds of the wall clock.
std::string OtlpBody(const std::vector<http::MetricFamily>& families, double started_t, double now);

}  // namespace stepwatch::operations
