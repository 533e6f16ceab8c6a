// Measures the cost of the monitor per training step, as ratios within one run.
//
// Two methods must agree: the added work is timed directly and divided by the step (exact, blind to side effects), and
// whole steps are compared in turns (includes everything, as noisy as the machine). The model is the GPT of
// examples/gpt; `bare` is the same source compiled with torch::nn and the stock optimizer.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "bench/gpt_job.h"
#include "bench/report.h"
#include "stepwatch/recorder.h"

namespace stepwatch::bench {
namespace {

// A model and its number of steps for one comparison.
struct Preset {
  const char* name;
  int64_t layers, width, batch, context;
  int blocks, steps_per_block;
  // Limits as shares of a step: gradients; gradients, weights and moments. 0: none.
  double gradients_at_most, all_at_most;
};
// The two larger ones have 11.4 and 37.0 million parameters and process 2048 tokens a step.
constexpr Preset kPresets[] = {
    {"small", 4, 192, 8, 128, 12, 5, 0, 0},
    {"11m", 6, 392, 8, 256, 5, 2, 0.005, 0.02},
    {"37m", 8, 616, 8, 256, 4, 1, 0.005, 0.02},
};

struct Settings {
  Preset preset = kPresets[0];
  int threads = 2;
  std::string json;
};

// Returns the shortest time of one call in nanoseconds: the minimum of many repeats is its cost, the rest is noise.
double NanosecondsOf(const std::function<void()>& call, int calls, int repeats = 15) {
  double best = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double start = Seconds(Clock::kWall);
    for (int i = 0; i < calls; ++i) call();
    best = std::min(best, (Seconds(Clock::kWall) - start) / calls * 1e9);
  }
  return best;
}

Spread Exactly(double value) {
  return {value, value, value};
}

constexpr const char* kIdle = R"({"dynamic_on": false})";
struct Load {
  const char* name;
  const char* what;
  const char* config;
};
constexpr Load kGradients{
    "gradients", "gradients",
    R"({"dynamic_on": true, "wg_distribution": true, "ops": ["norm","mean","min","max","zeros","nans"]})"};
constexpr Load kAllParameters{
    "all_groups", "gradients, weights, moments",
    R"({"dynamic_on": true, "wg_distribution": true, "param_distribution": true, "mv_distribution": true,
        "ops": ["norm","mean","min","max","zeros","nans"]})"};
