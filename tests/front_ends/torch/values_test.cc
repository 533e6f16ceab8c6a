// Records of a training run: the statistics against plain torch operations on the same tensors, micro-batches,
// gradients before and after their reduction, closures, the structure.
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/front_ends/torch/nets.h"

namespace stepwatch::tests {
namespace {

constexpr const char* kEverything = R"({
  "xy_distribution": true, "wg_distribution": true, "param_distribution": true,
  "mv_distribution": true, "mg_direction": true, "collect_times": 3,
  "ops": ["norm", "mean", "min", "max", "zeros", "nans"]
})";

using Seen = std::map<std::string, torch::Tensor>;

torch::Tensor Copy(const torch::Tensor& tensor) {
  return tensor.detach().clone();
}

// Keeps copies of what its modules see, by the names of the rows.
struct SeeingNetImpl : nn::Module {
  SeeingNetImpl() {
    embedding = register_module("embedding", nn::Embedding(11, 24));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({24})));
    fc1 = register_module("fc1", nn::Linear(24, 33));
    relu = register_module("relu", nn::ReLU());
    fc2 = register_module("fc2", nn::Linear(33, 7));
  }
  template <class Module>
  torch::Tensor See(const std::string& name, Module& module, const torch::Tensor& x) {
    forward_seen[name + ".input"] = Copy(x);
    torch::Tensor y = module(x);
    forward_seen[name + ".output"] = Copy(y);
    // In a chain the gradient of this output is that of the next module's input.
    y.register_hook([this, name](const torch::Tensor& grad) { backward_seen[name + ".output"] = Copy(grad); });
    return y;
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = See("embedding", embedding, tokens);
    x = See("fc1", fc1, See("norm", norm, x));
    return See("fc2", fc2, See("relu", relu, x));
  }

  nn::Embedding embedding{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear fc1{nullptr}, fc2{nullptr};
  nn::ReLU relu{nullptr};
  Seen forward_seen, backward_seen;
};
TORCH_MODULE(SeeingNet);

void CheckValues(const Record& record, const torch::Tensor& tensor) {
  REQUIRE(!record.missing());
  REQUIRE(record.ndim == tensor.dim());
  for (int i = 0; i < record.ndim; ++i) CHECK(record.dims[static_cast<size_t>(i)] == tensor.size(i));
  const torch::Tensor exact = tensor.to(torch::kDouble);
  CHECK(ValueOf(record, Stat::kMin) == exact.min().item<double>());
  CHECK(ValueOf(record, Stat::kMax) == exact.max().item<double>());
  CHECK(ValueOf(record, Stat::kNans) == static_cast<double>(torch::isnan(exact).sum().item<int64_t>()));
  // Counted as torch counts: eps takes the tensor's dtype.
  const double numel = static_cast<double>(tensor.numel());
  const double zeros = static_cast<double>((tensor.abs() < 1e-8).sum().item<int64_t>()) / numel;
  CHECK(ValueOf(record, Stat::kZeros) == Approx(zeros).margin(1e-7));
  const double norm = exact.norm().item<double>();
  CHECK(std::abs(ValueOf(record, Stat::kNorm) - norm) <= 1e-12 * norm);
  const double mean_bound = 1e-12 * exact.abs().mean().item<double>();
  CHECK(std::abs(ValueOf(record, Stat::kMean) - exact.mean().item<double>()) <= mean_bound);
}

void CheckAll(const Harness& harness, SiteKind kind, const Seen& seen, int64_t step) {
  for (const auto& [name, tensor] : seen) {
    INFO(SiteKindName(kind) << " " << name << " step " << step);
    const auto record = harness.Find(kind, name, step);
    REQUIRE(record);
    CheckValues(*record, tensor);
  }
  CHECK(harness.RowsOf(kind, step).size() == seen.size());
}

// Everything that must be seen in one step, as plain torch has it.
struct Expected {
  Seen actv, actv_grad, grad, origin, updated, exp_avg, exp_avg_sq;
  std::map<std::string, double> direction;
};

Seen InputGradients(const Seen& outputs) {
  Seen all = outputs;
  all["norm.input"] = outputs.at("embedding.output");
  all["fc1.input"] = outputs.at("norm.output");
  all["relu.input"] = outputs.at("fc1.output");
  all["fc2.input"] = outputs.at("relu.output");
  return all;
}

