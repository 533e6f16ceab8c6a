// Totals of a run over its ranks and restarts, and the numbers that its ranks report about their own work: FLOPs, parts
// of a step, the allocator of the device. Pure. Times are virtual seconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/runs/rank_state.h"
#include "operations/runs/sample_window.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

// Reported numbers with a meaning. Their keys in beats are in run_totals.cc, in this order.
enum class WorkNumber : uint8_t {
  kFlops,
  kPeakFlops,
  kDataSeconds,
  kComputeSeconds,
  kOptimizerSeconds,
  kCheckpointSeconds,
  kForwardSeconds,
  kBackwardSeconds,
  kCommunicationSeconds,
  kCudaAllocatedBytes,
  kCudaReservedBytes,
  kCudaAllocRetries,
  kCudaOoms,
  kCheckpointBytes,
};
inline constexpr size_t kWorkNumbers = 14;

// The key in a beat.
std::string_view KeyOf(WorkNumber number);

// True if it is the key of one of them.
bool IsWorkNumber(std::string_view key);

// A beat with FLOPs gets this peak instead of its own; 0: it keeps its own.
void SetPeak(double peak_flops, Beat* beat);

using WorkValues = std::vector<std::pair<WorkNumber, double>>;

// Upper bounds of the durations of a step, in seconds.
inline constexpr std::array<double, 15> kStepBounds = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,  2,
                                                       5,    10,   20,   50,  100, 200, 500};

// Values for display. A number that was never reported is absent.
struct RunNumbers {
  std::optional<double> tokens, samples, flops;
  int64_t nonfinite_steps = 0;
  int64_t restarts = 0;
  std::array<int64_t, kStepBounds.size() + 1> steps{};  // by duration, the last without a bound
  double steps_seconds = 0;
  std::optional<double> step_seconds_p99;
  std::optional<double> goodput;  // share of the time since the first line
  // Sums over the ranks that report them.
  std::optional<double> peak_flops, checkpoint_bytes;
  std::optional<double> mfu;
  WorkValues parts;  // seconds of a step, averages over the ranks that report them
};

class RunTotals {
 public:
  // The run went from one finished step to a later one.
  struct Advance {
    int64_t from = 0;
    int64_t to = 0;
    double seconds = 0;          // since the last progress
    double typical_seconds = 0;  // a step; 0: not known
    bool is_whole = false;       // `seconds` is the time of these steps alone
  };

  RunTotals() : recent_(256) {}

  void TakeBeat(const Beat& beat, const BeatFacts& facts);
  void TakeAdvance(const Advance& advance);
  // The ranks begin again; the totals stay.
  void Restart();
  // Counters begin at 0 again: what was counted is known to an earlier process. Shares and reported numbers stay.
  void ResetCounters();

  // `step_seconds`: the typical ones, 0: not known; `seconds`: since the first line.
  RunNumbers Numbers(double now, double seconds, double step_seconds) const;
  // Counted so far.
  struct Work {
    std::optional<double> tokens, samples, flops;
  };
  Work work() const { return {numbers_.tokens, numbers_.samples, numbers_.flops}; }
  // The reported numbers of a rank.
  WorkValues Of(int64_t rank) const;

 private:
  struct Reported {
    WorkNumber number = WorkNumber::kFlops;
    double value = 0;
    double at = 0;
  };
  struct RankWork {
    std::array<int64_t, 3> counted{-1, -1, -1};  // the last step of tokens, samples, FLOPs in the totals
    std::vector<Reported> reported;
  };

  static void Count(double value, int64_t step, int64_t* counted, std::optional<double>* total);
  void Report(WorkNumber number, double value, const BeatFacts& facts, RankWork* work);

  std::map<int64_t, RankWork> ranks_;
  RunNumbers numbers_;  // the counters among them
  SampleWindow recent_;
  double productive_seconds_ = 0;
  int64_t step_furthest_ = -1;   // over all restarts
  int64_t step_nonfinite_ = -1;  // the last one counted
};

}  // namespace stepwatch::operations
