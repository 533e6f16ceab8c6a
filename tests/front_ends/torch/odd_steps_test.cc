// Steps of optimizers that do more than to update, and optimizers that step within the backward pass: gradients are
// those by which parameters are updated.
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/front_ends/torch/nets.h"

namespace stepwatch::tests {
namespace {

constexpr const char* kOfUpdates = R"({"wg_distribution": true, "param_distribution": true, "mv_distribution": true})";
constexpr int kOddSteps = 8;
constexpr double kClipped = 1e-3;

struct SteppedNetImpl : nn::Module {
  SteppedNetImpl() {
    inner = register_module("inner", nn::Linear(4, 4));
    outer = register_module("outer", nn::Linear(4, 2));
  }
  torch::Tensor LossOf() { return outer(torch::tanh(inner(torch::randn({3, 4})))).square().mean(); }
  nn::Linear inner{nullptr}, outer{nullptr};
};
TORCH_MODULE(SteppedNet);

// Clips in its step, and may zero and compute the gradients there.
template <class Base>
struct DoesAll : Base {
  using Base::Base;
  torch::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override {
    torch::Tensor loss;
    if (train) {
      this->zero_grad();
      loss = train();
      loss.backward();
    }
    if (closure) loss = closure();
    torch::nn::utils::clip_grad_norm_(this->param_groups()[0].params(), kClipped);
    norm = Norm(this->param_groups()[0].params()[0].grad());
    Base::step();
    return loss;
  }
  std::function<torch::Tensor()> train;
  double norm = 0;  // of the gradient of the first parameter, by which it is updated
};
using DoesAllAround = DoesAll<Sgd>;                          // made of a watched one
using WatchedDoesAll = Watched<DoesAll<torch::optim::SGD>>;  // watched from outside
using WatchedMoments = Watched<DoesAll<torch::optim::Adam>>;

// Runs its closure several times, as LBFGS does, and updates by itself.
struct Searches : torch::optim::SGD {
  using SGD::SGD;
  torch::Tensor step(LossClosure closure) override {
    torch::Tensor loss;
    for (int i = 0; i < 3; ++i) {
      loss = closure();
      if (i == 0) norm = Norm(param_groups()[0].params()[0].grad());
      SGD::step();
    }
    return loss;
  }
  double norm = 0;
};

// Has an optimizer, and is one to the rest of the program.
struct Wraps : torch::optim::SGD {
  Wraps(const std::vector<torch::Tensor>& parameters, torch::optim::Optimizer* optimizer)
      : SGD(parameters, Rate()), inside(optimizer) {}
  torch::Tensor step(LossClosure) override {
    torch::nn::utils::clip_grad_norm_(param_groups()[0].params(), kClipped);
    norm = Norm(param_groups()[0].params()[0].grad());
    return inside->step();
  }
  torch::optim::Optimizer* inside;
  double norm = 0;
};

// The rows of the first parameter: one in each step, of these gradients.
void CheckReduced(const Harness& harness, const std::vector<double>& norms) {
  for (size_t step = 0; step < norms.size(); ++step) {
    INFO("step " << step);
    std::vector<double> seen;
    for (const Row& row : harness.RowsOf(SiteKind::kGradReduced, static_cast<int64_t>(step)))
      if (row.name.rfind("inner.weight", 0) == 0) seen.push_back(ValueOf(row.record, Stat::kNorm));
    REQUIRE(seen.size() == 1);
    CHECK(seen[0] == Approx(norms[step]).epsilon(1e-6));
    CHECK(harness.Names(SiteKind::kParamUpdated, static_cast<int64_t>(step)) ==
          "inner.weight:0 inner.bias:0 outer.weight:0 outer.bias:0");
    CHECK(harness.RowsOf(SiteKind::kParamOrigin, static_cast<int64_t>(step)).size() == 4);
    CHECK(harness.RowsOf(SiteKind::kGradUnreduced, static_cast<int64_t>(step)).size() == 4);
  }
  CHECK(harness.LedgersBalance());
}

template <class Optimizer>
void TrainInside(Harness& harness, SteppedNet& net, Optimizer& optimizer) {
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, optimizer);
  std::vector<double> norms;
  for (int step = 0; step < kOddSteps; ++step) {
    if (step % 3 == 0) {  // gradients come from outside
      optimizer.train = nullptr;
      optimizer.zero_grad();
      net->LossOf().backward();
      optimizer.step();
    } else if (step % 3 == 1) {  // from a closure
      optimizer.train = nullptr;
      optimizer.step([&] {
        optimizer.zero_grad();
        torch::Tensor loss = net->LossOf();
        loss.backward();
        return loss;
      });
    } else {  // the gradients of the step before are there when the step begins
      optimizer.train = [&] { return net->LossOf(); };
      optimizer.step();
    }
    norms.push_back(optimizer.norm);
    CHECK(monitor.core().step() == step + 1);
  }
  CHECK(monitor.Close().ok());
  CheckReduced(harness, norms);
}

// Steps an optimizer of each parameter as soon as its gradient is there.
struct StepsInBackward {
  explicit StepsInBackward(SteppedNet& net) {
    for (const auto& item : net->named_parameters())
      of.emplace(item.key(), std::make_unique<Sgd>(std::vector<torch::Tensor>{item.value()}, Rate()));
  }
  void Step(const std::string& name, const torch::Tensor& parameter) {
    CHECK(monitor->core().step() == static_cast<int64_t>(norms.size()) - 1);
    if (++passes[name] % passes_each != 0) return;
    norms.back()[name] = Norm(parameter.grad());
    of.at(name)->step();
    of.at(name)->zero_grad();
  }
  std::map<std::string, std::unique_ptr<Sgd>> of;
  std::map<std::string, int> passes;
  std::vector<std::map<std::string, double>> norms;
  TorchMonitor* monitor = nullptr;
  int passes_each = 1;
};

struct AfterAccumulation : torch::autograd::PostAccumulateGradHook {
  AfterAccumulation(StepsInBackward* owner, std::string parameter) : steps(owner), name(std::move(parameter)) {}
  void operator()(const torch::Tensor& parameter) override { steps->Step(name, parameter); }
  StepsInBackward* steps;
  std::string name;
};

struct BehindNode : torch::autograd::FunctionPostHook {
  BehindNode(StepsInBackward* owner, std::string parameter, const torch::Tensor& of)
      : steps(owner), name(std::move(parameter)), tensor(of) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    const torch::NoGradGuard no_grad;
    steps->Step(name, tensor);
    return outputs;
  }
  StepsInBackward* steps;
  std::string name;
  torch::Tensor tensor;
};

}  // namespace

