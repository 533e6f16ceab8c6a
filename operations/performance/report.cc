#include "operations/performance/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "operations/runs/sample_window.h"
#include "operations/runs/time_account.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kInterruptionsMax = 200;
constexpr size_t kPlotPointsMax = 400;
constexpr size_t kStragglersMax = 16;
constexpr double kStragglerRatio = 1.1;
constexpr double kLowUtilization = 50;  // percent
constexpr double kHighMemory = 0.95;    // share of the limit
constexpr double kHighFragmentation = 0.3;
constexpr double kRegressionShare = 0.02;
constexpr double kGoodputLow = 0.9;
// A gap beyond both is an interruption that is not over.
constexpr double kOngoingSteps = 10;
constexpr double kOngoingSeconds = 60;
// Conversions between clocks round.
constexpr double kClockSeconds = 1e-3;
constexpr std::string_view kEval = "eval.";
constexpr std::string_view kLost = "time.lost.";

constexpr std::array<std::string_view, 16> kBySteps = {
    "loss",
    "grad_norm",
    "lr",
    "tokens",
    "grad_clip",
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
    "checkpoint_bytes",
};
constexpr std::array<std::string_view, 6> kParts = {"data_seconds",    "forward_seconds",   "backward_seconds",
                                                    "compute_seconds", "optimizer_seconds", "communication_seconds"};

using Points = std::vector<SeriesPoint>;

double Finite(const SeriesPoint& point) {
  return static_cast<double>(point.count - point.nonfinite);
}

double Sum(const Points& points) {
  double sum = 0;
  for (const SeriesPoint& each : points) sum += each.mean * Finite(each);
  return sum;
}

std::optional<double> Mean(const Points& points) {
  double count = 0;
  for (const SeriesPoint& each : points) count += Finite(each);
  if (count <= 0) return std::nullopt;
  return Sum(points) / count;
}

std::optional<double> Over(double amount, double seconds) {
  if (!(amount > 0) || !(seconds > 0)) return std::nullopt;
  return amount / seconds;
}

// The last value of a point is one of its values: the points are a systematic sample of all values.
Distribution DistributionOf(const Points& points) {
  Distribution found;
  std::vector<Weighted> sampled, by_time;
  for (const SeriesPoint& each : points) {
    if (Finite(each) <= 0) continue;
    found.values += each.count - each.nonfinite;
    found.max = std::max(found.max.value_or(each.max), each.max);
    if (!std::isfinite(each.last)) continue;
    sampled.push_back({each.last, Finite(each)});
    by_time.push_back({each.last, each.last * Finite(each)});
  }
  found.samples = static_cast<int64_t>(sampled.size());
  found.mean = Mean(points);
  found.p5 = Quantile(sampled, 0.05);
  found.p50 = Quantile(sampled, 0.5);
  found.p95 = Quantile(sampled, 0.95);
  found.p99 = Quantile(sampled, 0.99);
  double weight = 0, sum = 0;
  for (const Weighted& each : by_time) {
    weight += each.weight;
    sum += each.weight * each.value;
  }
  if (weight > 0) found.mean_by_time = sum / weight;
  return found;
}

class Maker {
 public:
  explicit Maker(const PerformanceInput& input) : input_(input) {}

  PerformanceReport Make();

 private:
  // The points of the window.
  Points Of(std::string_view name) const;
  std::optional<double> MeanOf(std::string_view name) const { return Mean(Of(name)); }
  void SetWindow();
  void SetTime();
  void SetInterruptions();
  void SetOngoing();
  void SetParts();
  void SetMachines();
  void SetLosses();
  void SetEvaluations();
  void SetNumbers();
  void SetLegacy();
  void SetFindings();
  void SetPlots();
  Trend TrendOf(const std::string& series, const Points& points) const;
  void LinkIncident(Interruption* interruption) const;
  void AddPlot(std::string_view series, const char* unit, bool is_by_time = false);

  const PerformanceInput& input_;
  PerformanceReport report_;
};

Points Maker::Of(std::string_view name) const {
  Points points;
  const auto found = input_.series.find(name);
  if (found == input_.series.end()) return points;
  for (const SeriesPoint& each : found->second)
    if (each.t > report_.from_t && each.t <= report_.until_t + kClockSeconds) points.push_back(each);
  return points;
}

