// Totals of a run: over ranks, restarts and repeated steps.

#include "operations/runs/run_totals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

RunSnapshot After(const Script& script, double later = 0) {
  Observer observer;
  for (const Line& line : script.lines) (void)observer.Observe(line);
  (void)observer.AdvanceTo(script.lines.back().t + later);
  return observer.Run("run").value();
}

Script WithWork() {
  Script script;
  script.change = [](int64_t, int64_t rank, Beat* beat) {
    beat->tokens = 100;
    beat->samples = 2;
    beat->reported = {{"flops", 1e12}, {"peak_flops", 4e12}, {"data_seconds", rank == 0 ? 0.1 : 0.3}, {"other", 1}};
  };
  return script;
}

TEST_CASE("tokens, samples and FLOPs are added over all ranks, once a step") {
  Script script = WithWork();
  script.Train(20);
  // A later value of the same step comes in a beat of its own, which repeats the others.
  Beat again = StepBeat(20);
  again.tokens = 100;
  again.reported = {{"flops", 1e12}};
  script.lines.push_back(BeatLine(script.t + 0.1, 0, again));
  const RunNumbers numbers = After(script).numbers;
  CHECK(numbers.tokens == 20 * 4 * 100);
  CHECK(numbers.samples == 20 * 4 * 2);
  CHECK(numbers.flops == 20 * 4 * 1e12);
}

TEST_CASE("parts of a step that a device measures come after the step's end, and count") {
  Script script = WithWork();
  script.Train(20);
  Beat late = StepBeat(18);
  late.reported = {{"forward_seconds", 0.25}, {"flops", 1e12}};
  script.lines.push_back(BeatLine(script.t + 0.1, 0, late));
  const RunNumbers numbers = After(script).numbers;
  CHECK(numbers.flops == 20 * 4 * 1e12);
  CHECK(std::count(numbers.parts.begin(), numbers.parts.end(),
                   std::pair<WorkNumber, double>(WorkNumber::kForwardSeconds, 0.25)) == 1);
}

TEST_CASE("steps between two beats count as much as the reported one") {
  Script script;
  for (int64_t step = 10; step <= 50; step += 10) {
    Beat beat = StepBeat(step);
    beat.tokens = 7;
    script.lines.push_back(BeatLine(static_cast<double>(step), 0, beat));
  }
  CHECK(After(script).numbers.tokens == 7 * (1 + 40));
}

TEST_CASE("totals go on over a restart, which is counted") {
  Script script = WithWork();
  script.Train(20).Event(RestartEvent{4, "host"});
  script.step = 10;
  script.Train(20);
  const RunNumbers numbers = After(script).numbers;
  CHECK(numbers.tokens == 40 * 4 * 100);
  CHECK(numbers.restarts == 1);
}

TEST_CASE("numbers that cannot be are not added, and those never reported are absent") {
  Script script;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    beat->samples = step % 2 == 0 ? std::nan("") : -1;
    beat->reported = {{"flops", std::numeric_limits<double>::infinity()}};
  };
  script.Train(20);
  const RunSnapshot run = After(script);
  CHECK_FALSE(run.numbers.tokens);
  CHECK_FALSE(run.numbers.samples);
  CHECK_FALSE(run.numbers.flops);
  CHECK_FALSE(run.numbers.mfu);
  CHECK_FALSE(run.numbers.peak_flops);
  CHECK(run.numbers.parts.empty());
  CHECK(run.ranks.front().work.empty());
}

TEST_CASE("a step with a loss or a gradient that is not finite counts once, whatever the number of ranks") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (step >= 30 && step < 33) beat->loss = std::nan("");
    if (step == 40 && rank == 2) beat->grad_norm = -1;  // InternEvo's overflow
  };
  script.Train(60);
  CHECK(After(script).numbers.nonfinite_steps == 4);
}

TEST_CASE("the durations of whole steps are in their buckets, and the longest are the 99th percentile") {
  Script script;
  script.Train(100).Train(4, 5);
  const RunNumbers numbers = After(script).numbers;
  int64_t all = 0;
  for (const int64_t steps : numbers.steps) all += steps;
  CHECK(all == 102);  // the second step has no step before it, and the first one none at all
  CHECK(numbers.steps[5] + numbers.steps[6] == 98);
  CHECK(numbers.steps[8] == 4);
  CHECK(std::abs(numbers.steps_seconds - (98 * 0.5 + 4 * 2.5)) < 0.1);
  REQUIRE(numbers.step_seconds_p99);
  CHECK(std::abs(*numbers.step_seconds_p99 - 2.5) < 0.1);
}

