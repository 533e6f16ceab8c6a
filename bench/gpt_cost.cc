// What the monitor costs a training step, as ratios within one run.
//
// Two ways, which must agree: what is added is timed directly and divided by the step (exact, blind to side effects),
// and whole steps are compared in interleaved blocks (sees everything, as noisy as the machine). The model is the GPT
// of examples/gpt; `bare` is the same source compiled against torch::nn and the stock optimizer.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bare_model.h"
#include "examples/gpt/model.h"

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Settings {
  int64_t layers = 4, width = 192, batch = 8;
  int blocks = 12;
  int steps_per_block = 5;
  int threads = 2;
  std::string json;
};

double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The least time of one call in nanoseconds: the floor of many repeats is what the call costs, the rest is the machine.
double NanosecondsOf(const std::function<void()>& call, int calls, int repeats = 15) {
  double best = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    best = std::min(best, Seconds(Clock::now() - start) / calls * 1e9);
  }
  return best;
}

// A model, its optimizer and one training step on fixed random bytes.
template <class Model, class Optimizer, class ModelOptions>
class Job {
 public:
  Job(const ModelOptions& options, int64_t batch)
      : model_(Seeded(options)),
        optimizer_(model_->parameters(), torch::optim::AdamWOptions(1e-3)),
        input_(torch::randint(256, {batch, options.context}, torch::kLong)),
        target_(torch::randint(256, {batch * options.context}, torch::kLong)) {}

  double Step() {
    const auto start = Clock::now();
    optimizer_.zero_grad();
    torch::cross_entropy_loss(model_(input_).view({-1, 256}), target_).backward();
    optimizer_.step();
    return Seconds(Clock::now() - start);
  }
  double Block(int steps) {
    std::vector<double> times;
    for (int i = 0; i < steps; ++i) times.push_back(Step());
    return Median(times);
  }
  Model& model() { return model_; }
  Optimizer& optimizer() { return optimizer_; }

 private:
  static Model Seeded(const ModelOptions& options) {
    torch::manual_seed(1);
    return Model(options);
  }

  Model model_;
  Optimizer optimizer_;
  torch::Tensor input_, target_;
};

using BareJob = Job<bare_gpt::Gpt, torch::optim::AdamW, bare_gpt::ModelOptions>;
using WatchedJob = Job<gpt::Gpt, stepwatch::Watched<torch::optim::AdamW>, gpt::ModelOptions>;

// A directory of our own with a config file that the bench edits.
class Workspace {
 public:
  Workspace() {
    std::string name = std::filesystem::temp_directory_path() / "stepwatch-bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create a directory like " + name);
    path_ = name;
  }
  ~Workspace() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void Save(const std::string& text) const { std::ofstream(config()) << text; }
  std::string config() const { return path_ / "config.json"; }
  std::string output() const { return path_ / "out"; }

 private:
  std::filesystem::path path_;
};

