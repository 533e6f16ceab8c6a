// A model that changes while it is trained, and torch's own numbers for its rows.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/front_ends/torch/nets.h"

namespace stepwatch::tests {

using AdamW = Watched<torch::optim::AdamW>;
using Parameters = std::vector<torch::Tensor>;

inline constexpr const char* kOfParameters =
    R"({"wg_distribution": true, "param_distribution": true, "mv_distribution": true})";
inline constexpr const char* kOfAll =
    R"({"xy_distribution": true, "wg_distribution": true, "param_distribution": true})";
inline constexpr int kSteps = 14;

inline torch::optim::AdamWOptions AdamRate() {
  return torch::optim::AdamWOptions(1e-2);
}

// Points whose number changes, a body that may be frozen and a head that may be replaced.
struct ChangingImpl : nn::Module {
  ChangingImpl() {
    points = register_parameter("points", torch::randn({6, 4}));
    body = register_module("body", nn::Linear(4, 4));
    head = register_module("head", nn::Linear(4, 2));
  }
  torch::Tensor forward() {
    torch::Tensor x = head(torch::tanh(body(points)));
    if (more) x = more(x);
    return x.square().mean();
  }
  void ReplacePoints(int64_t count) {
    points = torch::randn({count, 4}).requires_grad_();
    parameters_["points"] = points;
  }
  torch::Tensor points;
  nn::Linear body{nullptr}, head{nullptr}, more{nullptr};
};
TORCH_MODULE(Changing);

inline void Freeze(const nn::Linear& part, bool frozen) {
  for (torch::Tensor& parameter : part->parameters()) parameter.set_requires_grad(!frozen);
}

inline void PutInGroup(torch::optim::Optimizer& optimizer, const torch::Tensor& old, const torch::Tensor& fresh) {
  for (auto& group : optimizer.param_groups())
    for (torch::Tensor& parameter : group.params())
      if (parameter.is_same(old)) parameter = fresh;
  optimizer.state().erase(old.unsafeGetTensorImpl());
}

// The values that torch's own operators give for the parameters that have a gradient, by kind and name.
using Norms = std::map<std::pair<SiteKind, std::string>, double>;

inline Norms BeforeUpdate(const Changing& model) {
  Norms norms;
  for (const auto& item : model->named_parameters()) {
    if (!item.value().grad().defined()) continue;
    norms[{SiteKind::kGradUnreduced, item.key()}] = Norm(item.value().grad());
    norms[{SiteKind::kGradReduced, item.key()}] = Norm(item.value().grad());
    norms[{SiteKind::kParamOrigin, item.key()}] = Norm(item.value());
  }
  return norms;
}

inline void AddAfterUpdate(const Changing& model, Norms* norms) {
  for (const auto& item : model->named_parameters())
    if (norms->count({SiteKind::kParamOrigin, item.key()}) > 0)
      (*norms)[{SiteKind::kParamUpdated, item.key()}] = Norm(item.value());
}

// The step's rows of these kinds are these, and each is there once. Without those of un-reduced gradients that `late`
// says may be absent.
inline void CheckRows(const Harness& harness, int64_t step, const Norms& norms, const std::string& late = "") {
  INFO("step " << step);
  Norms seen;
  for (const SiteKind kind :
       {SiteKind::kGradUnreduced, SiteKind::kGradReduced, SiteKind::kParamOrigin, SiteKind::kParamUpdated})
    for (const Row& row : harness.RowsOf(kind, step)) {
      INFO(SiteKindName(kind) << " " << row.name);
      CHECK(seen.emplace(std::pair(kind, row.name), ValueOf(row.record, Stat::kNorm)).second);
    }
  for (const auto& [key, norm] : norms) {
    INFO(SiteKindName(key.first) << " " << key.second);
    const auto found = seen.find(key);
    if (found == seen.end() && key.first == SiteKind::kGradUnreduced && key.second == late) continue;
    REQUIRE(found != seen.end());
    CHECK(found->second == Approx(norm).epsilon(1e-6));
    seen.erase(found);
  }
  for (const auto& [key, norm] : seen) FAIL_CHECK(SiteKindName(key.first) << " " << key.second << " is a row too many");
}

inline Parameters AllParameters(const Changing& model) {
  return model->parameters();
}

// A changing model under a monitor.
struct ChangingJob {
  // `listed` returns the parameters that the optimizer lists, and may freeze others before the monitor sees the model.
  explicit ChangingJob(
      const std::string& config, const std::function<Parameters(const Changing&)>& listed = AllParameters,
      const std::function<void(Options&)>& set = [](Options&) {})
      : harness(config), optimizer(listed(model), AdamRate()) {
    set(harness.options);
    monitor = std::make_unique<TorchMonitor>(harness.options);
    monitor->Attach(*model, optimizer);
  }

  // Trains, with a change before each step.
  void TrainAndClose(int steps, const std::function<void(int)>& change) {
    for (int step = 0; step < steps; ++step) {
      change(step);
      optimizer.zero_grad();
      model().backward();
      optimizer.step();
    }
    CHECK(monitor->Close().ok());
    CHECK(harness.LedgersBalance());
  }
  // Trains `kSteps`, and checks the rows of each. The change may return the name of a parameter whose un-reduced
  // gradient may be absent in the step.
  void TrainAndCheck(const std::function<std::string(int)>& change) {
    std::vector<Norms> norms;
    std::vector<std::string> late;
    for (int step = 0; step < kSteps; ++step) {
      late.push_back(change(step));
      optimizer.zero_grad();
      model().backward();
      norms.push_back(BeforeUpdate(model));
      optimizer.step();
      AddAfterUpdate(model, &norms.back());
    }
    CHECK(monitor->core().step() == kSteps);
    CHECK(monitor->Close().ok());
    for (int step = 0; step < kSteps; ++step)
      CheckRows(harness, step, norms[static_cast<size_t>(step)], late[static_cast<size_t>(step)]);
    CHECK(harness.CountEvents(EventKind::kDegraded, "") == 0);
    CHECK(harness.LedgersBalance());
  }

  Harness harness;
  Changing model;
  AdamW optimizer;
  std::unique_ptr<TorchMonitor> monitor;
};

// Events are reported by another thread.
inline bool WaitForEvent(const Harness& harness, EventKind kind, const std::string& part) {
  for (int i = 0; i < 1000 && harness.CountEvents(kind, part) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return harness.CountEvents(kind, part) > 0;
}

}  // namespace stepwatch::tests
