// Timing of things that are to be compared.
//
// Each is timed once a round, in turn, so that whatever slows the machine down for a while slows down all of them. What
// is short is repeated within its turn until the clock can see it. Results are medians over the rounds with quartiles;
// a ratio is taken within each round first.
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
// The same in other units.
Spread Scaled(const Spread& spread, double factor);

enum class Clock {
  kThreadCpu,  // of the calling thread: waiting for a processor does not count
  kWall,       // for work of several threads
};
double Seconds(Clock clock);

class Rounds {
 public:
  explicit Rounds(Clock clock) : clock_(clock) {}

  // The handle for what is asked below. `calls`: how often one turn repeats the action; 0: as often as fills 3 ms.
  size_t Add(std::function<void()> action, int calls = 0);
  // One round that does not count, then `rounds` that do, each beginning with another of the actions.
  void Run(int rounds);

  Spread SecondsOf(size_t action) const;  // of one call
  Spread Ratio(size_t over, size_t under) const;
  // Of the shortest times: what is left of a ratio on a machine that others use as well.
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

// The result of a computation that nobody looks at must still be computed.
template <class T>
void Keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

}  // namespace stepwatch::bench
