// Metrics as values, for a page of metrics and for other formats.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/http/metrics_page.h"

namespace stepwatch::http {

using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;  // names are literals, values any text

struct MetricSample {
  MetricLabels labels;
  double value = 0;
  std::string_view ending = {};  // of a histogram: "_bucket", "_sum", "_count"
};

// Counters are named without "_total", infos without "_info".
struct MetricFamily {
  std::string_view name;  // this and the others are literals
  std::string_view type;  // gauge, counter, info, histogram
  std::string_view help;
  std::vector<MetricSample> samples;

  void Add(double value, MetricLabels labels = {}) { samples.push_back({std::move(labels), value}); }
};

// Families without samples are left out.
void AddFamilies(const std::vector<MetricFamily>& families, MetricsPage* page);

}  // namespace stepwatch::http
