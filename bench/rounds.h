// Timing of actions for comparison.
//
// Each action is timed once a round, in turn, so that a temporary slowdown of the machine affects all of them. A short
// action is repeated within its turn until the clock can measure it. Results are medians over the rounds with
// quartiles; ratios are computed within each round first.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace stepwatch::bench {

struct Spread {
  double median = 0;
  double low = 0;  // quartiles
  double high = 0;
};
Spread SpreadOf(std::vector<double> values);
// Returns the same spread in other units.
Spread Scaled(const Spread& spread, double factor);

enum class Clock {
  kThreadCpu,  // of the calling thread: waiting for a processor does not count
  kWall,       // for work of several threads
};
double Seconds(Clock clock);

class Rounds {
 public:
  explicit Rounds(Clock clock) : clock_(clock) {}

  // Returns the handle for the results below. `calls`: repeats of the action per turn; 0: as many as take 3 ms.
  size_t Add(std::function<void()> action, int calls = 0);
  // Runs one warm-up round, then `rounds` rounds, each starting with another action.
  void Run(int rounds);

  Spread SecondsOf(size_t action) const;  // of one call
  Spread Ratio(size_t over, size_t under) const;
  // Uses the shortest times: a ratio for a machine with other load.
  double RatioOfBest(size_t over, size_t under) const;

 private:
  struct Action {
    std::function<void()> call;
    int calls;
    std::vector<double> seconds;
  };
  double Time(const Action& action) const;

  Clock clock_;
  std::vector<Action> actions_;
};

// Forces the computation of a result that is not used.
template <class T>
void Keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

}  // namespace stepwatch::bench
