#include "operations/detectors/numbers/disagreement.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace stepwatch::operations {
namespace {

constexpr double kSame = 1e-6;  // of the value: equality of texts with six digits
constexpr double kDifferent = 1e-3;
constexpr int64_t kEqualRowsMin = 10;    // the number is the same on all ranks, as far as observed
constexpr int64_t kOddRows = 3;          // of such a number
constexpr int64_t kOddSettingRows = 10;  // of a setting that has differed from the start
constexpr int64_t kExactRowsMin = 20;    // equal in each, except one in fifty: then the last digit counts
constexpr int64_t kExactRowsPerStray = 50;
constexpr size_t kOutsideRanksMin = 4;
constexpr int64_t kOutsideRows = 10;  // ranks that differ from most others, which agree to the last digit
constexpr int64_t kFarRows = 10;      // of a number that differs between ranks
constexpr int64_t kLearntRows = 40;
constexpr double kFarMin = 0.3;  // as the logarithm of the ratio to the middle
constexpr double kFarTimes = 2;  // the largest usual spread
constexpr int64_t kCalmRows = 5;
constexpr size_t kReportedMax = 8;
constexpr int64_t kChangedRowsMin = 10;  // a constant count is the same on all ranks by chance
// Ranks that beat at intervals report the same step at different times, up to this many of their beats apart.
constexpr double kPatienceBeats = 1.25;
constexpr double kPatienceSecondsMax = 60;

std::vector<int64_t> RanksOff(const StepRow& row, double middle, double tolerance) {
  std::vector<int64_t> ranks;
  for (const auto& [rank, value] : row.values)
    if (std::abs(value - middle) > tolerance * std::max(std::abs(middle), 1e-12)) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Picks the rank whose value changed from the last common one.
std::vector<int64_t> OddOfTwo(const StepRow& row, double agreed) {
  const double first = std::abs(row.values[0].second - agreed);
  const double second = std::abs(row.values[1].second - agreed);
  if (first > 3 * second) return {row.values[0].first};
  if (second > 3 * first) return {row.values[1].first};
  return {};
}

// Names of numbers that are equal on all ranks by design.
bool IsDigest(std::string_view name) {
  for (const std::string_view word : {"checksum", "crc", "hash", "digest", "fingerprint"})
    if (name.find(word) != std::string_view::npos) return true;
  return false;
}

// Measurements of one rank and its device, which differ between ranks without a fault.
bool IsMeasured(std::string_view name) {
  return name.ends_with("_seconds") || name.starts_with("cuda_") || name == "flops" || name == "peak_flops" ||
         name == "checkpoint_bytes";
}

bool HasAny(const StepRow& row, const std::vector<int64_t>& ranks) {
  return std::any_of(row.values.begin(), row.values.end(), [&](const auto& value) {
    return ranks.front() < 0 || std::find(ranks.begin(), ranks.end(), value.first) != ranks.end();
  });
}

double Farthest(const StepRow& row, double middle, int64_t* rank) {
  double farthest = 0;
  for (const auto& [number, value] : row.values) {
    const double far = value > 0 && middle > 0 ? std::abs(std::log(value / middle)) : 0;
    if (far > farthest) *rank = number;
    farthest = std::max(farthest, far);
  }
  return farthest;
}

}  // namespace

DisagreementDetector::DisagreementDetector() {
  for (const char* name : {"lr", "loss_scale", "grad_norm", "loss"}) {
    Number& number = numbers_.emplace_back();
    number.name = name;
    number.is_setting = numbers_.size() <= 2;
  }
}

void DisagreementDetector::OnRestart() {
  *this = DisagreementDetector();
}

void DisagreementDetector::OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) {
  if (beat.rewound) OnRestart();
  if (beat.late) return;
  patience_ = std::clamp(kPatienceBeats * run.pace().beat_seconds, 1.0, kPatienceSecondsMax);
  const std::optional<Sample>* samples[] = {&beat.lr, &beat.loss_scale, &beat.grad_norm, &beat.loss};
  for (size_t i = 0; i < numbers_.size(); ++i)
    if (numbers_[i].is_setting || (*samples[i] && (*samples[i])->changed))
      Add(&numbers_[i], beat, *samples[i], findings);
  if (beat.reported != nullptr) TakeReported(run, beat, findings);
}

void DisagreementDetector::TakeReported(const RunState&, const BeatFacts& beat, Findings* findings) {
  for (const auto& [name, value] : *beat.reported) {
    if (IsMeasured(name)) continue;
    auto found = reported_.find(name);
    if (found == reported_.end()) {
      if (reported_.size() >= kReportedMax) continue;
      found = reported_.emplace(name, Number()).first;
      found->second.name = name;
      found->second.is_reported = true;
      found->second.is_digest = IsDigest(name);
    }
    Add(&found->second, beat, Sample{value, true, true}, findings);
  }
}

void DisagreementDetector::Add(Number* number, const BeatFacts& beat, const std::optional<Sample>& sample,
                               Findings* findings) {
  if (!sample || !std::isfinite(sample->value)) return;
  number->rows.Add(beat.step, beat.rank->rank, sample->value, beat.now);
  TakeRows(number, beat.now, findings);
}

void DisagreementDetector::TakeRows(Number* number, double now, Findings* findings) {
  number->rows.set_patience(patience_);
  for (const StepRow& row : number->rows.Take(now)) Take(number, row, findings);
}

void DisagreementDetector::OnTick(const RunState&, double now, Findings* findings) {
  for (Number& number : numbers_) TakeRows(&number, now, findings);
  for (auto& [name, number] : reported_) TakeRows(&number, now, findings);
}

