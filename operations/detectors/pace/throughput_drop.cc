#include "operations/detectors/pace/throughput_drop.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "operations/detectors/tools/variation.h"

namespace stepwatch::operations {
namespace {

constexpr int64_t kWarmUpBlocks = 2;
constexpr int64_t kFewBlocks = 4;  // of a baseline that is sufficient for a large drop
constexpr double kFewRatio = 0.7;
constexpr double kCoarseBeat = 1.5;        // steps: a run that beats at each step varies by that from noise alone
constexpr int64_t kSameAdvancesMin = 16;   // in a row: beats come at the ends of steps
constexpr int64_t kCoarseSteps = 8;        // of a block, if a beat reports several steps at once
constexpr double kWholeBlockSeconds = 10;  // such blocks are off by less than one step
constexpr double kLearnSeconds = 240;      // then the baseline is frozen, if it has enough blocks
constexpr int64_t kLowBlocks = 3;          // below the limit; one less if they are far below it
constexpr int64_t kHiccupBlocks = 2;       // that one hiccup makes slow if a beat reports several steps
constexpr double kThroughputDeviations = 4;
constexpr double kRise = 1.1;  // from this ratio on the median of the last blocks is the level
constexpr double kRecovered = 0.9;
constexpr int64_t kCalmBlocks = 3;
constexpr double kLimitMin = 0.1;
constexpr double kThroughputDeviationMin = 0.01;
constexpr double kVeryLow = 0.6;  // of the level
constexpr double kLowBlockSeconds = 2.5;
constexpr size_t kTimedRanksMax = 4096;
constexpr double kNoisyTokens = 0.15;
constexpr double kOwnSmoothing = 0.5;
constexpr double kOwnFollow = 0.1;
constexpr double kOwnShare = 0.6;           // of a slowdown: if own times rise by that, all ranks are slow
constexpr double kOwnFar = 1.12;            // above the middle of its peers: it may be a straggler
constexpr double kStragglerRounds = 20;     // for this long it may be found to be one
constexpr double kNoneFarRounds = 4;        // for this long a rank may be detected
constexpr int64_t kTokenBlocksMissing = 2;  // with more, tokens count as no longer reported
constexpr double kHiccup = 3;  // a wait that is this many times as long as the others of its block is left out

// The mean of the middle half. The median of rates that are whole steps per block would be off by most of a step.
double MiddleOf(std::vector<double> rates) {
  std::sort(rates.begin(), rates.end());
  const size_t left_out = rates.size() / 4;
  if (rates.empty()) return 0;
  const auto begin = rates.begin() + static_cast<std::ptrdiff_t>(left_out);
  const auto end = rates.end() - static_cast<std::ptrdiff_t>(left_out);
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

constexpr int64_t kRisingMin = 8;  // samples in a row: with fewer, noise may rise as well
constexpr double kTimeSmoothing = 0.1;
constexpr double kGrown = 1.5;             // times as many: then step times show whether they cost any,
constexpr double kTimeOfTokens = 1.0 / 3;  // at least this power of their ratio

}  // namespace

void ThroughputDropDetector::OnRestart() {
  *this = ThroughputDropDetector(settings_);
}

void ThroughputDropDetector::Rate::Learn(double rate, size_t blocks_max) {
  if (is_frozen || baseline.size() >= blocks_max) {
    if (!recent.is_full() || MiddleOf(recent.Last(recent.size())) < kRise * level) return;
    baseline = recent.Last(recent.size());
    baseline.resize(std::min(baseline.size(), blocks_max));
  } else {
    baseline.push_back(rate);
  }
  level = MiddleOf(baseline);
  deviation = level > 0 ? std::max(DeviationOf(baseline, level) / level, kThroughputDeviationMin) : 0;
}

// Noise of a block, also from the differences of neighbours: a rate that rises in stages is not noisy.
double ThroughputDropDetector::Rate::Noise() const {
  std::vector<double> changes;
  for (size_t i = 1; i < baseline.size(); ++i) changes.push_back(baseline[i] - baseline[i - 1]);
  return level > 0 ? std::min(deviation, DeviationOf(std::move(changes), 0) / level / std::sqrt(2.0)) : 0;
}

void ThroughputDropDetector::Begin(int64_t step, double now) {
  block_ = Block();
  block_.step = block_.last_step = block_.tail_step = block_.second_step = step;
  block_.at = block_.last_at = block_.tail_at = block_.second_at = now;
  is_begun_ = true;
}

void ThroughputDropDetector::TakeTokens(const BeatFacts& beat) {
  are_samples_ = !beat.rank->tokens.is_known;
  const std::optional<Sample>& work = are_samples_ ? beat.samples : beat.tokens;
  if (!work || !(work->value > 0) || !std::isfinite(work->value)) return;
  token_count_.Add(beat.rank->rank, beat.step, work->value, beat.now);
  block_.tokens += work->value;
  ++block_.token_samples;
}

void ThroughputDropDetector::OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) {
  if (beat.rewound) OnRestart();
  TakeTokens(beat);
  TakeOwnTime(beat);
  if (first_at_ < 0) first_at_ = beat.now;
  are_whole_seconds_ = are_whole_seconds_ && std::abs(beat.now - first_at_ - std::round(beat.now - first_at_)) < 1e-3;
  if (!run.step() || *run.step() <= step_) return;
  step_ = *run.step();
  const bool is_undisturbed = run.phase() == RunPhase::kTrain && is_begun_ && run.left_training_at() < block_.at;
  if (!is_undisturbed) return Begin(step_, beat.now);
  TakeAdvance(step_ - block_.last_step);
  const double wait = beat.now - block_.last_at;
  if (wait > block_.longest) {
    block_.longest = wait;
    block_.longest_steps = step_ - block_.last_step;
  }
  block_.tail_step = std::exchange(block_.second_step, block_.last_step);
  block_.tail_at = std::exchange(block_.second_at, block_.last_at);
  block_.last_at = beat.now;
  block_.last_step = step_;
  const int64_t steps = step_ - block_.step;
  const double seconds = beat.now - block_.at;
  block_.is_coarse =
      run.pace().beat_seconds > kCoarseBeat * run.pace().StepSeconds() && same_advances_ < kSameAdvancesMin;
  const double seconds_min = are_whole_seconds_ ? kWholeBlockSeconds : settings_.block_seconds;
  if (steps < (block_.is_coarse ? kCoarseSteps : settings_.block_steps) || seconds < seconds_min) return;
  const auto others = static_cast<double>(steps - block_.longest_steps);
  const double others_seconds = seconds - block_.longest;
  // A single hiccup does not change the pace.
  const bool has_hiccup = others > 0 && others_seconds > 0 &&
                          (block_.longest - (are_whole_seconds_ ? 1 : 0)) / static_cast<double>(block_.longest_steps) >
                              kHiccup * others_seconds / others;
  if (has_hiccup)
    Close(run, others, others_seconds, beat.now, findings);
  else
    Close(run, static_cast<double>(steps), seconds, beat.now, findings);
  Begin(step_, beat.now);
}

// A run that beats at each tenth step reports the end of each tenth. A run that beats each ten seconds reports varying
// numbers of steps, the last of which may have ended at any time in between.
void ThroughputDropDetector::TakeAdvance(int64_t steps) {
  same_advances_ = steps == advance_ ? same_advances_ + 1 : 0;
  advance_ = steps;
}

void ThroughputDropDetector::TakeOwnTime(const BeatFacts& beat) {
  const auto rank = static_cast<size_t>(beat.rank->rank);
  if (!beat.step_seconds || !(beat.step_seconds->value > 0) || rank >= kTimedRanksMax) return;
  if (own_seconds_.size() <= rank) own_seconds_.resize(rank + 1);
  float& own = own_seconds_[rank];
  const auto seconds = static_cast<float>(beat.step_seconds->value);
  own = own == 0 ? seconds : own + static_cast<float>(kOwnSmoothing) * (seconds - own);
}

// The lower of the middle two: of two ranks that of the faster one.
double ThroughputDropDetector::OwnSeconds() const {
  std::vector<float> own;
  for (const float seconds : own_seconds_)
    if (seconds > 0) own.push_back(seconds);
  if (own.size() < 2) return 0;
  const auto middle = own.begin() + static_cast<std::ptrdiff_t>((own.size() - 1) / 2);
  std::nth_element(own.begin(), middle, own.end());
  return *middle;
}

// A straggler, if there is one, is the better explanation. Own step times show whether to wait for it.
double ThroughputDropDetector::HoldSeconds(const RunState& run, double ratio) const {
  const double own = OwnSeconds();
  if (own <= 0 || own_seconds_learnt_ <= 0 || ratio <= 0) return 0;
  if (own / own_seconds_learnt_ - 1 >= kOwnShare * (1 / ratio - 1)) return 0;
  const bool is_one_far =
      std::any_of(own_seconds_.begin(), own_seconds_.end(), [&](float seconds) { return seconds >= kOwnFar * own; });
  const double round = std::max({1.0, run.pace().beat_seconds, run.pace().StepSeconds()});
  return (is_one_far ? kStragglerRounds : kNoneFarRounds) * round;
}

bool ThroughputDropDetector::IsLow(Rate* rate, double now_rate, double now) {
  rate->recent.Add(now_rate);
  ++rate->blocks;
  const auto blocks = static_cast<int64_t>(rate->baseline.size());
  if (blocks < kFewBlocks) {
    rate->Learn(now_rate, static_cast<size_t>(settings_.baseline_blocks));
    return false;
  }
  // The variation of a few blocks is uncertain.
  const bool are_few = blocks < settings_.baseline_blocks_min;
  const double spread = (are_few ? 2 : 1) * kThroughputDeviations * rate->deviation;
  const double drop_ratio = std::min(settings_.drop_ratio, are_few ? kFewRatio : 1);
  const double limit = std::max(kLimitMin, 1 - std::max(1 - drop_ratio, spread));
  const bool is_low = now_rate < limit * rate->level;
  if (!is_low && !is_low_) rate->low_over += rate->low;
  rate->low = is_low ? rate->low + 1 : 0;
  if (rate->low == 1) rate->low_at = block_.at;
  if (rate->low == 0) rate->Learn(now_rate, static_cast<size_t>(settings_.baseline_blocks));
  const double far_limit = std::max(kLimitMin, 1 - std::max(1 - kVeryLow, 1.5 * spread));
  const bool are_far =
      rate->low > 1 && std::max(rate->recent.Newest(0), rate->recent.Newest(1)) < far_limit * rate->level;
  return IsLowForLong(*rate, limit * rate->level, kLowBlocks - (are_far ? 1 : 0), now) || rate->gross.IsLow();
}

// Pace of the last steps of the block, relative to that of all its steps.
double ThroughputDropDetector::TailPace() const {
  const double seconds = block_.last_at - block_.tail_at;
  return seconds > 0 ? static_cast<double>(block_.last_step - block_.tail_step) / seconds / block_.rate : 1;
}

// If beats report several steps, the hiccup that another block leaves out may lie in two of them.
bool ThroughputDropDetector::IsLowForLong(const Rate& rate, double limit, int64_t blocks_min, double now) const {
  const int64_t low_min = std::max(blocks_min, InARowBeyondChance(rate.low_over, rate.blocks));
  if (rate.low < low_min + (block_.is_coarse ? kHiccupBlocks : 0)) return false;
  if (now - rate.low_at < kLowBlockSeconds * static_cast<double>(blocks_min)) return false;
  // A drop that has just ended is not raised.
  return block_.is_coarse || rate.recent.Newest(0) * TailPace() < limit;
}

void ThroughputDropDetector::AddGross(Rate* rate, double work_per_step, double now) {
  rate->gross.Add({block_.step, work_per_step * static_cast<double>(step_ - block_.step), now - block_.at});
}

// Tokens measure the work: a step with twice as many may take twice as long. If they do not determine the time of a
// step, as with padding, steps are used.
bool ThroughputDropDetector::WatchTokens(double rate, double now) {
  const double tokens = block_.tokens / static_cast<double>(block_.token_samples);
  AddGross(&tokens_, tokens, now);
  tokens_are_low_ = IsLow(&tokens_, rate * tokens, now);
  const bool are_noise = tokens_.Noise() > kNoisyTokens && tokens_.Noise() > 3 * steps_.Noise();
  return tokens_.blocks + kTokenBlocksMissing >= steps_.blocks && !are_noise;
}

void ThroughputDropDetector::Close(const RunState& run, double steps, double seconds, double now, Findings* findings) {
  if (++blocks_ <= kWarmUpBlocks) return;
  if (first_block_at_ < 0) first_block_at_ = now;
  const bool is_learnt = now - first_block_at_ >= kLearnSeconds &&
                         static_cast<int64_t>(steps_.baseline.size()) >= settings_.baseline_blocks_min;
  for (Rate* rate : {&steps_, &tokens_}) {
    rate->is_frozen = is_learnt;
    if (is_learnt) rate->gross.Freeze();
  }
  const double rate = block_.rate = steps / seconds;
  AddGross(&steps_, 1, now);
  const bool steps_are_low = IsLow(&steps_, rate, now);
  const bool by_tokens = block_.token_samples > 0 && !token_count_.is_count() && WatchTokens(rate, now);
  const bool is_low = by_tokens ? tokens_are_low_ : steps_are_low;
  const Rate& measure = by_tokens ? tokens_ : steps_;
  if (measure.low == 0 && !is_low_) {
    low_since_ = step_;
    if (const double own = OwnSeconds(); own > 0)
      own_seconds_learnt_ =
          own_seconds_learnt_ == 0 ? own : own_seconds_learnt_ + kOwnFollow * (own - own_seconds_learnt_);
  }
  if (!is_low_ && is_low) return Raise(run, measure, by_tokens, findings);
  if (!is_low_) return;
  const bool is_back = measure.recent.Newest(0) >= std::min(kRecovered, 1 - measure.deviation) * measure.level &&
                       !(is_by_waits_ && measure.gross.IsLow());
  calm_ = is_back ? calm_ + 1 : 0;
  if (calm_ < kCalmBlocks) return;
  is_low_ = false;
  for (Rate* calm : {&steps_, &tokens_}) {
    calm->recent.Clear();
    calm->gross.Forget();
  }
  findings->Clear(IncidentKind::kThroughputDrop);
}

void ThroughputDropDetector::Raise(const RunState& run, const Rate& rate, bool by_tokens, Findings* findings) {
  is_low_ = true;
  calm_ = 0;
  const bool by_waits = is_by_waits_ = rate.gross.IsLow() && rate.low == 0;
  const double now_rate =
      by_waits ? rate.gross.Rate() : MedianOf(rate.recent.Last(static_cast<size_t>(std::max<int64_t>(1, rate.low))));
  const double usual = by_waits ? rate.gross.RateLearnt() : rate.level;
  const int64_t since = by_waits ? rate.gross.SinceStep() : low_since_;
  Finding finding;
  finding.kind = IncidentKind::kThroughputDrop;
  finding.since_step = since >= 0 ? std::optional<int64_t>(since) : std::nullopt;
  finding.hold_seconds = HoldSeconds(run, now_rate / usual);
  const char* work = are_samples_ ? "samples_per_second" : "tokens_per_second";
  finding.evidence.SetText("measure", by_tokens ? work : "steps_per_second");
  finding.evidence.Set("rate", now_rate);
  finding.evidence.Set("rate_baseline", usual);
  finding.evidence.Set("ratio", now_rate / usual);
  finding.evidence.Set("deviation", rate.deviation);
  findings->Raise(std::move(finding));
}

void TokenCount::Add(int64_t rank, int64_t step, double tokens, double now) {
  if (rank_ < 0) rank_ = rank;
  if (rank != rank_ || step <= step_ || tokens == tokens_) return;
  const double seconds = (now - at_) / static_cast<double>(step - step_);
  if (at_ > 0) step_seconds_ += (step_seconds_ > 0 ? kTimeSmoothing : 1) * (seconds - step_seconds_);
  rising_ = tokens > tokens_ ? rising_ + 1 : 0;
  step_ = step;
  at_ = now;
  tokens_ = tokens;
  if (rising_ > kRisingMin && tokens < kGrown * tokens_before_) return;
  if (rising_ > kRisingMin && step_seconds_before_ > 0)
    is_count_ = step_seconds_ < std::pow(tokens / tokens_before_, kTimeOfTokens) * step_seconds_before_;
  tokens_before_ = tokens;
  step_seconds_before_ = step_seconds_;
}

}  // namespace stepwatch::operations
