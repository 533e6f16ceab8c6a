// The breakdown of steps by time, as the beats of a job have it.
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/http/client.h"
#include "stepwatch/part_scope.h"
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

struct PartsJob {
  PartsJob() {
    harness.options.dynamic = true;
    monitor.emplace(harness.options);
    monitor->Attach(*net, optimizer);
  }
  void Train(const std::function<void()>& update) {
    {
      const PartScope waiting(&monitor->core(), StepPart::kData);
      Burn();
    }
    optimizer.zero_grad();
    net->forward(torch::ones({2, 3})).sum().backward();
    update();
  }
  // The last beat of a step.
  nlohmann::json Beat(int64_t step) {
    std::vector<control_socket::FoundJob> found;
    REQUIRE(testing::Eventually([&] {
      found = control_socket::FindJobs({.directories = {directory / "run"}});
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

  const testing::TemporaryDirectory directory;
  const testing::Variable variable{"STEPWATCH_RUNTIME_DIR", directory / "run"};
  Harness harness{R"({"targets": {}, "dynamic_on": false})"};
  nn::Linear net{3, 2};
  Watched<Burns> optimizer{net->parameters(), Rate()};
  std::optional<TorchMonitor> monitor;
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

}  // namespace
}  // namespace stepwatch::tests