Expected TrainOneStep(SeeingNet& net, torch::optim::AdamW& optimizer) {
  Expected expected;
  optimizer.zero_grad();
  const torch::Tensor tokens = torch::randint(11, {5, 6});
  net(tokens).to(torch::kFloat).square().mean().backward();
  expected.actv = net->forward_seen;
  expected.actv_grad = InputGradients(net->backward_seen);
  for (const auto& item : net->named_parameters()) {
    const torch::Tensor& parameter = item.value();
    expected.grad[item.key()] = Copy(parameter.grad());
    expected.origin[item.key()] = Copy(parameter);
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    auto& state = static_cast<torch::optim::AdamWParamState&>(*found->second);
    expected.exp_avg[item.key()] = Copy(state.exp_avg());
    expected.exp_avg_sq[item.key()] = Copy(state.exp_avg_sq());
    const torch::Tensor agreement = (parameter.grad().sign() * state.exp_avg().sign()).to(torch::kDouble).mean();
    expected.direction[item.key()] = (agreement.item<double>() + 1) / 2;
  }
  optimizer.step();
  for (const auto& item : net->named_parameters()) expected.updated[item.key()] = Copy(item.value());
  return expected;
}

void CheckStep(const Harness& harness, const Expected& expected, int64_t step) {
  CheckAll(harness, SiteKind::kActv, expected.actv, step);
  CheckAll(harness, SiteKind::kGradUnreduced, expected.grad, step);
  CheckAll(harness, SiteKind::kGradReduced, expected.grad, step);
  CheckAll(harness, SiteKind::kParamOrigin, expected.origin, step);
  CheckAll(harness, SiteKind::kParamUpdated, expected.updated, step);
  CheckAll(harness, SiteKind::kExpAvg, expected.exp_avg, step);
  CheckAll(harness, SiteKind::kExpAvgSq, expected.exp_avg_sq, step);
  for (const auto& [name, tensor] : expected.actv_grad) {
    INFO("actv_grad " << name);
    REQUIRE(harness.Find(SiteKind::kActvGrad, name, step));
    CheckValues(*harness.Find(SiteKind::kActvGrad, name, step), tensor);
  }
  // Token ids have no gradient: one row without values.
  REQUIRE(harness.Find(SiteKind::kActvGrad, "embedding.input", step));
  CHECK(harness.Find(SiteKind::kActvGrad, "embedding.input", step)->missing());
  CHECK(harness.RowsOf(SiteKind::kActvGrad, step).size() == expected.actv_grad.size() + 1);
  CHECK(harness.RowsOf(SiteKind::kMgDirection, step).size() == expected.direction.size());
  for (const auto& [name, share] : expected.direction) {
    INFO("mg_direction " << name);
    REQUIRE(harness.Find(SiteKind::kMgDirection, name, step));
    CHECK(ValueOf(*harness.Find(SiteKind::kMgDirection, name, step), Stat::kMean) == Approx(share).epsilon(1e-6));
  }
}

void CheckTrainingRun(torch::ScalarType dtype) {
  torch::manual_seed(7);
  Harness harness(kEverything);
  SeeingNet net;
  net->to(dtype);
  Watched<torch::optim::AdamW> optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
  std::vector<Expected> expected;
  {
    TorchMonitor monitor(harness.options);
    monitor.Attach(*net, optimizer);
    for (int step = 0; step < 4; ++step) expected.push_back(TrainOneStep(net, optimizer));
  }
  for (int step = 0; step < 3; ++step) CheckStep(harness, expected[static_cast<size_t>(step)], step);
  for (const Row& row : harness.rows()) CHECK(row.record.step < 3);
  CHECK(harness.LedgersBalance());
}

constexpr const char* kGradients = R"({"wg_distribution": true, "ops": ["norm"]})";

}  // namespace

TEST_CASE("the statistics of an fp32 training run are those that torch computes on the same tensors") {
  CheckTrainingRun(torch::kFloat);
}

TEST_CASE("the statistics of a bf16 training run are those that torch computes on the same tensors") {
  CheckTrainingRun(torch::kBFloat16);
}

