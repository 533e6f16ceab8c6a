// The breakdown of steps by time, as the beats of a job have it.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/http/client.h"
#include "stepwatch/part_scope.h"
#include "stepwatch/recorder.h"
#include "tests/eventually.h"
#include "tests/front_ends/torch/nets.h"
#include "tests/temporary_directory.h"
#include "tests/variable.h"

namespace stepwatch::tests {
namespace {

constexpr double kBurnt = 0.005;  // seconds

void Burn() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kBurnt);
  while (std::chrono::steady_clock::now() < until) {
  }
}

struct Burns : torch::optim::SGD {
  using SGD::SGD;
  torch::Tensor step(LossClosure closure) override {
    torch::Tensor loss;
    for (int i = 0; closure && i < 2; ++i) loss = closure();
    if (fails) throw std::runtime_error("failed");
    Burn();
    SGD::step();
    return loss;
  }
  bool fails = false;
};

// The last beat of a step.
nlohmann::json BeatOf(const std::filesystem::path& runtime, int64_t step) {
  std::vector<control_socket::FoundJob> found;
  REQUIRE(testing::Eventually([&] {
    found = control_socket::FindJobs({.directories = {runtime}});
    return found.size() == 1;
  }));
  const auto reply = http::Client(found[0].path).Get("/v1/beats");
  REQUIRE(reply.ok());
  const nlohmann::json answer = nlohmann::json::parse(reply.value().body);
  nlohmann::json beat;
  for (const nlohmann::json& line : answer["beats"])
    if (line.contains("beat") && line["beat"]["step"] == step && line["beat"].contains("step_seconds"))
      beat = line["beat"];
  return beat;
}

template <class Net>
struct JobOf {
  JobOf(const std::string& config, Net given) : harness(config), net(std::move(given)) {
    harness.options.dynamic = true;
    monitor.emplace(harness.options);
    monitor->Attach(*net, optimizer);
  }
  void Train(const std::function<void()>& update, int micro_batches = 1) {
    {
      const PartScope waiting(&monitor->core(), StepPart::kData);
      Burn();
    }
    optimizer.zero_grad();
    for (int i = 0; i < micro_batches; ++i) net->forward(torch::ones({2, 3})).sum().backward();
    update();
  }
  nlohmann::json Beat(int64_t step) { return BeatOf(directory / "run", step); }

  const testing::TemporaryDirectory directory;
  const testing::Variable variable{"STEPWATCH_RUNTIME_DIR", directory / "run"};
  Harness harness;
  Net net;
  Watched<Burns> optimizer{net->parameters(), Rate()};
  std::optional<TorchMonitor> monitor;
};

struct PartsJob : JobOf<nn::Linear> {
  PartsJob() : JobOf(R"({"targets": {}, "dynamic_on": false})", nn::Linear(3, 2)) {}
};

void CheckSum(const nlohmann::json& beat) {
  CAPTURE(beat.dump());
  double sum = 0;
  for (const char* part : {"data_seconds", "optimizer_seconds", "compute_seconds"}) {
    REQUIRE(beat.contains(part));
    CHECK(beat[part].get<double>() >= 0);
    sum += beat[part].get<double>();
  }
  CHECK(sum <= beat["step_seconds"].get<double>() + 1e-8);
}

TEST_CASE("the beats of a job without a plan have the parts of its steps") {
  PartsJob job;
  for (int i = 0; i < 3; ++i) job.Train([&] { job.optimizer.step(); });
  const nlohmann::json beat = job.Beat(2);
  CheckSum(beat);
  CHECK(beat["data_seconds"].get<double>() >= kBurnt);
  CHECK(beat["optimizer_seconds"].get<double>() >= kBurnt);
}

TEST_CASE("the time of a closure is none of the optimizer's") {
  PartsJob job;
  job.Train([&] { job.optimizer.step(); });
  job.Train([&] {
    job.optimizer.step([&] {
      Burn();
      return torch::zeros({});
    });
  });
  const nlohmann::json beat = job.Beat(1);
  CheckSum(beat);
  CHECK(beat["compute_seconds"].get<double>() >= 2 * kBurnt);
}

