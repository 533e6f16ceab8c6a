#include "operations/runs/run_totals.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr std::array<std::string_view, kWorkNumbers> kKeys = {"flops",
                                                              "peak_flops",
                                                              "data_seconds",
                                                              "compute_seconds",
                                                              "optimizer_seconds",
                                                              "checkpoint_seconds",
                                                              "forward_seconds",
                                                              "backward_seconds",
                                                              "communication_seconds",
                                                              "cuda_allocated_bytes",
                                                              "cuda_reserved_bytes",
                                                              "cuda_alloc_retries",
                                                              "cuda_ooms",
                                                              "checkpoint_bytes"};

// A part of a step that is not reported any more is no longer shown.
constexpr double kPartSecondsMax = 600;
// A longer time than this, in typical steps, was a standstill.
constexpr double kProductiveFactor = 3;

std::optional<WorkNumber> NumberWithKey(std::string_view key) {
  const auto found = std::find(kKeys.begin(), kKeys.end(), key);
  if (found == kKeys.end()) return std::nullopt;
  return static_cast<WorkNumber>(found - kKeys.begin());
}

bool IsPart(WorkNumber number) {
  return number >= WorkNumber::kDataSeconds && number <= WorkNumber::kCommunicationSeconds;
}

}  // namespace

void SetPeak(double peak_flops, Beat* beat) {
  const auto named = [beat](WorkNumber number) {
    return std::find_if(beat->reported.begin(), beat->reported.end(),
                        [key = KeyOf(number)](const auto& each) { return each.first == key; });
  };
  if (peak_flops <= 0 || named(WorkNumber::kFlops) == beat->reported.end()) return;
  if (const auto own = named(WorkNumber::kPeakFlops); own != beat->reported.end())
    own->second = peak_flops;
  else
    beat->reported.emplace_back(KeyOf(WorkNumber::kPeakFlops), peak_flops);
}

std::string_view KeyOf(WorkNumber number) {
  return kKeys[static_cast<size_t>(number)];
}

bool IsWorkNumber(std::string_view key) {
  return NumberWithKey(key).has_value();
}

// Steps that reported no value had that of the next one that does.
void RunTotals::Count(double value, int64_t step, int64_t* counted, std::optional<double>* total) {
  if (!std::isfinite(value) || value < 0 || step <= *counted) return;
  const int64_t steps = *counted < 0 ? 1 : step - *counted;
  *counted = step;
  *total = total->value_or(0) + value * static_cast<double>(steps);
}

void RunTotals::Report(WorkNumber number, double value, const BeatFacts& facts, RankWork* work) {
  if (!std::isfinite(value) || value < 0) return;
  if (number == WorkNumber::kFlops) Count(value, facts.step, &work->counted[2], &numbers_.flops);
  const auto found = std::find_if(work->reported.begin(), work->reported.end(),
                                  [&](const Reported& each) { return each.number == number; });
  if (found == work->reported.end())
    work->reported.push_back({number, value, facts.now});
  else
    *found = {number, value, facts.now};
}

void RunTotals::TakeBeat(const Beat& beat, const BeatFacts& facts) {
  RankWork& work = ranks_[facts.rank->rank];
  if (facts.rewound) {
    work.counted = {-1, -1, -1};
    step_nonfinite_ = -1;
  }
  const auto is_bad = [](const std::optional<Sample>& sample) {
    return sample && sample->fresh && !std::isfinite(sample->value);
  };
  if (facts.step > step_nonfinite_ && (is_bad(facts.loss) || is_bad(facts.grad_norm))) {
    ++numbers_.nonfinite_steps;
    step_nonfinite_ = facts.step;
  }
  if (facts.late) {  // times of a device are known only later
    for (const auto& [key, value] : beat.reported)
      if (const auto number = NumberWithKey(key); number && IsPart(*number)) Report(*number, value, facts, &work);
    return;
  }
  if (beat.tokens) Count(*beat.tokens, facts.step, work.counted.data(), &numbers_.tokens);
  if (beat.samples) Count(*beat.samples, facts.step, &work.counted[1], &numbers_.samples);
  for (const auto& [key, value] : beat.reported)
    if (const auto number = NumberWithKey(key)) Report(*number, value, facts, &work);
}