TEST_CASE("calls are distinguished by the root's entries if the root is watched, and otherwise by module") {
  auto build = [](NetImpl& net) {
    auto twice = net.Add("twice", nn::Linear(4, 4));
    auto once = net.Add("once", nn::Linear(4, 4));
    net.run = [=](torch::Tensor x) mutable { return once(twice(twice(x))); };
  };
  Harness harness(R"({"xy_distribution": true, "forward_only": true, "targets": {"twice": {}, "once": {}}})");
  harness.options.grad_acc_steps = 2;
  SECTION("the root is watched") {
    Watched<Net> net;
    build(*net);
    Sgd optimizer(net->parameters(), Rate());
    TorchMonitor monitor(harness.options);
    monitor.Attach(*net, optimizer);
    for (int micro = 0; micro < 2; ++micro) net(torch::randn({2, 4})).sum().backward();
    optimizer.step();
    CHECK(monitor.Close().ok());
    CHECK(harness.Names(SiteKind::kActv, 0) ==
          "twice.input:0 twice.output:0 twice.input@1:0 twice.output@1:0 once.input:0 once.output:0 "
          "twice.input:1 twice.output:1 twice.input@1:1 twice.output@1:1 once.input:1 once.output:1");
  }
  SECTION("micro-batches are marked") {
    Net net;
    build(*net);
    Sgd optimizer(net->parameters(), Rate());
    TorchMonitor monitor(harness.options);
    monitor.Attach(*net, optimizer);
    for (int step = 0; step < 2; ++step) {
      for (int micro = 0; micro < 2; ++micro) {
        monitor.BeginMicroBatch();
        net(torch::randn({2, 4})).sum().backward();
      }
      optimizer.step();
    }
    CHECK(monitor.Close().ok());
    for (int step = 0; step < 2; ++step)
      CHECK(harness.Names(SiteKind::kActv, step) ==
            "twice.input:0 twice.output:0 twice.input@1:0 twice.output@1:0 once.input:0 once.output:0 "
            "twice.input:1 twice.output:1 twice.input@1:1 twice.output@1:1 once.input:1 once.output:1");
  }
  SECTION("neither: a module that is called once per micro-batch is right") {
    Net net;
    build(*net);
    RunSteps(harness, net, [&](int) {
      for (int micro = 0; micro < 2; ++micro) net(torch::randn({2, 4})).sum().backward();
    });
    CHECK(harness.Find(SiteKind::kActv, "once.output", 0, 0));
    CHECK(harness.Find(SiteKind::kActv, "once.output", 0, 1));
    CHECK(!harness.Find(SiteKind::kActv, "once.output@1", 0, 1));
  }
}

TEST_CASE("the gradient hook survives a change of dtype") {
  Harness harness(kGradients);
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 4));
  net->run = [=](torch::Tensor x) mutable { return fc(x.to(fc->weight.scalar_type())); };
  RunSteps(
      harness, net,
      [&](int step) {
        if (step == 1) net->to(torch::kDouble);
        net(torch::randn({2, 4})).square().sum().backward();
      },
      4);
  for (int step = 0; step < 4; ++step) {
    REQUIRE(harness.RowsOf(SiteKind::kGradUnreduced, step).size() == 2);
    CHECK(harness.RowsOf(SiteKind::kGradUnreduced, step)[0].record.dtype ==
          (step == 0 ? DType::kFloat32 : DType::kFloat64));
  }
}

TEST_CASE("a parameter without a gradient has weights but no gradient rows") {
  Harness harness(R"({"wg_distribution": true, "param_distribution": true})");
  Net net;
  auto used = net->Add("used", nn::Linear(4, 4));
  auto idle = net->Add("idle", nn::Linear(4, 4));
  auto frozen = net->Add("frozen", nn::Linear(4, 4));
  for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
  net->run = [=](torch::Tensor x) mutable { return used(x); };
  RunSteps(harness, net, [&](int) { net(torch::randn({2, 4})).sum().backward(); });
  CHECK(harness.Names(SiteKind::kGradUnreduced) != "");
  CHECK(harness.Names(SiteKind::kGradReduced) == "used.weight:0 used.bias:0");
  CHECK(harness.Names(SiteKind::kParamOrigin) == "used.weight:0 used.bias:0 idle.weight:0 idle.bias:0");
  CHECK(harness.Names(SiteKind::kParamUpdated) == "used.weight:0 used.bias:0 idle.weight:0 idle.bias:0");
}