TEST_CASE("the time after an update that has failed is none of the optimizer's") {
  PartsJob job;
  job.Train([&] { job.optimizer.step(); });
  job.optimizer.fails = true;
  CHECK_THROWS_AS(job.optimizer.step(), std::runtime_error);
  Burn();
  job.optimizer.fails = false;
  job.Train([&] { job.optimizer.step(); });
  const nlohmann::json beat = job.Beat(1);
  CheckSum(beat);
  CHECK(beat["compute_seconds"].get<double>() >= kBurnt);
}

// --- forward and backward ---

// Takes its time in its forward, and in its backward.
struct BurningFunction : torch::autograd::Function<BurningFunction> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& value) {
    Burn();
    return value.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    Burn();
    return gradients;
  }
};

struct BurningNetImpl : torch::nn::Module {
  BurningNetImpl() : fc(register_module("fc", nn::Linear(3, 2))) {}
  torch::Tensor forward(const torch::Tensor& value) {
    if (fails) throw std::runtime_error("bad sample");
    const torch::Tensor result = BurningFunction::apply(fc->forward(value));
    return behind ? behind(result) : result;
  }
  nn::Linear fc;
  bool fails = false;
  std::function<torch::Tensor(const torch::Tensor&)> behind;
};
TORCH_MODULE(BurningNet);

bool IsEngineReplaced() {
  return &torch::autograd::Engine::get_default_engine() != &torch::autograd::Engine::get_base_engine();
}

// The plan watches no activation.
struct InnerJob : JobOf<Watched<BurningNet>> {
  explicit InnerJob(const std::string& more = R"("dynamic_on": true, "wg_distribution": true)")
      : JobOf(R"({"targets": {}, "collect_times": 100, )" + more + "}", Watched<BurningNet>()) {
    REQUIRE(monitor->Refresh(std::chrono::seconds(60)) != RefreshOutcome::kTimedOut);
  }
  bool IsCollecting() { return monitor->core().recorder().collecting(); }
  void Train(int micro_batches = 1) {
    JobOf::Train([&] { optimizer.step(); }, micro_batches);
  }
  // The value of a part, -1 if it is absent.
  double Seconds(int64_t step, const std::string& part) {
    const nlohmann::json beat = Beat(step);
    CheckSum(beat);
    double inner = 0;
    for (const char* each : {"forward_seconds", "backward_seconds", "communication_seconds"})
      inner += beat.value(each, 0.0);
    CHECK(inner <= beat["compute_seconds"].get<double>() + 1e-8);
    return beat.value(part + "_seconds", -1.0);
  }
};

TEST_CASE("collected steps have forward and backward, summed over micro-batches") {
  InnerJob job;
  for (int i = 0; i < 4; ++i) job.Train(2);
  CHECK(job.Seconds(3, "forward") >= 2 * kBurnt);
  CHECK(job.Seconds(3, "backward") >= 2 * kBurnt);
  CHECK(job.Seconds(3, "communication") == -1);
  (void)job.monitor->Close(std::chrono::seconds(60));
  CHECK(!IsEngineReplaced());
}

TEST_CASE("a step that is not collected has neither forward and backward nor an engine of the monitor") {
  InnerJob job(R"("dynamic_on": true, "wg_distribution": true, "step_interval": 2)");
  std::vector<bool> collected;
  for (int i = 0; i < 8; ++i) {
    collected.push_back(job.IsCollecting());
    if (i > 0) CHECK(IsEngineReplaced() == collected.back());
    job.Train();
  }
  for (int64_t step = 1; step < 8; ++step) {
    CAPTURE(step);
    CHECK((job.Seconds(step, "forward") >= kBurnt) == collected[static_cast<size_t>(step)]);
    CHECK((job.Seconds(step, "backward") >= kBurnt) == collected[static_cast<size_t>(step)]);
  }
  CHECK(collected[6] != collected[7]);
}

TEST_CASE("without a plan no forward and no pass is measured") {
  InnerJob job(R"("dynamic_on": false)");
  for (int i = 0; i < 3; ++i) {
    CHECK(!IsEngineReplaced());
    job.Train();
  }
  CHECK(job.Seconds(2, "forward") == -1);
  CHECK(job.Seconds(2, "backward") == -1);
}

