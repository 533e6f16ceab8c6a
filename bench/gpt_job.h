// The example GPT as a training job, bare and watched, and the config directory of the watched one.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bare_model.h"
#include "bench/rounds.h"
#include "examples/gpt/model.h"

namespace stepwatch::bench {

// A model, its optimizer and one training step on fixed random bytes.
template <class Model, class Optimizer, class ModelOptions>
class Job {
 public:
  Job(const ModelOptions& options, int64_t batch)
      : model_(Seeded(options)),
        optimizer_(model_->parameters(), torch::optim::AdamWOptions(1e-3)),
        input_(torch::randint(256, {batch, options.context}, torch::kLong)),
        target_(torch::randint(256, {batch * options.context}, torch::kLong)) {}

  // Returns the wall time in seconds.
  double Step() {
    const double start = Seconds(Clock::kWall);
    optimizer_.zero_grad();
    torch::cross_entropy_loss(model_(input_).view({-1, 256}), target_).backward();
    optimizer_.step();
    return Seconds(Clock::kWall) - start;
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) Step();
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
using WatchedJob = Job<gpt::Gpt, Watched<torch::optim::AdamW>, gpt::ModelOptions>;

// A temporary directory with a config file that the benchmark edits.
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

}  // namespace stepwatch::bench