void Maker::SetWindow() {
  const RunSnapshot& run = input_.run;
  report_.run = run.id;
  report_.step = run.step;
  report_.until_t = run.ended ? (run.ended_t > 0 ? run.ended_t : run.heard_t) : std::max(input_.now, run.heard_t);
  double started = run.started_t;
  // A stepwatchd that was started again knows the begin by the series alone.
  for (const auto& [name, points] : input_.series) {
    if (!IsTimeSeries(name) || points.empty()) continue;
    const SeriesPoint& first = points.front();
    const bool is_lost = name.starts_with(kLost) && first.count == 1;
    started = std::min(started, first.t - (is_lost ? first.mean : 0));
  }
  report_.from_t = std::min(report_.until_t, std::max(started, report_.until_t - input_.window_seconds));
  report_.seconds = report_.until_t - report_.from_t;
}

void Maker::SetTime() {
  report_.steps_counted = std::llround(Sum(Of("time.counted_steps")));
  report_.step_seconds = DistributionOf(Of("time.step_seconds"));
  report_.counted_seconds = std::min(report_.seconds, Sum(Of("time.counted_seconds")));
  if (report_.seconds > 0 && report_.steps_counted > 0) report_.goodput = report_.counted_seconds / report_.seconds;
  // Rates are those of time in steps; the goodput is the share of it.
  double in_steps = report_.counted_seconds + Sum(Of(kRepeatedSeries));
  report_.steps_per_second = Over(static_cast<double>(report_.steps_counted), report_.seconds);
  report_.tokens_per_second = Over(Sum(Of("time.tokens")), in_steps);
  report_.samples_per_second = Over(Sum(Of("time.samples")), in_steps);
  if (input_.run.numbers.peak_flops.value_or(0) > 0)
    report_.mfu = Over(Sum(Of("time.flops")), in_steps * *input_.run.numbers.peak_flops);
}

void Maker::LinkIncident(Interruption* interruption) const {
  constexpr double kLateSeconds = 60;  // an incident opens once it is sure, and resolves after the run has recovered
  for (const Incident& each : input_.incidents) {
    const double end = each.state == IncidentState::kResolved ? each.t : report_.until_t;
    if (each.opened_t > interruption->until_t + kLateSeconds || end < interruption->from_t) continue;
    if (each.opened_t < interruption->from_t - kLateSeconds) continue;
    interruption->incident = each.id;
    interruption->incident_kind = NameOf(each.kind);
    return;
  }
}

void Maker::SetInterruptions() {
  for (const auto& [name, all] : input_.series) {
    if (!name.starts_with(kLost) || !IsTimeSeries(name)) continue;
    const std::string cause = name.substr(kLost.size());
    for (const SeriesPoint& each : Of(name)) {
      Interruption found;
      found.seconds = each.mean * Finite(each);
      found.count = each.count;
      found.until_t = each.t;
      found.from_t =
          std::max(report_.from_t, each.count == 1 ? each.t - found.seconds : static_cast<double>(each.step_first));
      // Only the part in the window is lost in it.
      if (each.count == 1) found.seconds = std::min(found.seconds, found.until_t - report_.from_t);
      found.cause = cause;
      report_.lost_seconds[cause] += found.seconds;
      LinkIncident(&found);
      report_.interruptions.push_back(std::move(found));
    }
  }
  SetOngoing();
  double lost = 0;
  for (const auto& [cause, seconds] : report_.lost_seconds) lost += seconds;
  report_.other_seconds = std::max(0.0, report_.seconds - report_.counted_seconds - lost);
  auto& list = report_.interruptions;
  if (list.size() > kInterruptionsMax) {
    std::nth_element(list.begin(), list.begin() + kInterruptionsMax, list.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    report_.interruptions_left_out = static_cast<int64_t>(list.size() - kInterruptionsMax);
    list.resize(kInterruptionsMax);
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.from_t < b.from_t; });
}

