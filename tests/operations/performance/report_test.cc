// The report of a run agrees with a plain computation from the same beats, and invents no number.

#include "operations/performance/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "operations/performance/report_json.h"
#include "operations/runs/time_account.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

PerformanceInput InputOf(const Observer& observer, std::vector<Incident> incidents = {}) {
  PerformanceInput input;
  input.run = observer.Run("run").value();
  for (const std::string& name : observer.SeriesNames("run")) input.series[name] = observer.SeriesOf("run", name);
  input.incidents = std::move(incidents);
  input.now = observer.t();
  return input;
}

PerformanceReport ReportAfter(const Script& script) {
  Observer observer;
  for (const Line& line : script.lines) (void)observer.Observe(line);
  return ReportOf(InputOf(observer));
}

// A run of one rank with random steps, evaluations, restarts and losses, and the plain computation beside it.
struct RandomRun {
  explicit RandomRun(unsigned seed) : dice(seed) { Send(StartEvent{1, "host"}); }

  double Between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(dice); }
  void Send(Event event) { lines.push_back(EventLine(t, std::move(event))); }
  void Send(Beat beat) { lines.push_back(BeatLine(t, 0, std::move(beat))); }

  void Step() {
    const double seconds = Between(0.5, 1);
    t += seconds;
    ++step;
    Beat beat = StepBeat(step);
    const bool is_bad = Between(0, 1) < 0.02;
    beat.loss = is_bad ? std::nan("") : 8 - 0.5 * std::log(static_cast<double>(step)) + Between(-0.05, 0.05);
    beat.tokens = 1000;
    beat.samples = 4;
    Send(beat);
    steps_done += 1;
    if (is_first) {
      lost[is_restarted ? "restart" : "start"] += t - last_t;
    } else if (has_left) {
      lost["eval"] += evaluated;
      if (step > furthest)
        counted += t - back_t;
      else
        lost["repeated"] += t - back_t;
    } else {
      durations.push_back(seconds);
      if (step > furthest)
        counted += seconds;
      else
        lost["repeated"] += seconds;
    }
    if (step > furthest) ++steps_counted;
    furthest = std::max(furthest, step);
    last_t = t;
    is_first = has_left = false;
  }
  void Evaluate() {
    const double before = Between(0.01, 0.2);
    t += before;
    const double begin = t;
    for (int i = 0; i < 5; ++i) {
      Beat beat = StepBeat(step, RunPhase::kEval);
      beat.reported = {{"accuracy", 0.5 + 1e-4 * static_cast<double>(step)}};
      Send(beat);
      t += 1;
    }
    Send(StepBeat(step));
    t += 0.1;
    Send(StepBeat(step));
    evaluated = t - begin;
    back_t = t - before;
    has_left = true;
  }
  void Restart() {
    t += Between(5, 50);
    Send(RestartEvent{1, "host"});
    step = std::max<int64_t>(0, step - static_cast<int64_t>(Between(0, 30)));
    is_first = is_restarted = true;
    has_left = false;
    t += Between(1, 10);
  }

  std::mt19937 dice;
  std::vector<Line> lines;
  double t = 1000, last_t = 1000, back_t = 0, evaluated = 0, counted = 0;
  int64_t step = 0, furthest = 0, steps_counted = 0, steps_done = 0;
  bool is_first = true, is_restarted = false, has_left = false;
  std::map<std::string, double> lost;
  std::vector<double> durations;
};

