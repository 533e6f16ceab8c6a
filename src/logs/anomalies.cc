#include "src/logs/anomalies.h"

namespace stepwatch::logs {

struct AnomalySet::Patterns {};

AnomalySet::AnomalySet() : patterns_(std::make_unique<Patterns>()) {}
AnomalySet::~AnomalySet() = default;

void AnomalySet::Find(std::string_view /*message_untrusted*/, const Context& /*context*/,
                      std::vector<Anomaly>* /*anomalies*/) const {}

std::string_view AnomalyTitle(std::string_view /*name*/, bool /*in_chinese*/) {
  return {};
}

std::string_view AnomalyAdvice(std::string_view /*name*/, bool /*in_chinese*/) {
  return {};
}

std::vector<size_t> RankCauses(std::span<const Record> records) {
  std::vector<size_t> causes;
  for (size_t i = 0; i < records.size(); ++i)
    if (!records[i].anomalies.empty()) causes.push_back(i);
  return causes;
}

}  // namespace stepwatch::logs