TEST_CASE("a forward is measured under a plan of activations as well") {
  InnerJob job(R"("dynamic_on": true, "xy_distribution": true)");
  for (int i = 0; i < 4; ++i) job.Train(2);
  CHECK(!job.harness.RowsOf(SiteKind::kActv).empty());
  CHECK(job.Seconds(3, "forward") >= 2 * kBurnt);
}

TEST_CASE("a forward that throws ends there") {
  const std::string plan = GENERATE(R"("wg_distribution": true)", R"("xy_distribution": true)");
  InnerJob job(R"("dynamic_on": true, )" + plan);
  for (int i = 0; i < 4; ++i) {
    job.net->fails = true;
    CHECK_THROWS_AS(job.net->forward(torch::ones({2, 3})), std::runtime_error);
    job.net->fails = false;
    Burn();
    job.Train();
  }
  CHECK(job.Seconds(3, "forward") >= kBurnt);
  CHECK(job.Seconds(3, "forward") + job.Seconds(3, "backward") + kBurnt <= job.Seconds(3, "compute"));
}

TEST_CASE("a pass that throws ends there") {
  InnerJob job;
  for (int i = 0; i < 4; ++i) {
    const torch::Tensor output = job.net->forward(torch::ones({2, 3}));
    output.register_hook([](const torch::Tensor&) { throw std::runtime_error("no memory"); });
    CHECK_THROWS(output.sum().backward());
    Burn();
    job.Train();
  }
  CHECK(job.Seconds(3, "backward") >= kBurnt);
  CHECK(job.Seconds(3, "forward") + job.Seconds(3, "backward") + kBurnt <= job.Seconds(3, "compute"));
}

TEST_CASE("a forward that a pass repeats, and a pass in it, are part of the backward") {
  InnerJob job;
  for (int i = 0; i < 4; ++i) {
    job.optimizer.zero_grad();
    const torch::Tensor output = job.net->forward(torch::ones({2, 3}));
    output.register_hook([&](const torch::Tensor&) {
      const at::AutoGradMode enabled(true);
      job.net->forward(torch::ones({2, 3})).sum().backward();
    });
    output.sum().backward();
    Burn();
    job.Train();
  }
  CHECK(job.Seconds(3, "forward") >= 2 * kBurnt);
  CHECK(job.Seconds(3, "backward") >= 4 * kBurnt);
  CHECK(job.Seconds(3, "forward") + job.Seconds(3, "backward") + kBurnt <= job.Seconds(3, "compute"));
}

TEST_CASE("a pass inside a forward is backward, and the rest behind it is forward again") {
  InnerJob job;
  job.net->behind = [](const torch::Tensor& result) {
    const std::vector<torch::Tensor> gradients = torch::autograd::grad({result.sum()}, {result});
    Burn();
    return result + gradients[0];
  };
  for (int i = 0; i < 4; ++i) job.Train();
  CHECK(job.Seconds(3, "forward") >= 2 * kBurnt);
  CHECK(job.Seconds(3, "backward") >= kBurnt);
}

TEST_CASE("an evaluation in the middle of a step is no forward") {
  InnerJob job;
  for (int i = 0; i < 4; ++i) {
    job.net->eval();
    for (int j = 0; j < 3; ++j) job.net->forward(torch::ones({2, 3}));
    job.net->train();
    job.Train();
  }
  CHECK(job.Seconds(3, "forward") >= kBurnt);
  CHECK(job.Seconds(3, "forward") + 3 * kBurnt <= job.Seconds(3, "compute"));
}

TEST_CASE("forwards without gradients are measured and do not count as left out") {
  InnerJob job;
  for (int i = 0; i < 4; ++i) {
    {
      const torch::NoGradGuard guard;
      for (int j = 0; j < 3; ++j) job.net->forward(torch::ones({2, 3}));
    }
    job.Train();
  }
  CHECK(job.Seconds(3, "forward") >= 4 * kBurnt);
  (void)job.monitor->Close(std::chrono::seconds(60));
  CHECK(job.harness.CountEvents(EventKind::kDegraded, "without gradient") == 0);
}

TEST_CASE("a forward and a pass on another thread are not parts of the step") {
  InnerJob job;
  for (int i = 0; i < 4; ++i) {
    std::thread([&] { job.net->forward(torch::ones({2, 3})).sum().backward(); }).join();
    job.optimizer.step();
  }
  CHECK(!job.Beat(3).contains("forward_seconds"));
  CHECK(!job.Beat(3).contains("backward_seconds"));
}