TEST_CASE("goodput counts training, and neither standstills, pauses, nor steps that are made again") {
  Script all_trained;
  all_trained.Train(200);
  CHECK(After(all_trained).numbers.goodput > 0.98);
  // As long again without a step.
  CHECK(std::abs(After(all_trained, 100).numbers.goodput.value() - 0.5) < 0.02);

  Script standstill;
  standstill.Train(200);
  standstill.t += 100;
  standstill.Train(200);
  CHECK(std::abs(After(standstill).numbers.goodput.value() - 2.0 / 3) < 0.02);

  Script again;
  again.Train(200).Event(RestartEvent{4, "host"});
  again.step = 100;
  again.Train(200);
  CHECK(std::abs(After(again).numbers.goodput.value() - 3.0 / 4) < 0.02);
}

TEST_CASE("the goodput of a run that has ended stays") {
  Script script;
  script.Train(200).Event(EndEvent{EndReason::kOk});
  const RunSnapshot run = After(script, 1000);
  CHECK(run.numbers.goodput > 0.98);
  CHECK(run.ended_t == script.lines.back().t);
}

TEST_CASE("MFU is the share of the peak of all ranks in a typical step, and parts are averages") {
  Script script = WithWork();
  script.Train(100);
  const RunSnapshot run = After(script);
  CHECK(run.numbers.peak_flops == 4 * 4e12);
  REQUIRE(run.numbers.mfu);
  CHECK(std::abs(*run.numbers.mfu - 0.5) < 0.01);  // a quarter of the FLOPs in half a second
  REQUIRE(run.numbers.parts.size() == 1);
  CHECK(run.numbers.parts[0].first == WorkNumber::kDataSeconds);
  CHECK(std::abs(run.numbers.parts[0].second - 0.25) < 1e-9);
  CHECK(After(script, 700).numbers.parts.empty());
}

TEST_CASE("the peak of the settings replaces that of a beat with FLOPs, and of no other") {
  Beat beat = StepBeat(1);
  SetPeak(4e12, &beat);
  CHECK(beat.reported.empty());
  beat.reported = {{"flops", 1e12}};
  SetPeak(0, &beat);
  CHECK(beat.reported.size() == 1);
  SetPeak(4e12, &beat);
  SetPeak(8e12, &beat);
  CHECK(beat.reported == std::vector<std::pair<std::string, double>>{{"flops", 1e12}, {"peak_flops", 8e12}});
}

TEST_CASE("after learning, counters begin at zero, and go on from the last step") {
  Script script = WithWork();
  script.Train(20);
  const size_t learnt = script.lines.size();
  script.step += 10;  // not watched
  script.Train(1);
  Observer observer;
  for (size_t i = 0; i < learnt; ++i) observer.Learn(script.lines[i]);
  observer.EndLearning();
  CHECK(observer.Run("run")->numbers.tokens == 0);
  for (size_t i = learnt; i < script.lines.size(); ++i) (void)observer.Observe(script.lines[i]);
  CHECK(observer.Run("run")->numbers.tokens == 11 * 4 * 100);
}

TEST_CASE("runs of late are those that have not ended long ago, and have sent something") {
  Script script;
  script.Train(20).Event(EndEvent{EndReason::kOk});
  Observer observer;
  for (const Line& line : script.lines) (void)observer.Observe(line);
  CHECK(observer.RunsOfLate(600, 86400).size() == 1);
  (void)observer.AdvanceTo(script.t + 601);
  CHECK(observer.RunsOfLate(600, 86400).empty());

  Script silent;
  silent.Train(20);
  Observer other;
  for (const Line& line : silent.lines) (void)other.Observe(line);
  (void)other.AdvanceTo(silent.t + 601);
  CHECK(other.RunsOfLate(600, 86400).size() == 1);
  (void)other.AdvanceTo(silent.t + 90000);
  CHECK(other.RunsOfLate(600, 86400).empty());
}

TEST_CASE("the keys of reported numbers are those of the front ends") {
  CHECK(KeyOf(WorkNumber::kFlops) == "flops");
  CHECK(KeyOf(WorkNumber::kCommunicationSeconds) == "communication_seconds");
  CHECK(KeyOf(WorkNumber::kCheckpointBytes) == "checkpoint_bytes");
}

}  // namespace
}  // namespace stepwatch::operations
