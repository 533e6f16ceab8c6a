// The governor over simulated jobs: it stays within the budget, gets there soon, and does not swing.
#include "controller/budget/sampling_governor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "tests/catch.h"
#include "tests/random_seed.h"
#include "tests/rounds.h"

namespace stepwatch::budget {
namespace {

constexpr SiteKind kActv = SiteKind::kActv, kGrad = SiteKind::kGradReduced, kMoment = SiteKind::kExpAvg;

// Seconds as a function of the step.
using Trace = std::function<double(int64_t)>;

Trace Always(double seconds) {
  return [seconds](int64_t) { return seconds; };
}

// A job of one process: steps last, collected ones cost on top, and what is decided holds from the step after.
class SimulatedJob {
 public:
  struct Change {
    int64_t step = 0;
    int64_t collected = 0;
    bool lowers = false;
    plan::Sampling sampling;
  };

  SimulatedJob(double percent, Trace step, std::map<SiteKind, Trace> costs, SamplingGovernor::Limits limits = {})
      : step_(std::move(step)), costs_(std::move(costs)), limits_(limits), governor_([&] {
          limits_.percent = percent;
          return limits_;
        }()) {}

  void Train(int64_t steps) {
    for (const int64_t end = number_ + steps; number_ < end; ++number_) Step();
  }
  void TrainCollected(int64_t collected) {
    for (const int64_t end = collected_ + collected; collected_ < end; ++number_) Step();
  }
  // The overhead of the steps since the last call, in per cent of their time without it.
  double TakeSpent() {
    const double percent = 100 * spent_ / trained_;
    spent_ = trained_ = 0;
    return percent;
  }

  double one_time = 20;  // times the cost of the first collected step of a plan
  std::vector<Change> changes;
  plan::Sampling sampling;

  const SamplingGovernor& governor() const { return governor_; }
  int64_t collected() const { return collected_; }
  int64_t step() const { return number_; }
  void SetCost(SiteKind kind, Trace trace) { costs_[kind] = std::move(trace); }
  void SetStep(Trace trace) { step_ = std::move(trace); }

 private:
  static uint64_t Ns(double seconds) { return static_cast<uint64_t>(std::llround(seconds * 1e9)); }

  void Step() {
    double took = step_(number_);
    trained_ += took;
    const bool collects = number_ % (limits_.step_interval * sampling.factor) == 0;
    if (collects) {
      for (const auto& [kind, trace] : costs_) {
        if (std::count(sampling.left_out.begin(), sampling.left_out.end(), kind) > 0) continue;
        const double cost = trace(number_) * (is_first_ ? one_time : 1);
        since_.cost.ns[static_cast<size_t>(kind)] += Ns(cost);
        took += cost;
        spent_ += cost;
      }
    }
    ++since_.cost.steps;
    since_.cost.elapsed_ns += Ns(took);
    since_.cost.longest_ns = std::max(since_.cost.longest_ns, Ns(took));
    if (collects) EndFrame();
  }
  void EndFrame() {
    ++collected_;
    since_.cost.collected = 1;
    since_.is_first = std::exchange(is_first_, false);
    governor_.Add(std::exchange(since_, {}), sampling);
    const auto decision = governor_.Decide(sampling);
    if (!decision) return;
    governor_.Follow(*decision, sampling);
    sampling = decision->sampling;
    is_first_ = true;
    changes.push_back({number_, collected_, decision->lowers, sampling});
  }

