// Measures the overhead budget on a real monitor: the collected steps until it settles, oscillation, and its effect on
// a job whose steps vary threefold. The monitor's own accounting is compared with a clock around the same calls.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "bench/report.h"
#include "stepwatch/hook_table.h"
#include "stepwatch/monitor.h"
#include "stepwatch/recorder.h"
#include "stepwatch/version.h"

namespace stepwatch::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Settings {
  double percent = 2;
  double step_ms = 3;
  int tensors = 40;
  int64_t elements = 1 << 16;
  int64_t collected = 100;  // after it has settled
  std::string json;
};

constexpr int64_t kSettled = 10;  // collected steps within which the budget must settle

double Seconds(SteadyClock::duration time) {
  return std::chrono::duration<double>(time).count();
}

void SpinUntil(SteadyClock::time_point end) {
  while (SteadyClock::now() < end) {
  }
}

class NoHooks final : public HookTable {
 public:
  void Swap(const RecordLayout* layout, const FrontEndRequests&) noexcept override {
    sites = layout == nullptr ? 0 : layout->sites.size();
  }
  size_t sites = 0;
};

// A job that sleeps for the length of its steps, and has gradients to be measured.
class Job {
 public:
  // Seconds of a step by its number; number of times its gradients are measured.
  using StepTime = std::function<double(int64_t)>;
  using Repeats = std::function<int(int64_t)>;

  Job(const Settings& settings, const std::string& directory)
      : values_(static_cast<size_t>(settings.elements), 0.5f), config_path_(directory + "/config.json") {
    std::ofstream(config_path_) << "{\"targets\": {}, \"wg_distribution\": true, \"format\": \"api\", \"ops\": "
                                   "[\"norm\", \"mean\", \"min\", \"max\", \"zeros\", \"nans\"], \"stepwatch\": "
                                   "{\"sites\": [{\"match\": \"**\", \"kinds\": [\"grad_unreduced\"], \"every\": 0}], "
                                   "\"budget\": {\"percent\": "
                                << settings.percent << "}}}\n";
    Options options;
    options.config_path = config_path_;
    options.output_dir = directory;
    options.dynamic = false;
    options.control_socket = false;
    options.on_event = [this](const Event& event) { Note(event); };
    monitor_ = Monitor::Create(std::move(options)).value();
    SiteIndex sites;
    for (int i = 0; i < settings.tensors; ++i) {
      ParameterEntry parameter;
      parameter.name = "weight" + std::to_string(i);
      parameter.shape = {settings.elements};
      sites.parameters.push_back(parameter);
      at_.push_back({static_cast<SiteId>(i)});
      views_.push_back(DenseView(values_.data(), DType::kFloat32, &settings.elements, 1));
    }
    if (!monitor_->Attach(std::move(sites), &hooks_).ok()) std::abort();
  }

  // Trains until this many more steps are collected.
  void Train(int64_t collected, const StepTime& step_time, const Repeats& repeats) {
    for (const int64_t end = collected_ + collected; collected_ < end;) Step(step_time, repeats);
  }
  // Returns the measured cost since the last call, by the clock of this program.
  double TakePercent() {
    const double percent = 100 * cost_ / trained_;
    cost_ = trained_ = 0;
    return percent;
  }
  int64_t TakeSteps() { return std::exchange(steps_, 0); }
  struct Change {
    int64_t collected = 0;
    std::string text;
  };
  std::vector<Change> changes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
  }
  int64_t collected() const { return collected_; }

 private:
  void Step(const StepTime& step_time, const Repeats& repeats) {
    const SteadyClock::time_point begin = SteadyClock::now();
    SpinUntil(begin + std::chrono::duration_cast<SteadyClock::duration>(
                          std::chrono::duration<double>(step_time(monitor_->step()))));
    const SteadyClock::time_point trained = SteadyClock::now();
    Recorder& recorder = monitor_->recorder();
    if (recorder.collecting()) {
      const int times = repeats(monitor_->step());
      for (int i = 0; i < times; ++i)
        recorder.ObserveBatch(at_.data(), views_.data(), std::min(at_.size(), hooks_.sites));
      ++collected_;
    }
    monitor_->EndStep();
    ++steps_;
    trained_ += Seconds(trained - begin);
    cost_ += Seconds(SteadyClock::now() - trained);
  }
  void Note(const Event& event) {
    if (event.kind != EventKind::kNote || event.message.find("budget of ") != 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    changes_.push_back({collected_, event.message});
  }

  NoHooks hooks_;
  std::vector<float> values_;
  std::vector<Observation> at_;
  std::vector<TensorView> views_;
  const std::string config_path_;
  std::atomic<int64_t> collected_{0};
  int64_t steps_ = 0;
  double trained_ = 0, cost_ = 0;
  mutable std::mutex mutex_;
  std::vector<Change> changes_;
  std::unique_ptr<Monitor> monitor_;  // last: it sends events until it is destroyed
};

