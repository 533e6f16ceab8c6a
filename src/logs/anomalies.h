// Anomalies in the messages of a log: the catalogue of their classes, and the search for them. Pure.
//
// An anomaly is a fact that a message states: an out-of-memory error, a collective that timed out, a NaN loss. Numbers
// of a progress line come first, phrases second. These are no evidence: advice ("try setting ..."), the lines of source
// in a stack, counters that are zero, words that merely contain another (BLOOM, exchange).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "src/logs/rank_causes.h"  // IWYU pragma: export
#include "src/logs/record.h"
#include "src/vocabulary/incident_kinds.h"

namespace stepwatch::logs {

// The log of a host that trains no model may contain anomalies of kHost, and none of kTraining.
enum class Origin : uint8_t { kTraining, kHost };

struct AnomalyClass {
  std::string_view name;
  vocabulary::Severity severity;  // the usual one; a pattern may lower it
  Role role;                      // the usual one; a pattern may lower it
  Origin origin;
  std::string_view title, title_zh;
  std::string_view advice, advice_zh;  // where to look next
};

std::span<const AnomalyClass> AnomalyClasses();
const AnomalyClass* AnomalyClassNamed(std::string_view name);  // null: unknown
std::string_view NameOf(Role role);                            // "root"

// A short name of the anomaly for people, and where to look next. Empty for an unknown name.
std::string_view AnomalyTitle(std::string_view name, bool in_chinese = false);
std::string_view AnomalyAdvice(std::string_view name, bool in_chinese = false);

// Facts beside the message by which an anomaly is recognised.
struct Context {
  std::optional<int64_t> rank = {};
  Level level = Level::kUnset;
  const Progress* progress = nullptr;    // null: the record has none
  const Exception* exception = nullptr;  // null: the record has none. Its stack is no evidence
  std::string_view component = {};
};

// Immutable; used by any number of threads at once.
class AnomalySet {
 public:
  AnomalySet();
  ~AnomalySet();
  AnomalySet(const AnomalySet&) = delete;
  AnomalySet& operator=(const AnomalySet&) = delete;

  // Appends the anomalies that the message shows, at most one of each class.
  void Find(std::string_view message_untrusted, const Context& context, std::vector<Anomaly>* anomalies) const;

 private:
  struct Patterns;
  std::unique_ptr<const Patterns> patterns_;
};

}  // namespace stepwatch::logs