// A run that stands still has an interruption without an end.
void Maker::SetOngoing() {
  const RunSnapshot& run = input_.run;
  if (run.ended || !run.step_t) return;
  Interruption found;
  found.from_t = std::max(report_.from_t, *run.step_t);
  found.until_t = report_.until_t;
  found.seconds = found.until_t - found.from_t;
  if (found.seconds < std::max(kOngoingSeconds, kOngoingSteps * run.step_seconds)) return;
  constexpr std::array<const char*, 5> kCauses = {"init", "stall", "eval", "checkpoint", "pause"};
  found.cause = run.paused ? "pause" : kCauses[static_cast<size_t>(run.phase)];
  report_.lost_seconds[found.cause] += found.seconds;
  LinkIncident(&found);
  report_.interruptions.push_back(std::move(found));
}

void Maker::SetParts() {
  for (const std::string_view part : kParts)
    if (const auto mean = MeanOf(part)) report_.parts.emplace_back(std::string(part), *mean);
  const std::optional<double> communication = MeanOf("communication_seconds");
  if (communication && report_.step_seconds.mean.value_or(0) > 0)
    report_.exposed_communication = std::min(1.0, *communication / *report_.step_seconds.mean);
  const Points checkpoints = Of("time.lost.checkpoint");
  report_.checkpoint_seconds_mean = Mean(checkpoints);
  if (!report_.checkpoint_seconds_mean) report_.checkpoint_seconds_mean = MeanOf("checkpoint_seconds");
  if (!checkpoints.empty() && report_.seconds > 0) report_.checkpoint_share = Sum(checkpoints) / report_.seconds;
  report_.checkpoint_bytes = input_.run.numbers.checkpoint_bytes;
}

void Maker::SetMachines() {
  std::vector<double> seconds;
  for (const RankSnapshot& rank : input_.run.ranks)
    if (rank.step_seconds && std::isfinite(*rank.step_seconds)) seconds.push_back(*rank.step_seconds);
  if (const double median = MedianOf(seconds); seconds.size() > 1 && median > 0)
    for (const RankSnapshot& rank : input_.run.ranks)
      if (rank.step_seconds && *rank.step_seconds >= kStragglerRatio * median)
        report_.stragglers.push_back({rank.rank, *rank.step_seconds, *rank.step_seconds / median});
  std::sort(report_.stragglers.begin(), report_.stragglers.end(),
            [](const Straggler& a, const Straggler& b) { return a.ratio > b.ratio; });
  if (report_.stragglers.size() > kStragglersMax) report_.stragglers.resize(kStragglersMax);
  const Points gpus = Of("time.gpu_utilization");
  report_.gpu_utilization = Mean(gpus);
  for (const SeriesPoint& each : gpus)
    if (Finite(each) > 0)
      report_.gpu_utilization_low = std::min(report_.gpu_utilization_low.value_or(each.min), each.min);
  const Points allocated = Of("cuda_allocated_bytes"), reserved = Of("cuda_reserved_bytes");
  report_.allocated_bytes = Mean(allocated);
  report_.reserved_bytes = Mean(reserved);
  if (report_.allocated_bytes && report_.reserved_bytes.value_or(0) > 0)
    report_.fragmentation = std::max(0.0, 1 - *report_.allocated_bytes / *report_.reserved_bytes);
  if (const Points retries = Of("cuda_alloc_retries"); !retries.empty())
    report_.alloc_retries = std::max(0.0, retries.back().last - retries.front().min);
  for (const SeriesPoint& each : Of("time.host_memory"))
    if (Finite(each) > 0) report_.host_memory = std::max(report_.host_memory.value_or(each.max), each.max);
}

// Over log tokens if tokens are reported: a constant factor, such as the number of ranks, does not change the slope.
Trend Maker::TrendOf(const std::string& series, const Points& points) const {
  Trend trend;
  trend.series = series;
  const auto tokens = input_.series.find("tokens");
  Points counted = tokens == input_.series.end() ? Points() : tokens->second;
  const std::optional<double> tokens_of_step = Mean(counted);
  const bool has_tokens = tokens_of_step.value_or(0) > 0;
  trend.over = has_tokens ? "tokens" : "steps";
  std::vector<Sampled> sampled;
  double total = 0;
  int64_t step_before = counted.empty() ? 0 : counted.front().step_first - 1;
  if (has_tokens) total = *tokens_of_step * static_cast<double>(std::max<int64_t>(0, step_before));
  auto next = counted.begin();
  for (const SeriesPoint& each : points) {
    trend.nonfinite += each.nonfinite;
    if (Finite(each) <= 0) continue;
    trend.first = trend.first.value_or(each.mean);
    trend.last = each.mean;
    trend.best = std::min(trend.best.value_or(each.min), each.min);
    for (; has_tokens && next != counted.end() && next->step_last <= each.step_last; ++next) {
      total += (Finite(*next) > 0 ? next->mean : *tokens_of_step) *
               static_cast<double>(std::max<int64_t>(0, next->step_last - step_before));
      step_before = std::max(step_before, next->step_last);
    }
    const double middle = (static_cast<double>(each.step_first) + static_cast<double>(each.step_last)) / 2;
    const double x = has_tokens ? total : middle;
    if (x > 0) sampled.push_back({std::log(x), each.mean});
  }
  trend.slope = TheilSen(sampled);
  if (trend.slope) trend.verdict = trend.slope->high < 0 ? "falling" : trend.slope->low > 0 ? "rising" : "flat";
  return trend;
}

