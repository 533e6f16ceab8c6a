#include "src/http/metric_family.h"

namespace stepwatch::http {

void AddFamilies(const std::vector<MetricFamily>& families, MetricsPage* page) {
  std::string labels;
  for (const MetricFamily& family : families) {
    if (family.samples.empty()) continue;
    page->Family(family.name, family.type, family.help);
    for (const MetricSample& sample : family.samples) {
      labels.clear();
      for (const auto& [name, value] : sample.labels) {
        if (!labels.empty()) labels += ',';
        labels.append(name).append("=\"").append(MetricsPage::Escaped(value)).append("\"");
      }
      if (sample.ending.empty())
        page->Sample(sample.value, labels);
      else
        page->Part(sample.ending, sample.value, labels);
    }
  }
}

}  // namespace stepwatch::http
