// The catalogue of anomalies in logs, the search for them in a message, and the order of causes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "src/logs/record.h"

namespace stepwatch::logs {

// Facts beside the message by which an anomaly is recognised.
struct Context {
  std::optional<int64_t> rank;
  Level level = Level::kUnset;
  const Progress* progress = nullptr;    // null: the record has none
  const Exception* exception = nullptr;  // null: the record has none
  std::string_view component = {};
};

// Immutable; used by any number of threads at once.
class AnomalySet {
 public:
  AnomalySet();
  ~AnomalySet();
  AnomalySet(const AnomalySet&) = delete;
  AnomalySet& operator=(const AnomalySet&) = delete;

  // Appends the anomalies that the message shows.
  void Find(std::string_view message_untrusted, const Context& context, std::vector<Anomaly>* anomalies) const;

 private:
  struct Patterns;
  std::unique_ptr<const Patterns> patterns_;
};

// A short name of the anomaly for people, and where to look next. Empty for an unknown name.
std::string_view AnomalyTitle(std::string_view name, bool in_chinese = false);
std::string_view AnomalyAdvice(std::string_view name, bool in_chinese = false);

// The indices of the records that have anomalies, the most likely first cause first, across ranks.
std::vector<size_t> RankCauses(std::span<const Record> records);

}  // namespace stepwatch::logs