TEST_CASE("an optimizer made of a watched one may do anything before it updates") {
  Harness harness(kOfUpdates);
  SteppedNet net;
  DoesAllAround optimizer(net->parameters(), Rate());
  TrainInside(harness, net, optimizer);
}

TEST_CASE("gradients of a class of the program's own are those that its step has updated by") {
  Harness harness(kOfUpdates);
  SteppedNet net;
  WatchedDoesAll optimizer(net->parameters(), Rate());
  TrainInside(harness, net, optimizer);
}

TEST_CASE("a class of the program's own has moments, and a warning why it has no mg_direction") {
  Harness harness(R"({"wg_distribution": true, "param_distribution": true, "mv_distribution": true,
                      "mg_direction": true})");
  SteppedNet net;
  WatchedMoments optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  TrainInside(harness, net, optimizer);
  CHECK(harness.RowsOf(SiteKind::kExpAvg, kOddSteps - 1).size() == 4);
  CHECK(harness.RowsOf(SiteKind::kMgDirection).empty());
  CHECK(harness.CountEvents(EventKind::kWarning, "mg_direction has no rows for 4 parameters") == 1);
}

TEST_CASE("a closure that a class of the program's own runs again leaves the gradients of its first run") {
  Harness harness(kOfUpdates);
  SteppedNet net;
  Watched<Searches> optimizer(net->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, optimizer);
  std::vector<double> norms;
  for (int step = 0; step < kOddSteps; ++step) {
    optimizer.step([&] {
      optimizer.zero_grad();
      torch::Tensor loss = net->LossOf();
      loss.backward();
      return loss;
    });
    norms.push_back(optimizer.norm);
  }
  CHECK(monitor.Close().ok());
  CheckReduced(harness, norms);
}