TEST_CASE("the report of a random run agrees with a plain computation from its beats") {
  const unsigned seed = GENERATE(take(12, random(0u, 1u << 30)));
  INFO("seed " << seed);
  RandomRun model(seed);
  const int64_t events = static_cast<int64_t>(model.Between(50, 1200));
  for (int64_t i = 0; i < events; ++i) {
    model.Step();
    if (model.Between(0, 1) < 0.01) model.Evaluate();
    if (model.Between(0, 1) < 0.008) model.Restart();
  }
  if (model.is_first || model.has_left) model.Step();
  Observer observer;
  for (const Line& line : model.lines) (void)observer.Observe(line);
  const PerformanceReport report = ReportOf(InputOf(observer));
  CHECK(report.steps_counted == model.steps_counted);
  CHECK(report.seconds == Approx(model.t - 1000));
  CHECK(report.counted_seconds == Approx(model.counted).epsilon(1e-6));
  CHECK(*report.goodput == Approx(model.counted / (model.t - 1000)).epsilon(1e-6));
  for (const auto& [cause, seconds] : model.lost) {
    INFO(cause);
    const auto found = report.lost_seconds.find(cause);
    if (seconds > 1e-6) REQUIRE(found != report.lost_seconds.end());
    if (seconds > 1e-6) CHECK(found->second == Approx(seconds).epsilon(1e-6));
  }
  CHECK(report.other_seconds == Approx(0).margin(1e-3));
  std::sort(model.durations.begin(), model.durations.end());
  const auto quantile = [&](double share) {
    const auto place = static_cast<size_t>(std::ceil(share * static_cast<double>(model.durations.size())));
    return model.durations[std::max<size_t>(1, place) - 1];
  };
  // Steps that end within one second share a point of which the last one counts for all.
  CHECK(*report.step_seconds.p5 == Approx(quantile(0.05)).margin(0.06));
  CHECK(*report.step_seconds.p50 == Approx(quantile(0.5)).margin(0.06));
  CHECK(*report.step_seconds.p99 == Approx(quantile(0.99)).margin(0.08));
  CHECK(*report.step_seconds.max == Approx(model.durations.back()));
  double sum = 0;
  for (const double each : model.durations) sum += each;
  CHECK(*report.step_seconds.mean == Approx(sum / static_cast<double>(model.durations.size())));
  const double in_steps = model.counted + model.lost["repeated"];
  CHECK(*report.tokens_per_second == Approx(1000.0 * static_cast<double>(model.steps_done) / in_steps));
}

TEST_CASE("time is lost to its cause, with the incident of that time") {
  Script script;
  script.Train(200).Wait(30).Train(20).Wait(8, {}, RunPhase::kCheckpoint).Train(20);
  script.Event(PauseEvent{}).Wait(40).Event(ResumeEvent{}).Train(20);
  Observer observer;
  for (const Line& line : script.lines) (void)observer.Observe(line);
  Incident stuck;
  stuck.run = "run";
  stuck.id = "i1";
  stuck.state = IncidentState::kResolved;
  stuck.opened_t = 115;
  stuck.t = 131;
  const PerformanceReport report = ReportOf(InputOf(observer, {stuck}));
  CHECK(report.lost_seconds.at("stall") == Approx(30).margin(0.5));
  CHECK(report.lost_seconds.at("checkpoint") == Approx(8).margin(1.1));
  CHECK(report.lost_seconds.at("pause") == Approx(40).margin(1.1));
  CHECK(*report.checkpoint_seconds_mean == Approx(8).margin(1.1));
  const auto stall = std::find_if(report.interruptions.begin(), report.interruptions.end(),
                                  [](const Interruption& each) { return each.cause == "stall"; });
  REQUIRE(stall != report.interruptions.end());
  CHECK(stall->incident == "i1");
  CHECK(stall->incident_kind == "stuck");
  const auto pause = std::find_if(report.interruptions.begin(), report.interruptions.end(),
                                  [](const Interruption& each) { return each.cause == "pause"; });
  CHECK(pause->incident.empty());
}

TEST_CASE("a run that stands still now has an interruption without an end") {
  Script script;
  script.Train(100);
  Observer observer;
  for (const Line& line : script.lines) (void)observer.Observe(line);
  PerformanceInput input = InputOf(observer);
  input.now += 600;
  const PerformanceReport report = ReportOf(input);
  CHECK(report.lost_seconds.at("stall") == Approx(600).margin(1));
  CHECK(*report.goodput < 0.1);
}