constexpr Load kActivations{
    "activations", "activations and their gradients",
    R"({"dynamic_on": true, "xy_distribution": true, "ops": ["norm","mean","min","max","zeros","nans"]})"};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        preset_(settings.preset),
        bare_({preset_.layers, preset_.width, 4, preset_.context}, preset_.batch),
        watched_({preset_.layers, preset_.width, 4, preset_.context}, preset_.batch) {
    workspace_.Save(kIdle);
    Options options;
    options.config_path = workspace_.config();
    options.output_dir = workspace_.output();
    options.dynamic = true;
    options.on_event = [this](const Event& event) {
      if (event.kind != EventKind::kDrained || event.collected <= 0) return;
      busy_seconds_ = event.busy_seconds / static_cast<double>(event.collected);
    };
    monitor_ = std::make_unique<TorchMonitor>(options);
    monitor_->Attach(*watched_.model(), watched_.optimizer());
  }

  // False if the results cannot be written.
  bool Run() {
    bare_.Steps(2);
    watched_.Steps(2);
    Introduce();
    Idle();
    const auto target = [](double share) { return share == 0 ? Target{} : AtMost(share); };
    report_.Section(
        "every step collected, six statistics: time that trainer threads spent measuring over a bare step,"
        " and whole steps in turns, watched over bare");
    Collecting(kGradients, target(preset_.gradients_at_most));
    Collecting(kAllParameters, target(preset_.all_at_most));
    if (preset_.name == std::string("small")) Collecting(kActivations, {});
    (void)monitor_->Close();
    return settings_.json.empty() || report_.WriteJson(settings_.json);
  }

 private:
  void Introduce() {
    int64_t count = 0, tensors = 0;
    for (const torch::Tensor& parameter : bare_.model()->parameters()) count += parameter.numel(), ++tensors;
    std::printf(
        "GPT \"%s\": %lld layers of width %lld, %.1f million parameters in %lld tensors, %lld tokens a step, %d "
        "threads\n",
        preset_.name, static_cast<long long>(preset_.layers), static_cast<long long>(preset_.width),
        static_cast<double>(count) * 1e-6, static_cast<long long>(tensors),
        static_cast<long long>(preset_.batch * preset_.context), settings_.threads);
    report_.Fact("model", preset_.name);
    report_.Fact("parameters", count);
    report_.Fact("parameter_tensors", tensors);
    report_.Fact("threads", settings_.threads);
  }

  size_t WatchedModules() {
    size_t count = 0;
    for (const auto& item : watched_.model()->named_modules())
      if (dynamic_cast<TapPoint*>(item.value().get()) != nullptr) ++count;
    return count;
  }

  // Measures the parts that an idle monitor adds to a step.
  void Idle() {
    const torch::Tensor tensor = torch::zeros({1});
    torch::nn::Identity stock;
    nn::Identity watched;
    constexpr int kCalls = 200000;
    const double module_ns = std::max(0.0, NanosecondsOf([&] { watched->forward(tensor); }, kCalls) -
                                               NanosecondsOf([&] { stock->forward(tensor); }, kCalls));
    const double observe_ns = NanosecondsOf([&] { monitor_->core().recorder().Observe({0, 0}, TensorView{}); }, kCalls);
    const double boundary_ns = BoundaryNanoseconds();
    const double added_ns = module_ns * static_cast<double>(WatchedModules()) + boundary_ns;
    const Spread ratio = InTurns();
    const Spread bare = BareStep();
    report_.Section("monitor idle (dynamic_on false)");
    report_.Figure("bare_step_ms", Scaled(bare, 1e3), "ms");
    report_.Figure("off_module_ns", Exactly(module_ns), "ns", AtMost(50), "a module that is off, per call");
    report_.Figure("off_site_ns", Exactly(observe_ns), "ns", AtMost(50), "a site that is off, Recorder::Observe");
    report_.Figure("boundary_ns", Exactly(boundary_ns), "ns", {}, "the step boundary, per step");
    report_.Ratio(Name("idle_added_over_step"), Exactly(added_ns * 1e-9 / bare.median), Style::kPercent, AtMost(0.001));
    report_.Ratio(Name("idle_steps_over_bare"), ratio, Style::kPercent, {}, "in turns");
  }

  // Measures optimizer.step() without parameters: the cost of Watched, the taps and EndStep.
  double BoundaryNanoseconds() {
    constexpr int kCalls = 20000;
    torch::nn::Linear none(torch::nn::LinearOptions(1, 1));
    Watched<torch::optim::SGD> optimizer(none->parameters(), torch::optim::SGDOptions(0.1));
    torch::optim::SGD stock(none->parameters(), torch::optim::SGDOptions(0.1));
    Workspace workspace;
    workspace.Save(kIdle);
    Options options;
    options.config_path = workspace.config();
    options.dynamic = true;
    options.on_event = [](const Event&) {};
    TorchMonitor monitor(options);
    monitor.Attach(*none, optimizer);
    const double with = NanosecondsOf([&] { optimizer.step(); }, kCalls);
    const double without = NanosecondsOf([&] { stock.step(); }, kCalls);
    return std::max(0.0, with - without);
  }

  // Compares the medians of each block, watched over bare.
  Spread InTurns() {
    std::vector<double> ratios;
    for (int block = 0; block < preset_.blocks; ++block) {
      // Alternates step by step, so that a temporary slowdown of the machine affects both.
      std::vector<double> bare_steps, watched_steps;
      for (int step = 0; step < preset_.steps_per_block; ++step) {
        bare_steps.push_back(bare_.Step());
        watched_steps.push_back(watched_.Step());
      }
      ratios.push_back(SpreadOf(watched_steps).median / SpreadOf(bare_steps).median);
      bare_steps_.insert(bare_steps_.end(), bare_steps.begin(), bare_steps.end());
    }
    return SpreadOf(ratios);
  }
  // Covers all steps so far, so that a busy moment does not stretch the divisor.
  Spread BareStep() const { return SpreadOf(bare_steps_); }

  void Collecting(const Load& load, Target target) {
    workspace_.Save(load.config);
    (void)monitor_->Refresh(std::chrono::seconds(5));
    watched_.Steps(2);  // the swap, and a warm cache
    const Spread ratio = InTurns();
    busy_seconds_ = -1;
    workspace_.Save(kIdle);
    (void)monitor_->Refresh(std::chrono::seconds(5));
    watched_.Steps(1);
    // The accounting of a plan arrives with its ledger; Refresh processes the drain's messages so far.
    for (int i = 0; i < 200 && busy_seconds_ < 0; ++i) {
      ::usleep(20000);
      (void)monitor_->Refresh(std::chrono::seconds(5));
    }
    const std::string name = Name(load.name);
    if (busy_seconds_ < 0) return report_.LeftOut(name, "the monitor did not account for the plan");
    const double bare = BareStep().median;
    char detail[96];
    std::snprintf(detail, sizeof detail, "%s: %.2f ms of %.1f ms", load.what, busy_seconds_ * 1e3, bare * 1e3);
    report_.Ratio(name + "_over_step", Exactly(busy_seconds_ / bare), Style::kPercent, target, detail);
    report_.Ratio(name + "_steps_over_bare", ratio, Style::kPercent, {}, "in turns");
  }

  std::string Name(const char* what) const { return std::string("gpt_") + preset_.name + "_" + what; }

  const Settings settings_;
  const Preset preset_;
  Workspace workspace_;
  BareJob bare_;
  WatchedJob watched_;
  std::vector<double> bare_steps_;  // seconds
  std::atomic<double> busy_seconds_{-1};
  std::unique_ptr<TorchMonitor> monitor_;
  Report report_;
};