void DisagreementDetector::Take(Number* number, const StepRow& row, Findings* findings) {
  if (row.values.size() < 2) return;
  const double middle = row.Median();
  const bool is_equal = RanksOff(row, middle, kSame).empty();
  // While a disagreement is raised, a difference cannot become usual: the ranks must agree again.
  if (is_equal || !number->is_raised) ++number->judged_rows;
  if (is_equal) {
    ++number->equal_rows;
    if (middle != number->agreed) ++number->changed_rows;
    number->agreed = middle;
    number->agreed_step = row.step;
    number->stray_rows += std::exchange(number->strays, 0);
  } else {
    ++number->strays;
  }
  const bool is_shared = number->equal_rows >= kEqualRowsMin && 20 * number->equal_rows >= 15 * number->judged_rows &&
                         (!number->is_reported || number->is_digest || number->changed_rows >= kChangedRowsMin);
  if (!is_shared && WatchOutsiders(number, row, middle, findings)) return;
  if (!is_shared && !number->is_setting) return WatchFarthest(number, row, middle, findings);
  const bool is_exact =
      number->equal_rows >= std::max(kExactRowsMin, kExactRowsPerStray * number->stray_rows) && !number->is_setting;
  std::vector<int64_t> odd = RanksOff(row, middle, is_exact ? kSame : kDifferent);
  if (row.values.size() == 2 && !odd.empty()) {
    odd = OddOfTwo(row, number->agreed);
    if (odd.empty() && is_shared) odd = {-1};
  }
  const bool is_minority = 2 * odd.size() < row.values.size() || row.values.size() == 2;
  if (!is_shared && (!is_minority || 4 * odd.size() > row.values.size())) odd.clear();
  Count(number, row, std::move(odd), is_shared ? kOddRows : kOddSettingRows, findings);
}

// For a number that changes, and on which most ranks agree to the last digit: the ranks that never did. Returns whether
// such ranks are raised.
bool DisagreementDetector::WatchOutsiders(Number* number, const StepRow& row, double middle, Findings* findings) {
  const bool is_of_all = number->is_digest || number->name == "grad_norm" || number->name == "loss";
  if (!is_of_all || row.values.size() < kOutsideRanksMin) return false;
  if (number->is_raised && !number->is_outside) return false;
  std::vector<int64_t> outside = RanksOff(row, middle, 0);
  const bool do_most_agree = 4 * outside.size() <= row.values.size();
  if (number->is_raised) {
    Count(number, row, do_most_agree ? std::move(outside) : number->odd, kOutsideRows, findings);
    return true;
  }
  const bool moves = number->is_digest || middle != std::exchange(number->most_agreed, middle);
  const bool are_alike = do_most_agree && moves && !outside.empty() && outside == number->outside;
  number->outside_rows = are_alike ? number->outside_rows + 1 : 0;
  number->outside = std::move(outside);
  if (number->outside_rows < kOutsideRows) return false;
  number->odd = number->outside;
  number->odd_rows = kOutsideRows - 1;
  number->good_step = number->agreed_step;
  number->is_outside = true;
  Count(number, row, number->outside, kOutsideRows, findings);
  return true;
}

// For a number that differs between ranks: a rank that is far from all the others, and was not before.
void DisagreementDetector::WatchFarthest(Number* number, const StepRow& row, double middle, Findings* findings) {
  if (number->is_reported) return;
  int64_t rank = -1;
  const double far = Farthest(row, middle, &rank);
  if (number->judged_rows <= kLearntRows || row.values.size() < 3) {
    number->spread_first = std::max(number->spread_first, far);
    number->spread.Add(far);
    return;
  }
  const double limit = std::max({kFarMin, kFarTimes * number->spread_first, 2 * kFarTimes * number->spread.Median()});
  if (far > limit) return Count(number, row, {rank}, kFarRows, findings);
  number->spread.Add(far);
  Count(number, row, {}, kFarRows, findings);
}

void DisagreementDetector::Count(Number* number, const StepRow& row, std::vector<int64_t> odd, int64_t rows_min,
                                 Findings* findings) {
  // A row without any of the odd ranks is no evidence that they agree.
  if (odd.empty() && !number->odd.empty() && !HasAny(row, number->odd)) return;
  if (odd.empty()) {
    number->odd_rows = 0;
    number->odd.clear();
    if (!number->is_raised) {
      number->good_step = row.step;
    } else if (++number->calm_rows >= kCalmRows) {
      number->is_raised = number->is_outside = false;
      number->outside_rows = 0;
      findings->Clear(IncidentKind::kRankDisagreement, number->name);
    }
    return;
  }
  number->calm_rows = 0;
  // It is over when the named ranks agree, even if others are odd in rows of a few ranks.
  if (number->is_raised) return;
  number->odd_rows = odd == number->odd ? number->odd_rows + 1 : 1;
  number->odd = std::move(odd);
  if (number->odd_rows < rows_min) return;
  number->is_raised = true;
  Finding finding;
  finding.kind = IncidentKind::kRankDisagreement;
  finding.key = number->name;
  if (2 * number->odd.size() <= row.values.size() && number->odd.front() >= 0) finding.ranks = number->odd;
  if (number->good_step >= 0) finding.since_step = number->good_step;
  finding.evidence.Set("number", number->name);
  finding.evidence.Set("step", row.step);
  finding.evidence.Set("median", row.Median());
  std::vector<double> values;
  for (const auto& [rank, value] : row.values)
    if (std::find(number->odd.begin(), number->odd.end(), rank) != number->odd.end()) values.push_back(value);
  finding.evidence.Set("values", values);
  finding.evidence.Set("ranks_reporting", static_cast<int64_t>(row.values.size()));
  findings->Raise(std::move(finding));
}

}  // namespace stepwatch::operations