  Trace step_;
  std::map<SiteKind, Trace> costs_;
  SamplingGovernor::Limits limits_;
  SamplingGovernor governor_;
  SamplingGovernor::Measured since_;
  int64_t number_ = 0;
  int64_t collected_ = 0;
  bool is_first_ = true;
  double spent_ = 0, trained_ = 0;
};

// A raise never comes sooner after the change before it than the shortest hold-down, and what has been raised and
// lowered again waits longer every time: the number of changes grows with the logarithm of the time at most.
void CheckHoldDown(const SimulatedJob& job) {
  for (size_t i = 1; i < job.changes.size(); ++i) {
    const auto& change = job.changes[i];
    INFO("change " << i << " at collected step " << change.collected);
    if (!change.lowers) CHECK(change.collected - job.changes[i - 1].collected >= SamplingGovernor::kHoldDown);
  }
}

// Changes at and after a collected step.
size_t ChangesFrom(const SimulatedJob& job, int64_t collected) {
  return static_cast<size_t>(std::count_if(job.changes.begin(), job.changes.end(),
                                           [&](const auto& change) { return change.collected > collected; }));
}

TEST_CASE("nothing is lowered while measuring is within the budget") {
  SimulatedJob job(1, Always(0.1), {{kGrad, Always(0.0009)}});
  job.Train(500);
  CHECK(job.changes.empty());
  CHECK(job.governor().percent(job.sampling).value() == Approx(0.9));
}

TEST_CASE("the cost of a first collected step decides nothing, and neither does one that stands alone") {
  SimulatedJob job(1, Always(0.1), {{kGrad, [](int64_t step) { return step % 100 == 50 ? 0.1 : 0.0005; }}});
  job.one_time = 1000;
  job.Train(1000);
  CHECK(job.changes.empty());
}

TEST_CASE("a cost that does not change is met by one decision, at the fourth collected step") {
  for (const double cost : {0.0011, 0.002, 0.01, 0.1, 0.7}) {
    for (const int64_t interval : {1, 3}) {
      INFO("cost " << cost << " interval " << interval);
      SimulatedJob job(1, Always(0.1), {{kGrad, Always(cost * static_cast<double>(interval))}},
                       {.step_interval = interval});
      job.TrainCollected(4);
      REQUIRE(job.changes.size() == 1);
      CHECK(job.sampling.factor == std::llround(std::ceil(cost / 0.0009)));
      job.TakeSpent();
      job.one_time = 1;
      job.TrainCollected(300);
      CHECK(job.changes.size() == 1);
      CHECK(job.TakeSpent() <= 1.0);
    }
  }
}

TEST_CASE("a job whose steps vary threefold settles within ten collected steps and stays") {
  const Trace steps[] = {
      [](int64_t step) { return step % 3 == 0 ? 0.3 : 0.1; },
      [](int64_t step) { return step % 3 == 0 ? 0.1 : 0.3; },
      [](int64_t step) { return step % 2 == 0 ? 0.1 : 0.3; },
      [](int64_t step) { return 0.2 + 0.1 * std::sin(static_cast<double>(step) * 0.7); },
      [](int64_t step) { return step / 20 % 2 == 0 ? 0.1 : 0.3; },
  };
  for (size_t i = 0; i < std::size(steps); ++i) {
    for (const double relative : {0.0, 1.0}) {  // a cost of its own, or one that grows with the step
      INFO("trace " << i << " relative " << relative);
      const Trace& step = steps[i];
      SimulatedJob job(1, step, {{kGrad, [&, relative](int64_t n) { return relative > 0 ? 0.08 * step(n) : 0.015; }}});
      job.one_time = 1;
      job.TrainCollected(10);
      job.TakeSpent();
      job.Train(20000);
      CHECK(job.TakeSpent() <= 1.05);
      CheckHoldDown(job);
      CHECK(ChangesFrom(job, 10) <= 4);
    }
  }
}

TEST_CASE("when the job changes tenfold, ten collected steps later the budget holds again") {
  struct Case {
    const char* what;
    double step, cost;  // from then on
  };
  for (const Case& each : {Case{"cost rises", 0.1, 0.05}, Case{"cost falls", 0.1, 0.0005},
                           Case{"steps are shorter", 0.01, 0.005}, Case{"steps are longer", 1, 0.005}}) {
    INFO(each.what);
    SimulatedJob job(1, Always(0.1), {{kGrad, Always(0.005)}});
    job.one_time = 5;
    job.Train(300);
    CHECK(job.changes.size() == 1);
    const int64_t before = job.collected();
    job.SetStep(Always(each.step));
    job.SetCost(kGrad, Always(each.cost));
    job.TrainCollected(10);
    const double needed = each.cost / each.step;
    const auto factor = static_cast<double>(job.sampling.factor);
    CHECK(factor >= std::floor(needed * 100));
    CHECK(factor <= std::max(1.0, std::ceil(needed * 100 / 0.6)));
    job.one_time = 1;
    job.TakeSpent();
    job.TrainCollected(200);
    CHECK(job.TakeSpent() <= 1.0);
    CHECK(ChangesFrom(job, before) <= 5);
    CHECK(ChangesFrom(job, before + 10) == 0);
    CheckHoldDown(job);
  }
}

TEST_CASE("a cost that vanishes gives all steps back") {
  SimulatedJob job(1, Always(0.1), {{kGrad, Always(0.5)}});
  job.Train(5000);
  REQUIRE(job.sampling.factor > 400);
  job.SetCost(kGrad, Always(0.00001));
  job.TrainCollected(10);
  CHECK(job.sampling == plan::Sampling{});
  CheckHoldDown(job);
}

TEST_CASE("what no interval makes cheap enough leaves by kinds, the most expensive first, and comes back") {
  SimulatedJob job(0.01, Always(0.1), {{kActv, Always(0.3)}, {kGrad, Always(0.005)}, {kMoment, Always(0.0001)}});
  job.TrainCollected(8);
  CHECK(job.sampling.left_out == std::vector<SiteKind>{kActv});
  CHECK(job.sampling.factor > 1);
  CHECK(job.sampling.factor <= SamplingGovernor::kFactorMax);
  job.one_time = 1;
  job.TakeSpent();
  job.TrainCollected(100);
  CHECK(job.sampling.left_out == std::vector<SiteKind>{kActv});
  CHECK(job.TakeSpent() <= 0.01);
  job.SetCost(kActv, Always(0.00001));
  job.SetCost(kGrad, Always(0.00001));
  job.SetCost(kMoment, Always(0));
  job.TrainCollected(2000);
  CHECK(job.sampling.left_out.empty());
  CHECK(job.sampling.factor <= 3);
  CheckHoldDown(job);
}

TEST_CASE("one kind stays in any case, at the longest interval, and that the budget does not hold is known") {
  SimulatedJob job(0.001, Always(0.1), {{kActv, Always(3)}, {kGrad, Always(2)}});
  job.TrainCollected(12);
  CHECK(job.sampling == plan::Sampling{SamplingGovernor::kFactorMax, {kActv}});
  CHECK(job.governor().is_exhausted(job.sampling));
}

TEST_CASE("a pause of the job, for a checkpoint perhaps, is no reason to collect more") {
  SimulatedJob job(1, [](int64_t step) { return step % 400 == 399 ? 600.0 : 0.1; }, {{kGrad, Always(0.01)}});
  job.Train(4000);
  CHECK(job.changes.size() == 1);
  CHECK(job.sampling.factor == 12);
}

TEST_CASE("a group that is collected now and then counts as what it costs in the mean") {
  SimulatedJob job(1, Always(0.1), {{kGrad, [](int64_t step) { return step / 1 % 50 == 0 ? 0.5 : 0.0001; }}},
                   {.longest_every = 50});
  job.one_time = 1;
  job.Train(2000);
  job.TakeSpent();
  job.Train(20000);
  CHECK(job.TakeSpent() <= 5);  // the period of the test's cost is that of the job's steps, so the interval meets all
}

TEST_CASE("the budget holds for random jobs, and changes become rare", "[slow]") {
  std::mt19937 random(static_cast<unsigned>(test::RandomSeed()));
  const auto uniform = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
  for (int round = 0; round < testing::Rounds(40); ++round) {
    const double percent = std::exp(uniform(std::log(0.05), std::log(20)));
    const double mean = std::exp(uniform(std::log(1e-3), std::log(1)));
    const double load = std::exp(uniform(std::log(0.1), std::log(200)));  // times the budget, if each step is collected
    const double cost = load * percent / 100 * mean;
    const int shape = static_cast<int>(random() % 4);
    std::vector<double> steps(40000), costs(40000);
    double walk = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      walk = std::clamp(walk + uniform(-0.02, 0.02), -0.55, 0.55);
      const double threefold = uniform(0.5, 1.5);
      steps[i] = mean * (shape == 0   ? threefold
                         : shape == 1 ? std::exp(walk)
                         : shape == 2 ? (random() % 5 == 0 ? 3 : 0.5)
                                      : 1);
      costs[i] = cost * (random() % 2 == 0 ? 1 : uniform(0.5, 1.5)) * (shape == 3 && random() % 40 == 0 ? 30 : 1);
    }
    SimulatedJob job(percent, [&](int64_t n) { return steps.at(static_cast<size_t>(n)); },
                     {{kGrad, [&](int64_t n) { return costs.at(static_cast<size_t>(n)); }}});
    job.one_time = uniform(1, 30);
    INFO("round " << round << " seed " << test::RandomSeed() << " shape " << shape << " percent " << percent << " load "
                  << load);
    for (int64_t n = 0; n < 4000 && job.collected() < 40; ++n) job.Train(1);
    job.TakeSpent();
    job.one_time = 1;
    const int64_t settled = job.collected();
    job.Train(15000);
    CHECK(job.TakeSpent() <= percent * (shape == 3 ? 2.2 : 1.15));
    CheckHoldDown(job);
    const auto collected = static_cast<double>(std::max<int64_t>(job.collected() - settled, 8));
    const double by_spikes = shape == 3 ? collected / 200 : 0;
    CHECK(static_cast<double>(ChangesFrom(job, settled)) <= 6 + 4 * std::log2(collected) + by_spikes);
  }
}

TEST_CASE("the sentence of a decision holds the overhead before, the new sampling and the expected overhead") {
  SamplingGovernor::Decision decision;
  decision.sampling = {8, {kActv}};
  decision.lowers = true;
  decision.percent = 7.2345;
  decision.percent_then = 0.88;
  decision.most_expensive = {kActv, kGrad};
  CHECK(
      DecisionText(decision, {}, 1, 10) ==
      "budget of 1 %: measuring takes 7.23 % of the training time, most of it for actv, grad_reduced; actv not "
      "collected from here on; from now on 1 of 80 steps is collected, before it was 1 of 10, and 0.88 % is expected");
}

}  // namespace
}  // namespace stepwatch::budget
