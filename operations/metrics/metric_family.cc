#include "operations/metrics/metric_family.h"

namespace stepwatch::operations {

void AddFamilies(const std::vector<MetricFamily>& families, http::MetricsPage* page) {
  std::string labels;
  for (const MetricFamily& family : families) {
    if (family.samples.empty()) continue;
    page->Family(family.name, family.type, family.help);
    for (const MetricSample& sample : family.samples) {
      labels.clear();
      for (const auto& [name, value] : sample.labels) {
        if (!labels.empty()) labels += ',';
        labels.append(name).append("=\"").append(http::MetricsPage::Escaped(value)).append("\"");
      }
      if (sample.ending.empty())
        page->Sample(sample.value, labels);
      else
        page->Part(sample.ending, sample.value, labels);
    }
  }
}

}  // namespace stepwatch::operations
