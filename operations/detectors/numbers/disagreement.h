// rank_disagreement: ranks that reported the same number no longer do, or the number of one rank leaves those of its
// peers.
#pragma once

#include <map>
#include <string>

#include "operations/detectors/detector.h"
#include "operations/detectors/numbers/step_rows.h"

namespace stepwatch::operations {

class DisagreementDetector : public Detector {
 public:
  DisagreementDetector();

  void OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  void OnRestart() override;

 private:
  struct Number {
    std::string name;
    bool is_setting = false;   // lr, loss_scale: never different between ranks
    bool is_reported = false;  // an unknown name: only a number that is the same on all ranks can be judged
    bool is_digest = false;  // its name is that of a digest of state that is the same on all ranks: it may be constant
    StepRows rows;
    int64_t equal_rows = 0;
    int64_t judged_rows = 0;
    int64_t changed_rows = 0;      // in which all agreed on another value than before
    int64_t stray_rows = 0;        // in which they did not agree, but did again afterwards
    int64_t strays = 0;            // likewise, since they last agreed
    double most_agreed = 0;        // the last value on which most agreed, to the last digit
    std::vector<int64_t> outside;  // ranks that did not agree on it
    int64_t outside_rows = 0;      // number of consecutive rows with these ranks
    bool is_outside = false;       // that is the raised fault
    int64_t agreed_step = -1;
    SampleWindow spread{64};   // of rows: the distance of the farthest rank from the middle, as a ratio
    double spread_first = 0;   // of the first rows, the largest
    std::vector<int64_t> odd;  // ranks in the last rows
    int64_t odd_rows = 0;
    int64_t calm_rows = 0;
    double agreed = 0;  // the last value on which all agreed
    int64_t good_step = -1;
    bool is_raised = false;
  };

  void Add(Number* number, const BeatFacts& beat, const std::optional<Sample>& sample, Findings* findings);
  void TakeReported(const RunState& run, const BeatFacts& beat, Findings* findings);
  void TakeRows(Number* number, double now, Findings* findings);
  void Take(Number* number, const StepRow& row, Findings* findings);
  void WatchFarthest(Number* number, const StepRow& row, double middle, Findings* findings);
  bool WatchOutsiders(Number* number, const StepRow& row, double middle, Findings* findings);
  void Count(Number* number, const StepRow& row, std::vector<int64_t> odd, int64_t rows_min, Findings* findings);

  std::vector<Number> numbers_;
  std::map<std::string, Number, std::less<>> reported_;
  double patience_ = 1;
};

}  // namespace stepwatch::operations
