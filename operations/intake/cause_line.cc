#include "operations/intake/cause_line.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/text.h"
#include "src/logs/rank_causes.h"

namespace stepwatch::operations {
namespace {

// A detector opens an incident up to some minutes after its cause; consequences are logged for a while after it.
constexpr double kBeforeSeconds = 900, kAfterSeconds = 300;
constexpr size_t kRecordsMax = 500;
constexpr size_t kLineBytesMax = 300;

Json LineJson(const logs::Record& record) {
  std::string text = record.message;
  if (record.exception) text = record.exception->type + ": " + record.exception->message;
  return {{"t", record.t.value_or(record.observed_t)},
          {"rank", json::OrNull(record.rank)},
          {"source", base::Printable(record.source, kLineBytesMax)},
          {"text", base::Printable(text, kLineBytesMax)},
          {"anomaly", record.anomalies.empty() ? Json() : Json(std::string(record.anomalies.front().name))}};
}

}  // namespace

Json CauseLine(const LogEvents& events, const Incident& incident) {
  std::vector<logs::Record> records;
  const logs::Record* exception = nullptr;
  const LogEvents::Events kept = events.Of(incident.run);
  for (const auto& each : kept) {
    const double since = each->observed_t - incident.opened_t;
    if (since < -kBeforeSeconds || since > kAfterSeconds) continue;
    if (!each->anomalies.empty() && records.size() < kRecordsMax) records.push_back(*each);
    if (each->exception && exception == nullptr) exception = each.get();
  }
  if (const std::vector<size_t> order = logs::RankCauses(records); !order.empty())
    return LineJson(records[order.front()]);
  return exception == nullptr ? Json() : LineJson(*exception);
}

}  // namespace stepwatch::operations
