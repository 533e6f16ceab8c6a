#include "src/alerts/rule_evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace stepwatch::alerts {
namespace {

constexpr double kNoMean = std::numeric_limits<double>::quiet_NaN();
constexpr double kKept = 0.99;
constexpr double kAdded = 0.01;

double Number(const StatValue& value) {
  return value.is_integer ? static_cast<double>(value.i64) : value.f64;
}

enum class Elements { kNone, kOne, kSeveral };

Elements ElementsOf(const Record& record) {
  const auto* end = record.dims.begin() + record.ndim;
  if (std::find(record.dims.begin(), end, 0) != end) return Elements::kNone;
  return std::all_of(record.dims.begin(), end, [](int64_t dim) { return dim == 1; }) ? Elements::kOne
                                                                                     : Elements::kSeveral;
}

bool IsMeasure(Stat stat, Elements elements) {
  switch (TraitsOf(stat).judged) {
    case StatJudged::kNever: return false;
    case StatJudged::kOfSeveral: return elements == Elements::kSeveral;
    case StatJudged::kAlways: break;
  }
  return elements != Elements::kNone;
}

bool Hits(const Rule& rule, Stat stat, double number, double mean) {
  const double size = std::abs(number);
  if (rule.kind == RuleKind::kNan) return std::isnan(number) || (rule.threshold && size > *rule.threshold);
  if (stat != Stat::kNorm && stat != Stat::kMean) return false;
  return rule.threshold && size > mean * (1 + *rule.threshold);
}

// The rule that raises the alarm, if any. `mean` is the mean of the history before the value, and after it on return.
struct Judgement {
  const Rule* hit = nullptr;
  double mean = 0;
};

Judgement JudgeValue(const std::vector<Rule>& rules, Stat stat, double number, double* mean) {
  const bool enters = std::isfinite(number);
  const bool starts = enters && !(*mean > 0);
  if (starts) *mean = std::abs(number);
  Judgement judgement{nullptr, *mean};
  for (size_t i = 0; i < rules.size() && judgement.hit == nullptr; ++i)
    if (Hits(rules[i], stat, number, *mean)) judgement.hit = &rules[i];
  if (enters && !starts) *mean = kKept * *mean + kAdded * std::abs(number);
  return judgement;
}

}  // namespace

const char* RuleName(RuleKind kind) {
  return kind == RuleKind::kTurbulence ? "AnomalyTurbulence" : "AnomalyNan";
}

std::optional<RuleKind> RuleFromName(const std::string& name) {
  for (RuleKind kind : {RuleKind::kTurbulence, RuleKind::kNan})
    if (name == RuleName(kind)) return kind;
  return std::nullopt;
}

size_t RuleEvaluator::SeriesHash::operator()(const Series& series) const {
  const uint64_t where = uint64_t{series.place} << 32 | static_cast<uint32_t>(series.micro_step);
  const uint64_t which = uint64_t{series.element} << 16 | series.call;
  const uint64_t mixed = (where ^ which * 0xff51afd7ed558ccdull) * 0x9e3779b97f4a7c15ull;
  return static_cast<size_t>(mixed ^ mixed >> 29);
}

void RuleEvaluator::NumberPlaces(const RecordLayout& layout) {
  if (layout.plan_id == plan_id_ && place_of_site_.size() == layout.sites.size()) return;
  place_of_site_.clear();
  for (const PlannedSite& site : layout.sites) {
    const auto next = static_cast<uint32_t>(places_.size());
    const auto [place, is_new] =
        places_.try_emplace({site.kind, HasMicroStep(layout, site.kind), site.chunk, site.name}, next);
    place_of_site_.push_back(place->second);
  }
  plan_id_ = layout.plan_id;
}

RuleEvaluator::Means& RuleEvaluator::MeansOf(const RecordLayout& layout, const Record& record) {
  if (record.site >= layout.sites.size())
    throw std::logic_error("a record belongs to a site that its plan does not contain");
  const bool has_micro_step = HasMicroStep(layout, layout.sites[record.site].kind);
  const Series series{place_of_site_[record.site], has_micro_step ? record.micro_step : 0, record.element, record.call};
  const auto [means, is_new] = means_.try_emplace(series);
  if (is_new) means->second.fill(kNoMean);
  return means->second;
}

std::vector<Alarm> RuleEvaluator::Evaluate(const std::vector<Rule>& rules, const RecordLayout& layout,
                                           const StepFrame& frame) {
  std::vector<Alarm> alarms;
  if (rules.empty()) return alarms;
  NumberPlaces(layout);
  for (size_t position = 0; position < frame.count; ++position) {
    const Record& record = frame.records[position];
    if (record.missing()) continue;
    const Elements elements = ElementsOf(record);
    Means& means = MeansOf(layout, record);
    for (size_t i = 0; i < record.value_count; ++i) {
      const StatValue& value = record.values[i];
      if (!IsMeasure(value.stat, elements)) continue;
      const Judgement judgement = JudgeValue(rules, value.stat, Number(value), &means[static_cast<size_t>(value.stat)]);
      if (judgement.hit != nullptr) alarms.push_back({judgement.hit->kind, position, value, judgement.mean});
    }
  }
  return alarms;
}

}  // namespace stepwatch::alerts
