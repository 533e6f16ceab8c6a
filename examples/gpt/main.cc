// gpt: trains a small GPT on text, byte by byte, monitored according to config.json with --config.
//
//   gpt --text src --text /usr/lib/python3.11 --steps 200 --config config.json
//
// With DYNAMIC_MONITOR=true in the environment, edits of the config file take effect during training.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/gpt/model.h"
#include "examples/gpt/settings.h"
#include "examples/gpt/text.h"

namespace gpt {
namespace {

using Optimizer = stepwatch::Watched<torch::optim::AdamW>;

// Weight decay applies to matrices only, not to biases and norms.
Optimizer MakeOptimizer(const Gpt& model, double learning_rate) {
  std::vector<torch::Tensor> matrices, others;
  for (const torch::Tensor& parameter : model->parameters())
    (parameter.dim() >= 2 ? matrices : others).push_back(parameter);
  const auto options = torch::optim::AdamWOptions(learning_rate).betas({0.9, 0.95});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(
      matrices, std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(options).weight_decay(0.1)));
  groups.emplace_back(
      others, std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(options).weight_decay(0.0)));
  return Optimizer(groups, options);
}

// Linear warm-up over a twentieth of the run, then a cosine down to a tenth.
double LearningRate(const Settings& settings, int64_t step) {
  const double warm_up = std::max(1.0, static_cast<double>(settings.steps) / 20);
  const double at = static_cast<double>(step);
  if (at < warm_up) return settings.learning_rate * (at + 1) / warm_up;
  const double progress = (at - warm_up) / std::max(1.0, static_cast<double>(settings.steps) - warm_up);
  return settings.learning_rate * (0.1 + 0.9 * 0.5 * (1 + std::cos(M_PI * std::min(progress, 1.0))));
}

class Trainer {
 public:
  explicit Trainer(const Settings& settings)
      : settings_(settings),
        text_(settings.text),
        random_(settings.seed),
        model_(settings.model),
        optimizer_(MakeOptimizer(model_, settings.learning_rate)) {
    if (settings.config.empty()) return;
    stepwatch::Options options;
    options.config_path = settings.config;
    options.output_dir = settings.out;
    options.grad_acc_steps = settings.grad_acc;
    monitor_.emplace(options).Attach(*model_, optimizer_);
  }

  void Run() {
    std::printf("%zu parameters, %zu bytes of text, %lld tokens a step\n", ParameterCount(), text_.size(),
                static_cast<long long>(TokensPerStep()));
    for (int64_t step = 0; step < settings_.steps; ++step) {
      const auto start = std::chrono::steady_clock::now();
      const double learning_rate = LearningRate(settings_, step);
      const double loss = Step(learning_rate);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (!settings_.quiet)
        std::printf("step %lld  loss %.4f  lr %.2e  %.0f tokens/s  %.1f ms\n", static_cast<long long>(step), loss,
                    learning_rate, static_cast<double>(TokensPerStep()) / took.count(), took.count() * 1e3);
      if (settings_.eval_every > 0 && (step + 1) % settings_.eval_every == 0) Evaluate(step);
      std::fflush(stdout);
    }
  }

 private:
  int64_t TokensPerStep() const { return settings_.batch * settings_.model.context * settings_.grad_acc; }
  size_t ParameterCount() const {
    size_t count = 0;
    for (const torch::Tensor& parameter : model_->parameters()) count += static_cast<size_t>(parameter.numel());
    return count;
  }

  torch::Tensor Loss(bool training) {
    const auto [input, target] = text_.Batch(settings_.batch, settings_.model.context, training, random_);
    return torch::cross_entropy_loss(model_(input).view({-1, kVocabulary}), target.view({-1}));
  }

  double Step(double learning_rate) {
    for (auto& group : optimizer_.param_groups()) group.options().set_lr(learning_rate);
    optimizer_.zero_grad();
    double sum = 0;
    for (int micro = 0; micro < settings_.grad_acc; ++micro) {
      const torch::Tensor loss = Loss(/*training=*/true) / settings_.grad_acc;
      loss.backward();
      sum += loss.item<double>();
    }
    if (!std::isfinite(sum)) throw std::runtime_error("the loss is not finite; try a smaller --lr");
    torch::nn::utils::clip_grad_norm_(model_->parameters(), 1.0);
    optimizer_.step();
    return sum;
  }

  void Evaluate(int64_t step) {
    const torch::NoGradGuard no_grad;
    model_->eval();
    double sum = 0;
    constexpr int kBatches = 4;
    for (int i = 0; i < kBatches; ++i) sum += Loss(/*training=*/false).item<double>();
    model_->train();
    if (!settings_.quiet) std::printf("step %lld  eval loss %.4f\n", static_cast<long long>(step), sum / kBatches);
  }

  const Settings settings_;
  const Text text_;
  std::mt19937_64 random_;
  stepwatch::Watched<Gpt> model_;
  Optimizer optimizer_;
  std::optional<stepwatch::TorchMonitor> monitor_;  // last, so that it closes first
};

int Main(int argc, char** argv) {
  const Settings settings = ParseSettings({argv + 1, argv + argc});
  if (settings.help) {
    PrintHelp();
    return 0;
  }
  torch::manual_seed(settings.seed);
  if (settings.threads > 0) torch::set_num_threads(settings.threads);
  Trainer(settings).Run();
  return 0;
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  try {
    return gpt::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "gpt: %s\n", e.what());
    return 1;
  }
}
