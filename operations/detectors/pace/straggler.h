// straggler: a rank takes longer for its own part of a step than its peers do, and than before.
#pragma once

#include <map>

#include "operations/detectors/detector.h"

namespace stepwatch::operations {

class StragglerDetector : public Detector {
 public:
  explicit StragglerDetector(const PaceSettings& settings) : settings_(settings) {}

  void OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  void OnRestart() override;
  void Apply(const Settings& settings) override { settings_ = settings.pace; }

 private:
  struct RankPace {
    double seconds = 0;  // in this round
    int64_t steps = 0;
    std::vector<int64_t> sampled;  // the first of these steps
    double mean = 0;               // of the last round
    int64_t rounds = 0;
    SampleWindow ratios{48};       // to the peers; the newest
    SampleWindow ratio_steps{48};  // of the run, in these rounds
    std::vector<double> first;     // the first ones, from which `usual` is computed
    double usual = 0;
    double first_deviation = 0;
    double last_ratio = 0;
    SampleWindow changes{32};  // change of the ratio from round to round: its variation at any level
    double noise = 0;          // their deviation
    int64_t slow = 0;          // consecutive rounds, of which one in eight may be normal; twice as slow counts twice
    int64_t calm = 0;
    int64_t good_step = -1;
    int64_t calm_rounds = 0;  // required number
    int64_t cleared_round = -1;
    bool is_raised = false;
    std::string group;  // of ranks that became slow together
  };

  double FromStart() const;
  double ExpectedOf(const RunState& run, const RankPace& pace, double peers) const;
  void NoteStep(int64_t step, double seconds);
  void CloseRound(const RunState& run, double now, Findings* findings);
  void TakeRatio(double ratio, int64_t step, RankPace* pace) const;
  void Judge(const RunState& run, double ratio, RankPace* pace) const;
  bool IsSlow(const RankPace& pace) const;
  int64_t GoodStep(const RankPace& pace) const;
  void LearnUsual(double ratio, RankPace* pace) const;
  void SplitFirst(RankPace* pace) const;
  double ErrorOfMiddle(const RankPace& pace, size_t rounds) const;
  bool IsMiddleSlow(const RankPace& pace, size_t rounds) const;
  double NoiseOf(const RankPace& pace) const;
  void LearnNoise();
  void BeginIncident(RankPace* pace) const;
  void Report(const RunState& run, double now, double median, Findings* findings);

  PaceSettings settings_;
  std::map<int64_t, std::vector<float>> steps_;  // the newest: times of the ranks, as far as reported
  double noise_ = 0;                             // of the middle rank
  std::map<int64_t, RankPace> ranks_;
  std::map<std::string, std::vector<int64_t>> groups_;
  std::string group_;  // the newest
  double group_at_ = 0;
  double round_at_ = 0;
  bool is_begun_ = false;
  int64_t first_step_ = -1;  // before the first with reported times
};

}  // namespace stepwatch::operations