void Maker::SetLosses() {
  if (const Points loss = Of("loss"); !loss.empty()) report_.losses.push_back(TrendOf("loss", loss));
  for (const char* name : {"eval.loss", "eval.eval_loss", "eval.val_loss", "eval.validation_loss"}) {
    const Points loss = Of(name);
    if (loss.empty()) continue;
    report_.losses.push_back(TrendOf(name, loss));
    break;
  }
  if (report_.losses.size() == 2 && report_.losses[0].series == "loss" && report_.losses[0].last &&
      report_.losses[1].last)
    report_.generalisation_gap = *report_.losses[1].last - *report_.losses[0].last;
}

// The direction in which a number is better, by the words in its name.
std::string BetterOf(std::string_view name) {
  for (const char* word : {"loss", "perplexity", "ppl", "error", "wer", "bpb"})
    if (name.find(word) != std::string_view::npos) return "lower";
  for (const char* word : {"acc", "bleu", "f1", "score", "exact_match", "rouge", "auc", "pass"})
    if (name.find(word) != std::string_view::npos) return "higher";
  return "unknown";
}

void Maker::SetEvaluations() {
  for (const auto& [name, all] : input_.series) {
    if (!name.starts_with(kEval)) continue;
    Evaluation found;
    found.name = name.substr(kEval.size());
    found.better = BetterOf(found.name);
    const bool is_higher = found.better == "higher";
    for (const SeriesPoint& each : Of(name)) {
      if (!std::isfinite(each.last)) continue;
      const double best = is_higher ? each.max : each.min;
      if (found.count == 0 || (is_higher ? best > found.best : best < found.best)) {
        found.best = best;
        found.best_step = each.step_last;
      }
      ++found.count;
      found.last = each.last;
      found.last_step = each.step_last;
    }
    if (found.count == 0) continue;
    const double worse = is_higher ? found.best - found.last : found.last - found.best;
    found.is_regression = found.better != "unknown" && worse > kRegressionShare * std::abs(found.best) && worse > 0;
    report_.evaluations.push_back(std::move(found));
  }
}

void Maker::SetNumbers() {
  const Points norms = Of("grad_norm");
  report_.grad_norm = DistributionOf(norms);
  if (const Points clip = Of("grad_clip"); !clip.empty() && std::isfinite(clip.back().last) && clip.back().last > 0) {
    double clipped = 0, total = 0;
    for (const SeriesPoint& each : norms) {
      total += static_cast<double>(each.count);
      // An infinite norm is clipped, too; of a merged point its last value stands for all.
      if (!std::isnan(each.last) && each.last > clip.back().last) clipped += static_cast<double>(each.count);
    }
    if (total > 0) report_.clip_share = clipped / total;
  }
  std::vector<Sampled> rates;
  for (const SeriesPoint& each : Of("lr"))
    if (std::isfinite(each.last)) rates.push_back({static_cast<double>(each.step_last), each.last});
  report_.schedule = RecogniseSchedule(rates);
}

void Maker::SetLegacy() {
  const double reference = input_.legacy.samples_per_second;
  if (!report_.gpu_utilization || !report_.samples_per_second || !(reference > 0)) return;
  report_.legacy_score =
      0.6 * *report_.gpu_utilization + 0.4 * 100 * std::min(*report_.samples_per_second / reference, 1.0);
  report_.legacy_rating = LegacyRating(*report_.legacy_score);
}