const Preset& PresetOfName(const std::string& name) {
  for (const Preset& preset : kPresets)
    if (name == preset.name) return preset;
  throw std::invalid_argument("no model is called " + name);
}

int Main(int argc, char** argv) {
  Settings settings;
  std::string model = kPresets[0].name;
  std::optional<int64_t> layers, width, batch;
  std::optional<int> blocks, steps;
  CLI::App app("What the monitor costs a training step of the example GPT, as ratios within one run.");
  app.add_option("--model", model, "small, 11m (11.4 M parameters) or 37m (37.0 M)")
      ->check(CLI::IsMember({"small", "11m", "37m"}))
      ->capture_default_str();
  app.add_option("--layers", layers, "instead of the model's")->check(CLI::PositiveNumber);
  app.add_option("--width", width, "a multiple of 4, instead of the model's")->check(CLI::PositiveNumber);
  app.add_option("--batch", batch, "instead of the model's")->check(CLI::PositiveNumber);
  app.add_option("--blocks", blocks, "blocks of steps in turns, instead of the model's")->check(CLI::PositiveNumber);
  app.add_option("--steps", steps, "steps of a block, instead of the model's")->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--json", settings.json, "write the ratios to this file");
  CLI11_PARSE(app, argc, argv);
  settings.preset = PresetOfName(model);
  settings.preset.layers = layers.value_or(settings.preset.layers);
  settings.preset.width = width.value_or(settings.preset.width);
  settings.preset.batch = batch.value_or(settings.preset.batch);
  settings.preset.blocks = blocks.value_or(settings.preset.blocks);
  settings.preset.steps_per_block = steps.value_or(settings.preset.steps_per_block);
  torch::set_num_threads(settings.threads);
  return Bench(settings).Run() ? 0 : 1;
}

}  // namespace
}  // namespace stepwatch::bench

int main(int argc, char** argv) {
  return stepwatch::bench::Main(argc, argv);
}