TEST_CASE("a number that was never reported is absent, and no window divides by zero") {
  Observer observer;
  (void)observer.Observe(EventLine(10, StartEvent{1, "host"}));
  PerformanceInput input = InputOf(observer);
  for (const double window : {1e-9, 1.0, 86400.0}) {
    input.window_seconds = window;
    const PerformanceReport report = ReportOf(input);
    for (const auto& each : {report.goodput, report.mfu, report.tokens_per_second, report.samples_per_second,
                             report.gpu_utilization, report.step_seconds.p50, report.step_seconds.mean,
                             report.grad_norm.mean, report.fragmentation, report.legacy_score, report.clip_share})
      CHECK_FALSE(each);
    CHECK_FALSE(report.schedule);
    CHECK(report.losses.empty());
    CHECK(report.findings.empty());
    CHECK(report.legacy_rating.empty());
    const std::string text = json::Dump(ReportJson(report));
    CHECK(text.find("nan") == std::string::npos);
  }
}

TEST_CASE("a GPU without samples is no idle GPU") {
  Script script;
  script.Train(50);
  const PerformanceReport report = ReportAfter(script);
  CHECK_FALSE(report.gpu_utilization);
  for (const std::string& finding : report.findings) CHECK(finding.find("GPU") == std::string::npos);
}

TEST_CASE("the use of all GPUs counts, not only of the first") {
  Script script;
  script.Train(10);
  for (int second = 0; second < 20; ++second) {
    script.Train(2);
    for (int64_t rank = 0; rank < 4; ++rank)
      script.lines.push_back(
          EventLine(script.t, GpuEvent{"GPU-" + std::to_string(rank), "utilization", rank == 0 ? 100.0 : 20.0}, rank));
  }
  const PerformanceReport report = ReportAfter(script);
  CHECK(*report.gpu_utilization == Approx(40));
  CHECK(*report.gpu_utilization_low == 20);
  REQUIRE_FALSE(report.findings.empty());
  CHECK(std::any_of(report.findings.begin(), report.findings.end(),
                    [](const std::string& each) { return each.find("low GPU use: 40 %") == 0; }));
}

TEST_CASE("the legacy score needs both of its numbers, and has its reference and its ladder") {
  Script script;
  script.change = [](int64_t, int64_t, Beat* beat) { beat->samples = 10; };
  for (int second = 0; second < 60; ++second) {
    script.Train(2);
    script.lines.push_back(EventLine(script.t, GpuEvent{"GPU-0", "utilization", 90}, 0));
  }
  Observer observer;
  for (const Line& line : script.lines) (void)observer.Observe(line);
  PerformanceInput input = InputOf(observer);
  input.legacy.samples_per_second = 160;  // four ranks of ten samples in half a second are 80 a second
  const PerformanceReport report = ReportOf(input);
  CHECK(*report.legacy_score == Approx(0.6 * 90 + 0.4 * 50).margin(0.5));
  CHECK(report.legacy_rating == "Fair");
  CHECK(LegacyRating(90) == "Excellent");
  CHECK(LegacyRating(89.9) == "Good");
  CHECK(LegacyRating(70) == "Fair");
  CHECK(LegacyRating(60) == "Poor");
  CHECK(LegacyRating(59.9) == "Critical");
}

TEST_CASE("a slow decline is not learnt as the usual pace") {
  Script script;
  script.Train(200);
  for (int i = 0; i < 30; ++i) script.Train(20, 1 + 0.1 * i);
  const PerformanceReport report = ReportAfter(script);
  // All steps were slow, and none of them was a stall: the spread shows it.
  CHECK(*report.step_seconds.p95 > 2.5 * *report.step_seconds.p5);
  CHECK(*report.step_seconds.mean_by_time > *report.step_seconds.mean);
}