Spread Exactly(double value) {
  return {value, value, value};
}

class Bench {
 public:
  Bench(const Settings& settings, Report* report) : settings_(settings), report_(*report) {
    directory_ = std::filesystem::temp_directory_path() / ("stepwatch-budget-bench-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
  }
  ~Bench() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void Steady(const std::string& name, const Job::StepTime& step_time) {
    report_.Section(name);
    Job job(settings_, directory_);
    const Job::Repeats once = [](int64_t) { return 1; };
    job.Train(kSettled, step_time, once);
    report_.Figure("the first ten collected steps took", Exactly(job.TakePercent()), "%");
    Settle(&job, 0, step_time, once);
  }
  void Sudden(const std::string& name, const Job::StepTime& before, const Job::StepTime& after, int repeats) {
    report_.Section(name);
    Job job(settings_, directory_);
    job.Train(kSettled + 30, before, [](int64_t) { return 1; });
    const int64_t changed_at = job.collected();
    job.TakePercent();
    const Job::Repeats times = [repeats](int64_t) { return repeats; };
    job.Train(kSettled, after, times);
    report_.Figure("the ten collected steps after the change took", Exactly(job.TakePercent()), "%");
    Settle(&job, changed_at, after, times);
  }

 private:
  void Settle(Job* job, int64_t from, const Job::StepTime& step_time, const Job::Repeats& repeats) {
    job->TakePercent();
    job->TakeSteps();
    job->Train(settings_.collected, step_time, repeats);
    report_.Figure("the following ones took, of the training time", Exactly(job->TakePercent()), "%",
                   AtMost(settings_.percent), "by a clock around the calls");
    const int64_t steps = job->TakeSteps();
    int64_t settled = 0, late = 0;
    for (const Job::Change& change : job->changes()) {
      if (change.collected <= from) continue;
      if (change.collected <= from + kSettled)
        settled = change.collected - from;
      else
        ++late;
    }
    report_.Figure("collected steps until the last decision of these ten", Exactly(static_cast<double>(settled)), "",
                   AtMost(static_cast<double>(kSettled)));
    report_.Figure(
        "decisions after that", Exactly(static_cast<double>(late)), "", AtMost(2),
        "in " + std::to_string(steps) + " steps, " + std::to_string(settings_.collected) + " of them collected");
    for (const Job::Change& change : job->changes())
      std::printf("    at collected step %lld: %s\n", static_cast<long long>(change.collected), change.text.c_str());
  }

  const Settings settings_;
  Report& report_;
  std::filesystem::path directory_;
};

int Main(int count, char** arguments) {
  Settings settings;
  CLI::App app("The overhead budget on a real monitor");
  app.add_option("--percent", settings.percent, "the budget");
  app.add_option("--step-ms", settings.step_ms, "how long a step lasts in the mean");
  app.add_option("--tensors", settings.tensors, "gradients of a collected step");
  app.add_option("--elements", settings.elements, "elements of each");
  app.add_option("--collected", settings.collected, "collected steps after it has settled");
  app.add_option("--json", settings.json, "file for the results");
  CLI11_PARSE(app, count, arguments);
  Report report;
  report.Fact("stepwatch", kVersion);
  report.Fact("percent", settings.percent);
  report.Fact("step_ms", settings.step_ms);
  const double step = settings.step_ms * 1e-3;
  std::mt19937 random(1);
  const Job::StepTime constant = [=](int64_t) { return step; };
  Bench bench(settings, &report);
  bench.Steady("steps that all take the same", constant);
  bench.Steady("every third step takes three times as long as the others",
               [=](int64_t number) { return step * (number % 3 == 0 ? 1.8 : 0.6); });
  bench.Steady("steps that vary threefold at random",
               [&, step](int64_t) { return step * std::uniform_real_distribution<double>(0.5, 1.5)(random); });
  bench.Steady("phases of 50 steps, threefold",
               [=](int64_t number) { return step * (number / 50 % 2 == 0 ? 1.5 : 0.5); });
  bench.Sudden("a collected step suddenly costs ten times as much", constant, constant, 10);
  bench.Sudden(
      "steps are suddenly a tenth as long", constant, [=](int64_t) { return step / 10; }, 1);
  return settings.json.empty() || report.WriteJson(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace stepwatch::bench

int main(int count, char** arguments) {
  return stepwatch::bench::Main(count, arguments);
}
