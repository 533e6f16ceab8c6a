// Evaluates the rules of `alert` on step frames: values in, alarms out. No files, no clock, no text.
//
// The history of a series (one tag and one statistic) is a moving mean of absolute values:
//   mean := |v| at first, then 0.99 * mean + 0.01 * |v|, updated after v was judged, for every judgement.
// Excluded from it:
//   NaN and infinities, which would ruin it permanently;
//   zeros at its beginning: with a mean of zero, every value would be above it. The first value that is not zero
//   starts the history and is not judged by AnomalyTurbulence.
//
// AnomalyTurbulence: |v| > mean * (1 + threshold), only for the statistics norm and mean; for the others later rules
// are tried. AnomalyNan: v is NaN, or |v| > threshold if it has one. The first rule that matches raises the alarm.
//
// Never judged: shape, dtype and id, which are not measures; missing tensors, and statistics that are NaN because the
// tensor has too few elements for them, since neither means that the data contained a NaN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/sink.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::alerts {

enum class RuleKind : uint8_t { kTurbulence, kNan };
const char* RuleName(RuleKind kind);  // "AnomalyTurbulence", "AnomalyNan"
std::optional<RuleKind> RuleFromName(const std::string& name);

struct Rule {
  RuleKind kind = RuleKind::kNan;
  std::optional<double> threshold;  // without one, AnomalyTurbulence never matches
};

struct Alarm {
  RuleKind rule = RuleKind::kNan;
  size_t position = 0;  // of the record in its frame
  StatValue value;
  double mean = 0;  // mean of the history before this value; NaN: no history
};

// Histories of one run: they outlive plans. A series that a later plan collects again continues.
class RuleEvaluator {
 public:
  // Frames in step order. Alarms in the order of records and, within a record, of its values.
  std::vector<Alarm> Evaluate(const std::vector<Rule>& rules, const RecordLayout& layout, const StepFrame& frame);

 private:
  using Means = std::array<double, kStatCount>;  // by Stat; NaN: no history yet
  // A tag without rank and plan. `place` numbers kind, chunk and name for the whole run.
  struct Series {
    uint32_t place = 0;
    int32_t micro_step = 0;
    uint16_t element = 0;
    uint16_t call = 0;

    bool operator==(const Series&) const = default;
  };
  struct SeriesHash {
    size_t operator()(const Series& series) const;
  };
  using Place = std::tuple<SiteKind, bool, int, std::string>;  // sites with and without micro-steps have different tags

  void NumberPlaces(const RecordLayout& layout);
  Means& MeansOf(const RecordLayout& layout, const Record& record);

  std::map<Place, uint32_t> places_;
  std::unordered_map<Series, Means, SeriesHash> means_;
  std::vector<uint32_t> place_of_site_;  // of the plan `plan_id_`
  PlanId plan_id_ = 0;
};

}  // namespace stepwatch::alerts