// Each parameter has an optimizer, which steps when its gradient is ready.
TEST_CASE("updates in a pass are not its time") {
  const testing::TemporaryDirectory directory;
  const testing::Variable variable("STEPWATCH_RUNTIME_DIR", directory / "run");
  Harness harness(R"({"targets": {}, "collect_times": 100, "dynamic_on": true, "wg_distribution": true})");
  harness.options.dynamic = true;
  Watched<BurningNet> net;
  std::vector<std::unique_ptr<Watched<Burns>>> optimizers;
  std::vector<torch::optim::Optimizer*> attached;
  for (const torch::Tensor& parameter : net->parameters()) {
    optimizers.push_back(std::make_unique<Watched<Burns>>(std::vector<torch::Tensor>{parameter}, Rate()));
    attached.push_back(optimizers.back().get());
  }
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, attached);
  REQUIRE(monitor.Refresh(std::chrono::seconds(60)) != RefreshOutcome::kTimedOut);
  for (int i = 0; i < 5; ++i) {
    torch::Tensor output = net->forward(torch::ones({2, 3}));
    output.register_hook([&](const torch::Tensor&) {
      for (const auto& optimizer : optimizers) optimizer->step();
    });
    output.sum().backward();
  }
  const nlohmann::json beat = BeatOf(directory / "run", 3);
  CAPTURE(beat.dump());
  CHECK(beat.value("optimizer_seconds", -1.0) >= 2 * kBurnt);
  CHECK(beat.value("backward_seconds", -1.0) >= kBurnt);
  CHECK(beat.value("forward_seconds", -1.0) >= kBurnt);
  CHECK(beat["optimizer_seconds"].get<double>() + beat["backward_seconds"].get<double>() +
            beat["forward_seconds"].get<double>() <=
        beat["step_seconds"].get<double>() + 1e-8);
}

TEST_CASE("a step that ends in its pass has neither forward nor backward") {
  InnerJob job;
  for (int i = 0; i < 5; ++i) {
    const torch::Tensor output = job.net->forward(torch::ones({2, 3}));
    if (i == 2) output.register_hook([&](const torch::Tensor&) { job.optimizer.step(); });
    output.sum().backward();
    if (i != 2) job.optimizer.step();
  }
  CHECK(job.Beat(1).contains("backward_seconds"));
  for (const int64_t step : {2, 3}) {
    CHECK(!job.Beat(step).contains("forward_seconds"));
    CHECK(!job.Beat(step).contains("backward_seconds"));
  }
  CHECK(job.Beat(4).contains("backward_seconds"));
}

TEST_CASE("several monitors measure side by side, and the last one leaves LibTorch's engine") {
  InnerJob first(R"("dynamic_on": true, "wg_distribution": true, "step_interval": 2)");
  {
    InnerJob second;
    for (int i = 0; i < 6; ++i) {
      first.Train();
      second.Train();
    }
    CHECK(second.Seconds(5, "forward") >= kBurnt);
    CHECK(second.Seconds(5, "backward") >= kBurnt);
    // One thread: what the other job does is time of this one as well.
    CHECK(first.Beat(4).contains("backward_seconds") != first.Beat(5).contains("backward_seconds"));
  }
  for (int i = 0; i < 2; ++i) first.Train();
  (void)first.monitor->Close(std::chrono::seconds(60));
  CHECK(!IsEngineReplaced());
}

TEST_CASE("monitors on threads of their own come and go while others are in a pass") {
  const auto train = [] {
    for (int i = 0; i < 6; ++i) {
      Harness harness(R"({"targets": {}, "wg_distribution": true, "collect_times": 100})");
      Watched<BurningNet> net;
      Sgd optimizer(net->parameters(), Rate());
      TorchMonitor monitor(harness.options);
      monitor.Attach(*net, optimizer);
      for (int step = 0; step < 4; ++step) {
        net->forward(torch::ones({2, 3})).sum().backward();
        optimizer.step();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(train);
  for (std::thread& each : threads) each.join();
  CHECK(!IsEngineReplaced());
}

}  // namespace
}  // namespace stepwatch::tests