TEST_CASE("a parameter without elements has no rows around the update") {
  Harness harness(R"({"wg_distribution": true, "param_distribution": true, "mv_distribution": true,
                      "mg_direction": true})");
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 4));
  const torch::Tensor empty = net->register_parameter("empty", torch::empty({0, 4}));
  Watched<torch::optim::Adam> optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, optimizer);
  for (int step = 0; step < 2; ++step) {
    (fc(torch::randn({2, 4})).sum() + empty.sum()).backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (const SiteKind kind : {SiteKind::kGradReduced, SiteKind::kParamOrigin, SiteKind::kParamUpdated,
                              SiteKind::kExpAvg, SiteKind::kExpAvgSq, SiteKind::kMgDirection})
    CHECK(harness.Names(kind, 1) == "fc.weight:0 fc.bias:0");
  CHECK(harness.LedgersBalance());
}

TEST_CASE("with a closure gradients are read after it has run, and before the update") {
  Harness harness(R"({"wg_distribution": true, "param_distribution": true, "targets": {"fc.weight": {}}})");
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 4));
  net->run = [=](torch::Tensor x) mutable { return fc(x); };
  double gradient = 0, weight_before = 0, weight_after = 0;
  const torch::Tensor x = torch::randn({2, 4});
  auto run = [&](auto& optimizer) {
    TorchMonitor monitor(harness.options);
    monitor.Attach(*net, optimizer);
    weight_before = Norm(fc->weight);
    bool first = true;
    optimizer.step([&] {
      optimizer.zero_grad();
      torch::Tensor loss = net(x).square().sum();
      loss.backward();
      if (first) gradient = Norm(fc->weight.grad());
      first = false;
      return loss;
    });
    weight_after = Norm(fc->weight);
    CHECK(monitor.core().step() == 1);
  };
  SECTION("SGD") {
    Sgd optimizer(net->parameters(), Rate());
    run(optimizer);
  }
  SECTION("LBFGS, which runs it many times") {
    Watched<torch::optim::LBFGS> optimizer(net->parameters(), torch::optim::LBFGSOptions(0.1));
    run(optimizer);
  }
  const auto reduced = harness.RowsOf(SiteKind::kGradReduced);
  REQUIRE(reduced.size() == 1);
  CHECK(ValueOf(reduced[0].record, Stat::kNorm) == Approx(gradient).epsilon(1e-12));
  CHECK(ValueOf(*harness.Find(SiteKind::kParamOrigin, "fc.weight"), Stat::kNorm) ==
        Approx(weight_before).epsilon(1e-12));
  CHECK(ValueOf(*harness.Find(SiteKind::kParamUpdated, "fc.weight"), Stat::kNorm) ==
        Approx(weight_after).epsilon(1e-12));
}

TEST_CASE("an optimizer without Adam's moments is reported once") {
  Harness harness(R"({"mv_distribution": true, "mg_direction": true})");
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 4));
  net->run = [=](torch::Tensor x) mutable { return fc(x); };
  RunSteps(
      harness, net,
      [&](int) {
        net(torch::randn({2, 4})).sum().backward();
      },
      3);
  CHECK(harness.rows().empty());
  CHECK(harness.CountEvents(EventKind::kWarning, "keeps no exp_avg") == 1);
}

TEST_CASE("print_struct writes what was seen in the first collected step, and the run goes on") {
  Harness harness(R"({"print_struct": true, "collect_times": 2})");
  Watched<Net> net;
  auto fc = net->Add("fc", nn::Linear(4, 3));
  net->run = [=](torch::Tensor x) mutable { return fc(x); };
  Sgd optimizer(net->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, optimizer);
  for (int step = 0; step < 3; ++step) {
    net(torch::randn({5, 4})).sum().backward();
    optimizer.step();
  }
  CHECK(monitor.core().step() == 3);
  CHECK(monitor.Close().ok());
  std::ifstream file(harness.output() / "module_struct" / "rank0" / "module_struct.json");
  REQUIRE(file);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str().find(R"("0:fc": {)") < text.str().find(R"("0:": {)"));
  CHECK(text.str().find(R"("tensor": "size=(5, 3), dtype=torch.float32")") != std::string::npos);
  CHECK(text.str().find(R"("0": "<class 'NoneType'>")") != std::string::npos);
}

}  // namespace stepwatch::tests