void RunTotals::TakeAdvance(const Advance& advance) {
  const auto steps = static_cast<double>(advance.to - advance.from);
  const int64_t known = std::max(advance.from, step_furthest_);
  const double share = static_cast<double>(std::max<int64_t>(0, advance.to - known)) / steps;
  const double limit = kProductiveFactor * advance.typical_seconds * steps;
  productive_seconds_ += share * (limit > 0 ? std::min(advance.seconds, limit) : advance.seconds);
  step_furthest_ = std::max(step_furthest_, advance.to);
  if (!advance.is_whole) return;
  const double each = advance.seconds / steps;
  const auto bucket = std::lower_bound(kStepBounds.begin(), kStepBounds.end(), each) - kStepBounds.begin();
  numbers_.steps[static_cast<size_t>(bucket)] += advance.to - advance.from;
  numbers_.steps_seconds += advance.seconds;
  recent_.Add(each);
}

void RunTotals::Restart() {
  ranks_.clear();
  step_nonfinite_ = -1;
  recent_.Clear();
  ++numbers_.restarts;
}

void RunTotals::ResetCounters() {
  RunNumbers fresh;
  if (numbers_.tokens) fresh.tokens = 0;
  if (numbers_.samples) fresh.samples = 0;
  if (numbers_.flops) fresh.flops = 0;
  numbers_ = fresh;
}

RunNumbers RunTotals::Numbers(double now, double seconds, double step_seconds) const {
  RunNumbers shown = numbers_;
  if (recent_.size() > 0) {
    std::vector<double> recent = recent_.Last(recent_.size());
    const auto at = recent.begin() + static_cast<std::ptrdiff_t>((recent.size() * 99 - 1) / 100);
    std::nth_element(recent.begin(), at, recent.end());
    shown.step_seconds_p99 = *at;
  }
  if (seconds > 0) shown.goodput = std::min(1.0, productive_seconds_ / seconds);
  std::array<double, kWorkNumbers> sums{};
  std::array<int64_t, kWorkNumbers> counts{};
  double flops = 0, peak = 0;  // of the ranks that report both
  for (const auto& [rank, work] : ranks_) {
    std::optional<double> own_flops, own_peak;
    for (const Reported& each : work.reported) {
      if (IsPart(each.number) && now - each.at > kPartSecondsMax) continue;
      const auto i = static_cast<size_t>(each.number);
      sums[i] += each.value;
      ++counts[i];
      if (each.number == WorkNumber::kFlops) own_flops = each.value;
      if (each.number == WorkNumber::kPeakFlops) own_peak = each.value;
    }
    if (!own_flops || !own_peak) continue;
    flops += *own_flops;
    peak += *own_peak;
  }
  const auto sum = [&](WorkNumber number) -> std::optional<double> {
    const auto i = static_cast<size_t>(number);
    return counts[i] > 0 ? std::optional<double>(sums[i]) : std::nullopt;
  };
  shown.peak_flops = sum(WorkNumber::kPeakFlops);
  shown.checkpoint_bytes = sum(WorkNumber::kCheckpointBytes);
  if (peak > 0 && step_seconds > 0) shown.mfu = flops / (step_seconds * peak);
  for (size_t i = 0; i < kWorkNumbers; ++i)
    if (IsPart(static_cast<WorkNumber>(i)) && counts[i] > 0)
      shown.parts.emplace_back(static_cast<WorkNumber>(i), sums[i] / static_cast<double>(counts[i]));
  return shown;
}

WorkValues RunTotals::Of(int64_t rank) const {
  WorkValues values;
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return values;
  for (const Reported& each : found->second.reported) values.emplace_back(each.number, each.value);
  return values;
}

}  // namespace stepwatch::operations