constexpr const char* kIdle = R"({"dynamic_on": false})";
struct Load {
  const char* name;
  const char* config;
};
constexpr Load kLoads[] = {
    {"gradients",
     R"({"dynamic_on": true, "wg_distribution": true, "ops": ["norm","mean","min","max","zeros","nans"]})"},
    {"gradients, weights, moments",
     R"({"dynamic_on": true, "wg_distribution": true, "param_distribution": true, "mv_distribution": true,
         "ops": ["norm","mean","min","max","zeros","nans"]})"},
    {"activations and their gradients",
     R"({"dynamic_on": true, "xy_distribution": true, "ops": ["norm","mean","min","max","zeros","nans"]})"},
};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings), bare_(BareOptions(), settings.batch), watched_(Options(), settings.batch) {
    workspace_.Save(kIdle);
    stepwatch::Options options;
    options.config_path = workspace_.config();
    options.output_dir = workspace_.output();
    options.dynamic = true;
    options.on_event = [this](const stepwatch::Event& event) {
      if (event.kind != stepwatch::EventKind::kDrained || event.collected <= 0) return;
      busy_seconds_ = event.busy_seconds / static_cast<double>(event.collected);
    };
    monitor_ = std::make_unique<stepwatch::TorchMonitor>(options);
    monitor_->Attach(*watched_.model(), watched_.optimizer());
  }

  void Run() {
    bare_.Block(3);
    watched_.Block(3);
    Idle();
    for (const Load& load : kLoads) Collecting(load);
    (void)monitor_->Close();
    if (!settings_.json.empty()) std::ofstream(settings_.json) << Json{{"ratios", ratios_}}.dump(1) << "\n";
  }

 private:
  gpt::ModelOptions Options() const { return {settings_.layers, settings_.width, 4, 128}; }
  bare_gpt::ModelOptions BareOptions() const { return {settings_.layers, settings_.width, 4, 128}; }

  size_t WatchedModules() {
    size_t count = 0;
    for (const auto& item : watched_.model()->named_modules())
      if (dynamic_cast<stepwatch::TapPoint*>(item.value().get()) != nullptr) ++count;
    return count;
  }

  // What an idle monitor adds to a step, piece by piece.
  void Idle() {
    const torch::Tensor tensor = torch::zeros({1});
    torch::nn::Identity stock;
    stepwatch::nn::Identity watched;
    constexpr int kCalls = 200000;
    const double module_ns = std::max(0.0, NanosecondsOf([&] { watched->forward(tensor); }, kCalls) -
                                               NanosecondsOf([&] { stock->forward(tensor); }, kCalls));
    const double observe_ns = NanosecondsOf([&] { monitor_->core().Observe({0, 0}, stepwatch::TensorView{}); }, kCalls);
    const double boundary_ns = BoundaryNanoseconds();
    const double added_ns = module_ns * static_cast<double>(WatchedModules()) + boundary_ns;
    const auto [bare, ratios] = Interleave();
    const double share = added_ns * 1e-9 / bare;
    std::printf("GPT of %lld layers, width %lld; a bare step takes %.1f ms\n", static_cast<long long>(settings_.layers),
                static_cast<long long>(settings_.width), bare * 1e3);
    std::printf("\n%-46s %12s %10s\n", "monitor idle (dynamic_on false)", "measured", "at most");
    std::printf("%-46s %9.1f ns %10s\n", "a module that is off, per call", module_ns, "50 ns");
    std::printf("%-46s %9.1f ns %10s\n", "a site that is off, Monitor::Observe", observe_ns, "50 ns");
    std::printf("%-46s %9.1f ns\n", "the step boundary, per step", boundary_ns);
    std::printf("%-46s %11.5f %% %9s\n", "all that is added, of a step", share * 100, "0.1 %");
    std::printf("%-46s %11.2f %%   [%.2f, %.2f] over %d blocks\n", "interleaved blocks, idle over bare",
                (Median(ratios) - 1) * 100, (ratios.front() - 1) * 100, (ratios.back() - 1) * 100, settings_.blocks);
    Record("idle_added_over_step", share, {share, share});
    Record("idle_blocks_over_bare", Median(ratios), {ratios.front(), ratios.back()});
    std::printf("\n%-34s %18s %26s\n", "every step collected, six statistics", "measured directly",
                "interleaved blocks");
  }

  // optimizer.step() with nothing to update: what Watched, the taps and EndStep add to it.
  double BoundaryNanoseconds() {
    constexpr int kCalls = 20000;
    torch::nn::Linear none(torch::nn::LinearOptions(1, 1));
    stepwatch::Watched<torch::optim::SGD> optimizer(none->parameters(), torch::optim::SGDOptions(0.1));
    torch::optim::SGD stock(none->parameters(), torch::optim::SGDOptions(0.1));
    Workspace workspace;
    workspace.Save(kIdle);
    stepwatch::Options options;
    options.config_path = workspace.config();
    options.dynamic = true;
    options.on_event = [](const stepwatch::Event&) {};
    stepwatch::TorchMonitor monitor(options);
    monitor.Attach(*none, optimizer);
    const double with = NanosecondsOf([&] { optimizer.step(); }, kCalls);
    const double without = NanosecondsOf([&] { stock.step(); }, kCalls);
    return std::max(0.0, with - without);
  }

  struct Blocks {
    double bare;                 // seconds of a bare step, median
    std::vector<double> ratios;  // sorted
  };

  Blocks Interleave() {
    std::vector<double> bare, ratios;
    for (int block = 0; block < settings_.blocks; ++block) {
      // Step by step in turns: what slows the machine down for a while slows down both.
      std::vector<double> bare_steps, watched_steps;
      for (int step = 0; step < settings_.steps_per_block; ++step) {
        bare_steps.push_back(bare_.Step());
        watched_steps.push_back(watched_.Step());
      }
      bare.push_back(Median(bare_steps));
      ratios.push_back(Median(watched_steps) / bare.back());
    }
    std::sort(ratios.begin(), ratios.end());
    return {Median(bare), ratios};
  }

  void Collecting(const Load& load) {
    workspace_.Save(load.config);
    (void)monitor_->Refresh(std::chrono::seconds(5));
    watched_.Block(2);  // the swap, and a warm cache
    const auto [bare, ratios] = Interleave();
    busy_seconds_ = -1;
    workspace_.Save(kIdle);
    (void)monitor_->Refresh(std::chrono::seconds(5));
    watched_.Step();
    // The plan's account comes with its ledger; Refresh takes what the drain has told so far.
    for (int i = 0; i < 200 && busy_seconds_ < 0; ++i) {
      ::usleep(20000);
      (void)monitor_->Refresh(std::chrono::seconds(5));
    }
    std::printf("%-34s %7.2f ms, %5.2f %% %11.2f %%   [%.2f, %.2f]\n", load.name, busy_seconds_ * 1e3,
                busy_seconds_ / bare * 100, (Median(ratios) - 1) * 100, (ratios.front() - 1) * 100,
                (ratios.back() - 1) * 100);
    Record(std::string(load.name) + ", direct", busy_seconds_ / bare, {busy_seconds_ / bare, busy_seconds_ / bare});
    Record(std::string(load.name) + ", blocks over bare", Median(ratios), {ratios.front(), ratios.back()});
  }

  void Record(const std::string& name, double ratio, std::pair<double, double> spread) {
    ratios_.push_back({{"name", name}, {"ratio", ratio}, {"spread", {spread.first, spread.second}}});
  }

  const Settings settings_;
  Workspace workspace_;
  BareJob bare_;
  WatchedJob watched_;
  std::atomic<double> busy_seconds_{-1};
  std::unique_ptr<stepwatch::TorchMonitor> monitor_;
  Json ratios_ = Json::array();
};

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("What the monitor costs a training step of the example GPT, as ratios within one run.");
  app.add_option("--layers", settings.layers)->check(CLI::PositiveNumber);
  app.add_option("--width", settings.width, "a multiple of 4")->check(CLI::PositiveNumber);
  app.add_option("--batch", settings.batch)->check(CLI::PositiveNumber);
  app.add_option("--blocks", settings.blocks, "interleaved blocks of each kind")->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads)->check(CLI::PositiveNumber);
  app.add_option("--json", settings.json, "write the ratios to this file");
  app.option_defaults()->always_capture_default();
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(settings.threads);
  Bench(settings).Run();
  return 0;
}
