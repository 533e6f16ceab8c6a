// Time that measuring costs the trainer's threads, by kinds of sites, and the duration of their steps.
//
// Measured is the time inside the calls of a Recorder that read tensors or queue their reading, and the end of a
// collected step; the drain adds the device time. A framework's cost of calling a hook is not included. Two clock reads
// around a call that reads a tensor, one at the end of a step.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "stepwatch/site_kind.h"

namespace stepwatch::step {

// Positions of a cost account: one for each SiteKind, and one for the ends of collected steps.
inline constexpr size_t kBoundaryCost = kSiteKindCount;
inline constexpr size_t kCostCount = kSiteKindCount + 1;

// Cost of consecutive steps under one plan, the last of them collected.
struct StepCost {
  std::array<uint64_t, kCostCount> ns{};
  int64_t collected = 0;    // number of collected steps
  int64_t steps = 0;        // collected or not
  uint64_t elapsed_ns = 0;  // total duration, measuring included
  uint64_t longest_ns = 0;  // duration of the longest step

  uint64_t total_ns() const {
    uint64_t total = 0;
    for (const uint64_t each : ns) total += each;
    return total;
  }
  void Add(const StepCost& other) {
    for (size_t i = 0; i < ns.size(); ++i) ns[i] += other.ns[i];
    collected += other.collected;
    steps += other.steps;
    elapsed_ns += other.elapsed_ns;
    longest_ns = std::max(longest_ns, other.longest_ns);
  }
};

// Counted by all threads of the trainer, for one plan.
class CostCounters {
 public:
  void Add(size_t place, std::chrono::steady_clock::duration time) noexcept {
    ns_[place].fetch_add(static_cast<uint64_t>(std::chrono::nanoseconds(time).count()), std::memory_order_relaxed);
  }
  std::array<uint64_t, kCostCount> Read() const noexcept {
    std::array<uint64_t, kCostCount> read;
    for (size_t i = 0; i < read.size(); ++i) read[i] = ns_[i].load(std::memory_order_relaxed);
    return read;
  }
  double seconds() const noexcept {
    uint64_t total = 0;
    for (const uint64_t each : Read()) total += each;
    return static_cast<double>(total) * 1e-9;
  }

 private:
  std::array<std::atomic<uint64_t>, kCostCount> ns_{};
};

// Step thread: measures the duration of steps while a plan is in force, and the cost counted in them.
class CostMeter {
 public:
  using Clock = std::chrono::steady_clock;

  // A plan is in force from now on. `continues`: another one was in force until now.
  void BeginPlan(bool continues) noexcept {
    counted_ = {};
    if (continues) return;
    since_frame_ = {};
    step_began_ = Clock::now();
  }
  // Ends a step of the plan and returns the time.
  Clock::time_point EndStep() noexcept {
    const Clock::time_point now = Clock::now();
    const auto took = static_cast<uint64_t>(std::chrono::nanoseconds(now - step_began_).count());
    step_began_ = now;
    ++since_frame_.steps;
    since_frame_.elapsed_ns += took;
    since_frame_.longest_ns = std::max(since_frame_.longest_ns, took);
    return now;
  }
  // That step was collected. Returns the cost that no frame has carried yet.
  StepCost EndFrame(const CostCounters& counters) noexcept {
    ++since_frame_.collected;
    StepCost cost = since_frame_;
    const auto counted = counters.Read();
    for (size_t i = 0; i < cost.ns.size(); ++i) cost.ns[i] = counted[i] - counted_[i];
    return cost;
  }
  // The cost was passed on with a frame.
  void Hand(const StepCost& cost) noexcept {
    for (size_t i = 0; i < cost.ns.size(); ++i) counted_[i] += cost.ns[i];
    since_frame_ = {};
  }

 private:
  StepCost since_frame_;                        // without ns
  std::array<uint64_t, kCostCount> counted_{};  // of the plan, passed on with frames
  Clock::time_point step_began_;
};

}  // namespace stepwatch::step