TEST_CASE("gradients of an optimizer inside of another one are read where it updates, whichever is attached") {
  const int attached = GENERATE(0, 1, 2, 3);  // the one inside, the one outside, both in either order
  INFO("attached: " << attached);
  Harness harness(kOfUpdates);
  SteppedNet net;
  Sgd inside(net->parameters(), Rate());
  Watched<Wraps> outside(net->parameters(), &inside);
  TorchMonitor monitor(harness.options);
  if (attached == 0) monitor.Attach(*net, inside);
  if (attached == 1) monitor.Attach(*net, outside);
  if (attached == 2) monitor.Attach(*net, {&inside, &outside});
  if (attached == 3) monitor.Attach(*net, {&outside, &inside});
  std::vector<double> norms;
  for (int step = 0; step < kOddSteps; ++step) {
    outside.zero_grad();
    net->LossOf().backward();
    outside.step();
    norms.push_back(outside.norm);
    CHECK(monitor.core().step() == step + 1);
  }
  CHECK(monitor.Close().ok());
  CheckReduced(harness, norms);
}

TEST_CASE("optimizers that step in the backward pass have the gradients of every parameter and step") {
  const bool each_pass = GENERATE(false, true);
  const bool is_behind_node = GENERATE(false, true);
  const int passes = GENERATE(1, 2);
  INFO("each pass " << each_pass << ", behind the node " << is_behind_node << ", passes " << passes);
  Harness harness(std::string(R"({"wg_distribution": true, "param_distribution": true, "xy_distribution": true,)") +
                  R"("monitor_mbs_grad": )" + (each_pass ? "true}" : "false}"));
  harness.options.grad_acc_steps = passes;
  SteppedNet net;
  StepsInBackward steps(net);
  steps.passes_each = passes;
  std::vector<decltype(torch::autograd::impl::grad_accumulator({}))> nodes;  // torch holds them weakly
  for (const auto& item : net->named_parameters()) {
    if (is_behind_node) {
      nodes.push_back(torch::autograd::impl::grad_accumulator(item.value()));
      nodes.back()->add_post_hook(std::make_unique<BehindNode>(&steps, item.key(), item.value()));
    } else {
      torch::autograd::impl::set_post_acc_grad_hooks(item.value(),
                                                     std::make_unique<AfterAccumulation>(&steps, item.key()));
    }
  }
  TorchMonitor monitor(harness.options);
  steps.monitor = &monitor;
  std::vector<torch::optim::Optimizer*> optimizers;
  for (const auto& [name, optimizer] : steps.of) optimizers.push_back(optimizer.get());
  monitor.Attach(*net, optimizers);
  for (int step = 0; step < kOddSteps; ++step) {
    steps.norms.emplace_back();
    for (int pass = 0; pass < passes; ++pass) {
      CHECK(monitor.core().step() == step);
      net->LossOf().backward();
    }
    CHECK(monitor.core().step() == step + 1);
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kOddSteps; ++step) {
    INFO("step " << step);
    const std::map<std::string, double>& norms = steps.norms[static_cast<size_t>(step)];
    REQUIRE(norms.size() == 4);
    for (const auto& [name, norm] : norms) {
      INFO(name);
      CHECK(harness.Find(SiteKind::kParamUpdated, name, step));
      const auto reduced = harness.Find(SiteKind::kGradReduced, name, step);
      REQUIRE(reduced);
      CHECK(ValueOf(*reduced, Stat::kNorm) == Approx(norm).epsilon(1e-6));
      std::vector<Record> unreduced;
      for (const Row& row : harness.RowsOf(SiteKind::kGradUnreduced, step))
        if (row.name == name) unreduced.push_back(row.record);
      REQUIRE(unreduced.size() == static_cast<size_t>(each_pass ? passes : 1));
      CHECK(ValueOf(unreduced.back(), Stat::kNorm) == Approx(norm).epsilon(1e-6));
    }
    CHECK(harness.RowsOf(SiteKind::kActvGrad, step).size() == static_cast<size_t>(4 * passes));
  }
  CHECK(harness.CountEvents(EventKind::kWarning, "does not step while others do") == 0);
  CHECK(harness.CountEvents(EventKind::kDegraded, "") == 0);
  CHECK(harness.LedgersBalance());
}

}  // namespace stepwatch::tests