TEST_CASE("a million steps fit into bounded series, whose sums stay exact") {
  TimeAccount account;
  account.Start(0);
  constexpr int64_t kSteps = 1000000;
  for (int64_t step = 1; step <= kSteps; ++step) {
    const auto now = static_cast<double>(step);
    account.TakePhase(now, RunPhase::kTrain);
    account.TakeAdvance({now, now, step - 1, step, 1, {1000.0 * now, std::nullopt, std::nullopt}});
  }
  PerformanceInput input;
  for (const auto& [name, series] : account.series()) {
    CHECK(series.points().size() <= 2048);
    input.series[name] = series.points();
  }
  input.run.id = "run";
  input.now = kSteps;
  input.window_seconds = kSteps;
  const PerformanceReport report = ReportOf(input);
  CHECK(report.steps_counted == kSteps);
  CHECK(report.counted_seconds == Approx(kSteps - 1));
  CHECK(*report.tokens_per_second == Approx(1000).epsilon(1e-5));
}

TEST_CASE("the slope of the loss over log tokens has an interval, and a plateau is told from a fall") {
  std::mt19937 dice(7);
  std::normal_distribution<double> noise(0, 0.02);
  const auto trend = [&](double slope) {
    Script script;
    script.world = 1;
    script.change = [&](int64_t step, int64_t, Beat* beat) {
      beat->tokens = 4096;
      beat->loss = 5 + slope * std::log(static_cast<double>(step)) + noise(dice);
    };
    script.Train(1000);
    return ReportAfter(script).losses.at(0);
  };
  const Trend falling = trend(-0.3);
  CHECK(falling.over == "tokens");
  CHECK(falling.slope->low <= -0.3);
  CHECK(falling.slope->high >= -0.3);
  CHECK(falling.slope->high - falling.slope->low < 0.02);
  CHECK(falling.verdict == "falling");
  CHECK(trend(0.3).verdict == "rising");
}

TEST_CASE("NaN losses are counted, and do not reach a slope or a mean") {
  Script script;
  script.world = 1;
  script.change = [](int64_t step, int64_t, Beat* beat) {
    if (step % 10 == 0) beat->loss = std::numeric_limits<double>::quiet_NaN();
    if (step % 15 == 0) beat->grad_norm = std::numeric_limits<double>::infinity();
  };
  script.Train(300);
  const PerformanceReport report = ReportAfter(script);
  CHECK(report.losses.at(0).nonfinite == 30);
  CHECK(std::isfinite(report.losses.at(0).slope->slope));
  CHECK(std::isfinite(*report.grad_norm.mean));
}

TEST_CASE("evaluations are kept by their phase, and one that became worse is a regression") {
  Script script;
  script.world = 1;
  script.Train(20);
  const auto evaluate = [&](double accuracy, double perplexity, double odd) {
    for (int i = 0; i < 2; ++i) {
      script.t += 1;
      Beat beat = StepBeat(script.step, RunPhase::kEval);
      beat.reported = {{"accuracy", accuracy}, {"perplexity", perplexity}, {"odd", odd}};
      script.lines.push_back(BeatLine(script.t, 0, beat));
    }
    script.Train(20);
  };
  evaluate(0.5, 20, 1);
  evaluate(0.7, 15, 2);
  evaluate(0.6, 14, 3);
  const PerformanceReport report = ReportAfter(script);
  REQUIRE(report.evaluations.size() == 3);
  CHECK(report.evaluations[0].name == "accuracy");
  CHECK(report.evaluations[0].best == 0.7);
  CHECK(report.evaluations[0].last == 0.6);
  CHECK(report.evaluations[0].is_regression);
  CHECK(report.evaluations[1].better == "unknown");
  CHECK_FALSE(report.evaluations[1].is_regression);
  CHECK_FALSE(report.evaluations[2].is_regression);
}

TEST_CASE("learnt lines add no time to the account, and steps before them are not counted again") {
  Script script;
  script.Train(50);
  Observer observer;
  for (const Line& line : script.lines) observer.Learn(line);
  observer.CountedUntil("run", 60);
  observer.EndLearning();
  CHECK(ReportOf(InputOf(observer)).steps_counted == 0);
  const size_t learnt = script.lines.size();
  script.Train(30);
  for (size_t i = learnt; i < script.lines.size(); ++i) (void)observer.Observe(script.lines[i]);
  CHECK(ReportOf(InputOf(observer)).steps_counted == 20);
}

}  // namespace
}  // namespace stepwatch::operations
