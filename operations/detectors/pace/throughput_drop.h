// throughput_drop: the run trains more slowly than before, suddenly or gradually.
#pragma once

#include <vector>

#include "operations/detectors/detector.h"
#include "operations/detectors/pace/gross_pace.h"

namespace stepwatch::operations {

// Decides whether reported tokens are those of a step or a running count. A count rises all the time without making
// steps slower; a step with more tokens is slower.
class TokenCount {
 public:
  void Add(int64_t rank, int64_t step, double tokens, double now);
  bool is_count() const { return is_count_; }

 private:
  int64_t rank_ = -1;  // the rank whose tokens are used
  int64_t step_ = 0;   // of the last sample
  double at_ = 0;
  double tokens_ = 0;
  int64_t rising_ = 0;       // samples in a row
  double step_seconds_ = 0;  // smoothed
  double tokens_before_ = 0;
  double step_seconds_before_ = 0;  // when there were this many
  bool is_count_ = false;
};

class ThroughputDropDetector : public Detector {
 public:
  explicit ThroughputDropDetector(const PaceSettings& settings) : settings_(settings) {}

  void OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) override;
  void OnRestart() override;
  void Apply(const Settings& settings) override { settings_ = settings.pace; }

 private:
  // Work per second. The baseline is learnt, then frozen, and only rises.
  struct Rate {
    std::vector<double> baseline;
    int64_t blocks = 0;
    SampleWindow recent{12};
    double level = 0;      // middle of the baseline
    double deviation = 0;  // of its blocks, as a part of the level
    int64_t low = 0;       // blocks in a row below the limit
    double low_at = 0;     // when the first of them began
    int64_t low_over = 0;  // low blocks of a sequence that ended before it was raised
    bool is_frozen = false;
    GrossPace gross;
    void Learn(double rate, size_t blocks_max);
    double Noise() const;
  };
  struct Block {
    int64_t step = 0;
    double at = 0;
    int64_t last_step = 0;
    double last_at = 0;
    // Before the last two beats with a step.
    int64_t tail_step = 0, second_step = 0;
    double tail_at = 0, second_at = 0;
    double rate = 0;     // steps per second, once it is closed
    double longest = 0;  // wait for a step, or for several that came at once
    int64_t longest_steps = 1;
    bool is_coarse = false;  // a beat reports several steps, but not the moment at which the last ended
    double tokens = 0;
    int64_t token_samples = 0;
  };

  void TakeTokens(const BeatFacts& beat);
  void Begin(int64_t step, double now);
  void Close(const RunState& run, double steps, double seconds, double now, Findings* findings);
  bool WatchTokens(double rate, double now);
  void AddGross(Rate* rate, double work_per_step, double now);
  bool IsLow(Rate* rate, double now_rate, double now);
  bool IsLowForLong(const Rate& rate, double limit, int64_t blocks_min, double now) const;
  double TailPace() const;
  void Raise(const RunState& run, const Rate& rate, bool by_tokens, Findings* findings);
  void TakeAdvance(int64_t steps);
  void TakeOwnTime(const BeatFacts& beat);
  double OwnSeconds() const;
  double HoldSeconds(const RunState& run, double ratio) const;

  PaceSettings settings_;
  Block block_;
  bool is_begun_ = false;
  double first_at_ = -1;
  bool are_whole_seconds_ = true;  // resolution of the observer's times
  int64_t blocks_ = 0;
  Rate steps_;
  Rate tokens_;
  double first_block_at_ = -1;
  TokenCount token_count_;
  int64_t advance_ = 0;  // steps between the last two beats with a step
  int64_t same_advances_ = 0;
  int64_t step_ = -1;
  int64_t low_since_ = -1;
  std::vector<float> own_seconds_;  // of the ranks that report their own step time, smoothed; 0: not reported
  double own_seconds_learnt_ = 0;   // the middle of them, while the pace is as usual
  bool are_samples_ = false;        // tokens are not reported: `tokens` counts samples
  bool tokens_are_low_ = false;
  bool is_low_ = false;
  bool is_by_waits_ = false;
  int64_t calm_ = 0;
};

}  // namespace stepwatch::operations