void Maker::SetFindings() {
  auto& findings = report_.findings;
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  if (report_.goodput && *report_.goodput < kGoodputLow) {
    const auto worst = std::max_element(report_.lost_seconds.begin(), report_.lost_seconds.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    std::string text = "goodput is " + percent(*report_.goodput);
    if (worst != report_.lost_seconds.end())
      text += fmt::format("; most time was lost to {} ({})", worst->first, percent(worst->second / report_.seconds));
    findings.push_back(text);
  }
  if (report_.gpu_utilization && *report_.gpu_utilization < kLowUtilization)
    findings.push_back(fmt::format("low GPU use: {:.0f} % on average in training", *report_.gpu_utilization));
  if (report_.host_memory && *report_.host_memory > kHighMemory)
    findings.push_back("high host memory: " + percent(*report_.host_memory) + " of the limit of the cgroup");
  if (report_.fragmentation && *report_.fragmentation > kHighFragmentation)
    findings.push_back("device memory is fragmented: " + percent(*report_.fragmentation) +
                       " of the reserved memory is not allocated");
  if (report_.alloc_retries.value_or(0) > 0)
    findings.push_back(
        fmt::format("high device memory: the allocator had to retry {:.0f} times", *report_.alloc_retries));
  for (const Evaluation& each : report_.evaluations)
    if (each.is_regression)
      findings.push_back(fmt::format("{} is worse than at step {}: {:.6g}, before {:.6g}", each.name, each.best_step,
                                     each.last, each.best));
  for (const Trend& each : report_.losses)
    if (each.slope && each.verdict != "falling")
      findings.push_back(fmt::format("{} is {} in this window", each.series, each.verdict));
  if (report_.schedule && !report_.schedule->deviations.empty())
    findings.push_back(fmt::format("the learning rate departs from its {} schedule at step {:.0f}",
                                   NameOf(report_.schedule->kind), report_.schedule->deviations.front().x));
}

void Maker::AddPlot(std::string_view series, const char* unit, bool is_by_time) {
  const Points all = Of(series);
  Plot plot{std::string(series), unit, is_by_time ? "time" : "step", {}};
  const size_t joined = (all.size() + kPlotPointsMax - 1) / kPlotPointsMax;
  for (size_t i = 0; i < all.size(); i += joined) {
    SeriesPoint point = all[i];
    for (size_t j = i + 1; j < std::min(all.size(), i + joined); ++j) Join(&point, all[j]);
    if (Finite(point) <= 0) continue;
    const double middle = (static_cast<double>(point.step_first) + static_cast<double>(point.step_last)) / 2;
    plot.points.push_back({is_by_time ? point.t : middle, point.min, point.mean, point.max});
  }
  if (!plot.points.empty()) report_.plots.push_back(std::move(plot));
}

void Maker::SetPlots() {
  AddPlot("time.step", "", true);
  AddPlot("time.step_seconds", "s", true);
  AddPlot("loss", "");
  for (const Trend& each : report_.losses)
    if (each.series != "loss") AddPlot(each.series, "");
  AddPlot("grad_norm", "");
  AddPlot("lr", "");
  AddPlot("time.gpu_utilization", "%", true);
  AddPlot("time.host_memory", "", true);
  AddPlot("cuda_reserved_bytes", "B");
  AddPlot("cuda_allocated_bytes", "B");
}

PerformanceReport Maker::Make() {
  SetWindow();
  SetTime();
  SetInterruptions();
  SetParts();
  SetMachines();
  SetLosses();
  SetEvaluations();
  SetNumbers();
  SetLegacy();
  SetFindings();
  SetPlots();
  return std::move(report_);
}

}  // namespace

bool IsOfReport(std::string_view series) {
  return IsTimeSeries(series) || series.starts_with(kEval) ||
         std::find(kBySteps.begin(), kBySteps.end(), series) != kBySteps.end();
}

std::string_view LegacyRating(double score) {
  if (score >= 90) return "Excellent";
  if (score >= 80) return "Good";
  if (score >= 70) return "Fair";
  if (score >= 60) return "Poor";
  return "Critical";
}

PerformanceReport ReportOf(const PerformanceInput& input) {
  return Maker(input).Make();
}

}  // namespace stepwatch::operations
