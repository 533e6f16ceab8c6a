// The order of destruction, the objects that may be attached, and the end of a step.
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "tests/front_ends/torch/nets.h"

namespace stepwatch::tests {
namespace {

constexpr const char* kAllButMoments =
    R"({"xy_distribution": true, "wg_distribution": true, "param_distribution": true})";

struct TwoLayersImpl : nn::Module {
  TwoLayersImpl() {
    fc1 = register_module("fc1", nn::Linear(4, 4));
    fc2 = register_module("fc2", nn::Linear(4, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) { return fc2(torch::relu(fc1(x))); }
  nn::Linear fc1{nullptr}, fc2{nullptr};
};
TORCH_MODULE(TwoLayers);

torch::Tensor Loss(TwoLayers& net) {
  return net(torch::randn({3, 4})).square().mean();
}

void Step(TwoLayers& net, torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  Loss(net).backward();
  optimizer.step();
}

}  // namespace

TEST_CASE("the monitor may die before model, optimizer and graph") {
  Harness harness(kAllButMoments);
  TwoLayers net;
  Sgd optimizer(net->parameters(), Rate());
  auto monitor = std::make_unique<TorchMonitor>(harness.options);
  monitor->Attach(*net, optimizer);
  Step(net, optimizer);
  const torch::Tensor pending = Loss(net);  // its graph carries hooks
  monitor.reset();
  const size_t rows = harness.rows().size();
  pending.backward();
  optimizer.step();
  Step(net, optimizer);
  CHECK(harness.rows().size() == rows);
  CHECK(rows > 0);
}

TEST_CASE("the model may die before the monitor") {
  Harness harness(kAllButMoments);
  TorchMonitor monitor(harness.options);
  std::optional<Sgd> optimizer;
  {
    TwoLayers net;
    optimizer.emplace(net->parameters(), Rate());
    monitor.Attach(*net, *optimizer);
    Step(net, *optimizer);
  }
  optimizer->step();
  optimizer.reset();
  CHECK(monitor.Close().ok());
  CHECK(harness.LedgersBalance());
}

TEST_CASE("the optimizer may die before the monitor, and another takes over the clock") {
  Harness harness(kAllButMoments);
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  {
    Sgd first(net->parameters(), Rate());
    monitor.Attach(*net, first);
    Step(net, first);
  }
  Loss(net).backward();
  Watched<torch::optim::AdamW> second(net->parameters(), torch::optim::AdamWOptions(1e-3));
  monitor.Attach(*net, second);
  Step(net, second);
  Step(net, second);
  CHECK(monitor.core().step() == 3);
  CHECK(monitor.Close().ok());
  CHECK(harness.RowsOf(SiteKind::kParamUpdated, 2).size() == 4);
  CHECK(harness.LedgersBalance());
}

TEST_CASE("an optimizer that is moved stays watched") {
  Harness harness(kAllButMoments);
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  Sgd first(net->parameters(), Rate());
  monitor.Attach(*net, first);
  Sgd second = std::move(first);
  Step(net, second);
  CHECK(monitor.core().step() == 1);
  Sgd third(std::vector<torch::Tensor>{}, Rate());
  third = std::move(second);
  Step(net, third);
  CHECK(monitor.core().step() == 2);
}

TEST_CASE("a backward after its plan has ended is no concern of the next") {
  Harness harness(kAllButMoments);
  harness.options.dynamic = true;
  harness.Save(R"({"dynamic_on": true, "xy_distribution": true, "collect_times": 1})");
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  Sgd optimizer(net->parameters(), Rate());
  monitor.Attach(*net, optimizer);
  Step(net, optimizer);
  const torch::Tensor pending = Loss(net);  // collected step 1
  optimizer.step();
  harness.Save(R"({"dynamic_on": true, "wg_distribution": true, "collect_times": 1, "targets": {"fc1": {}}})");
  CHECK(monitor.Refresh(std::chrono::seconds(10)) == RefreshOutcome::kArmed);
  optimizer.step();
  pending.backward();  // step 3, under the second plan
  optimizer.step();
  CHECK(monitor.Close().ok());
  CHECK(harness.RowsOf(SiteKind::kActv, 1).size() == 4);
  CHECK(harness.RowsOf(SiteKind::kActvGrad).empty());
  CHECK(harness.RowsOf(SiteKind::kGradUnreduced, 3).size() == 2);
  CHECK(harness.LedgersBalance());
}

TEST_CASE("hooks are on while a plan wants them, and off again") {
  Harness harness("{}");
  harness.options.dynamic = true;
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  Sgd optimizer(net->parameters(), Rate());
  monitor.Attach(*net, optimizer);
  auto forward_is_plain = [&] { return net->fc1(torch::randn({1, 4})).grad_fn()->name() == "AddmmBackward0"; };
  auto gradients_are_plain = [&] {
    return torch::autograd::impl::post_acc_grad_hooks(net->fc1->weight) == nullptr &&
           torch::autograd::impl::grad_accumulator(net->fc1->weight)->post_hooks().empty();
  };
  Step(net, optimizer);
  CHECK(gradients_are_plain());
  harness.Save(R"({"dynamic_on": true, "wg_distribution": true, "xy_distribution": true, "collect_times": 1})");
  CHECK(monitor.Refresh(std::chrono::seconds(10)) == RefreshOutcome::kArmed);
  CHECK(gradients_are_plain());
  Step(net, optimizer);
  CHECK(!gradients_are_plain());
  Step(net, optimizer);
  CHECK(gradients_are_plain());
  CHECK(forward_is_plain());
  CHECK(monitor.Close().ok());
  CHECK(harness.RowsOf(SiteKind::kGradUnreduced, 2).size() == 4);
}

TEST_CASE("a step ends when each optimizer has stepped, in whatever order they are attached and step") {
  const bool is_list = GENERATE(false, true);
  const bool other_order = GENERATE(false, true);
  Harness harness(R"({"wg_distribution": true, "param_distribution": true})");
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  const std::vector<torch::Tensor> all = net->parameters();
  Sgd first({all[0], all[2]}, Rate()), second({all[1], all[3]}, Rate());
  if (is_list) {
    monitor.Attach(*net, {&first, &second});
  } else {
    monitor.Attach(*net, first);
    monitor.Attach(*net, second);
  }
  for (int step = 0; step < 3; ++step) {
    Loss(net).backward();
    (other_order ? second : first).step();
    CHECK(monitor.core().step() == step);
    (other_order ? first : second).step();
    CHECK(monitor.core().step() == step + 1);
    net->zero_grad();
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < 3; ++step) CHECK(harness.RowsOf(SiteKind::kParamUpdated, step).size() == 4);
}

TEST_CASE("the program names what ends a step") {
  Harness harness(R"({"wg_distribution": true})");
  TwoLayers net;
  const std::vector<torch::Tensor> all = net->parameters();
  Sgd first({all[0], all[2]}, Rate()), second({all[1], all[3]}, Rate());
  SECTION("an optimizer") {
    harness.options.clock = &first;
    TorchMonitor monitor(harness.options);
    monitor.Attach(*net, {&first, &second});
    Step(net, second);
    CHECK(monitor.core().step() == 0);
    Step(net, first);
    CHECK(monitor.core().step() == 1);
  }
  SECTION("EndStep, which ends no step that an optimizer has ended") {
    TorchMonitor monitor(harness.options);
    monitor.Attach(*net, {&first, &second});
    for (const int64_t steps : {1, 2}) {
      Step(net, first);
      Step(net, second);
      CHECK(monitor.core().step() == 1);
      monitor.EndStep();
      CHECK(monitor.core().step() == steps);
    }
  }
  SECTION("EndStep, as the options announce") {
    harness.options.ends_step_by_hand = true;
    TorchMonitor monitor(harness.options);
    monitor.Attach(*net, {&first, &second});
    Step(net, first);
    Step(net, second);
    CHECK(monitor.core().step() == 0);
    monitor.EndStep();
    CHECK(monitor.core().step() == 1);
  }
}

TEST_CASE("an optimizer whose part of the model others train from now on is not waited for") {
  Harness harness(R"({"wg_distribution": true})");
  TwoLayers net;
  const std::vector<torch::Tensor> all = net->parameters();
  Sgd old(all, Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, old);
  for (int step = 0; step < 2; ++step) Step(net, old);
  Sgd first({all[0], all[1]}, Rate()), second({all[2], all[3]}, Rate());
  SECTION("two take its place together") {
    monitor.Attach(*net, {&first, &second});
    for (int step = 2; step < 6; ++step) {
      Step(net, first);
      Step(net, second);
    }
  }
  SECTION("the rest of its part is frozen") {
    for (torch::Tensor parameter : {all[0], all[1]}) parameter.requires_grad_(false);
    monitor.Attach(*net, second);
    for (int step = 2; step < 6; ++step) Step(net, second);
  }
  CHECK(monitor.core().step() == 6);
  CHECK(monitor.Close().ok());
}

TEST_CASE("an optimizer that is destroyed is not waited for") {
  Harness harness(R"({"wg_distribution": true})");
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  const std::vector<torch::Tensor> all = net->parameters();
  Sgd first({all[0], all[2]}, Rate());
  auto second = std::make_unique<Sgd>(std::vector<torch::Tensor>{all[1], all[3]}, Rate());
  monitor.Attach(*net, {&first, second.get()});
  Step(net, first);
  Step(net, *second);
  CHECK(monitor.core().step() == 1);
  second.reset();
  Step(net, first);
  CHECK(monitor.core().step() == 2);
}

TEST_CASE("a model without an optimizer gives activations and un-reduced gradients") {
  Harness harness(kAllButMoments);
  harness.options.grad_acc_steps = 2;
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  monitor.Attach(*net);
  Loss(net).backward();  // one micro-batch of two: taken at the end of the step
  monitor.EndStep();
  CHECK(monitor.Close().ok());
  CHECK(harness.RowsOf(SiteKind::kActv, 0).size() == 4);
  CHECK(harness.RowsOf(SiteKind::kGradUnreduced, 0).size() == 4);
  CHECK(harness.RowsOf(SiteKind::kParamUpdated).empty());
  CHECK(harness.CountEvents(EventKind::kWarning, "around the update of an attached optimizer, and none is attached") ==
        1);
}

TEST_CASE("a model that has grown is attached again and the window goes on") {
  Harness harness(R"({"wg_distribution": true, "collect_times": 4})");
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  Sgd optimizer(net->parameters(), Rate());
  monitor.Attach(*net, optimizer);
  Step(net, optimizer);
  nn::Linear adapter = net->register_module("adapter", nn::Linear(2, 2));
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(adapter->parameters()));
  monitor.Attach(*net, optimizer);
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    adapter(net(torch::randn({3, 4}))).square().mean().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  CHECK(harness.RowsOf(SiteKind::kGradReduced, 0).size() == 4);
  for (int step = 1; step < 4; ++step) {
    CHECK(harness.RowsOf(SiteKind::kGradReduced, step).size() == 6);
    CHECK(harness.RowsOf(SiteKind::kGradUnreduced, step).size() == 6);
  }
  CHECK(harness.RowsOf(SiteKind::kGradReduced, 4).empty());
  CHECK(harness.LedgersBalance());
}

TEST_CASE("several chunks are distinguished by their number") {
  Harness harness(kAllButMoments);
  TorchMonitor monitor(harness.options);
  TwoLayers first, second;
  std::vector<torch::Tensor> parameters = first->parameters();
  for (const torch::Tensor& parameter : second->parameters()) parameters.push_back(parameter);
  Sgd optimizer(parameters, Rate());
  monitor.Attach({first.get(), second.get()}, optimizer);
  (Loss(first) + Loss(second)).backward();
  optimizer.step();
  CHECK(monitor.Close().ok());
  int of_second = 0;
  for (const Row& row : harness.RowsOf(SiteKind::kGradReduced, 0)) of_second += row.chunk == 1;
  CHECK(of_second == 4);
  CHECK(harness.RowsOf(SiteKind::kActv, 0).size() == 8);
}

TEST_CASE("a module or parameter that is registered under two names is listed under the first") {
  struct TiedImpl : nn::Module {
    TiedImpl() {
      a = register_module("a", nn::Linear(4, 4));
      register_module("again", a);
      b = register_module("b", nn::Linear(4, 4));
      b->weight = b->register_parameter("tied", a->weight);
    }
    torch::Tensor forward(const torch::Tensor& x) { return b(a(x)); }
    nn::Linear a{nullptr}, b{nullptr};
  };
  Harness harness(kAllButMoments);
  TorchMonitor monitor(harness.options);
  auto net = std::make_shared<TiedImpl>();
  Sgd optimizer(std::vector<torch::Tensor>{net->a->weight, net->a->bias, net->b->bias}, Rate());
  monitor.Attach(*net, optimizer);
  net->forward(torch::randn({2, 4})).sum().backward();
  optimizer.step();
  CHECK(monitor.Close().ok());
  CHECK(harness.Names(SiteKind::kActv) == "a.input:0 a.output:0 b.input:0 b.output:0");
  CHECK(harness.Names(SiteKind::kGradReduced) == "a.weight:0 a.bias:0 b.bias:0");
}

TEST_CASE("a root that no shared_ptr holds can be watched") {
  Harness harness(kAllButMoments);
  TwoLayersImpl net;
  Sgd optimizer(net.parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(net, optimizer);
  net.forward(torch::randn({2, 4})).sum().backward();
  optimizer.step();
  CHECK(monitor.Close().ok());
  CHECK(harness.RowsOf(SiteKind::kActv, 0).size() == 4);
}

TEST_CASE("objects that cannot be attached are refused with a reason") {
  Harness harness(kAllButMoments);
  TwoLayers net;
  Sgd optimizer(net->parameters(), Rate());
  torch::optim::SGD plain(net->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  CHECK_THROWS_WITH(monitor.Attach(*net, plain), Catch::Contains("stepwatch::Watched<torch::optim::"));
  monitor.Attach(*net, optimizer);
  TorchMonitor second(harness.options);
  CHECK_THROWS_WITH(second.Attach(*net, optimizer), Catch::Contains("another TorchMonitor"));
  TwoLayers other;
  CHECK_THROWS_WITH(second.Attach(*other, optimizer), Catch::Contains("another TorchMonitor"));
  CHECK(monitor.Close().ok());
  second.Attach(*net, optimizer);
  Step(net, optimizer);
  CHECK(second.core().step() == 1);
  CHECK_THROWS_AS(monitor.Attach(*net, optimizer), std::invalid_argument);
}

TEST_CASE("in static mode a bad config fails the construction, in dynamic mode it is an event") {
  Harness harness(R"({"wg_distribution": 3})");
  CHECK_THROWS_WITH(TorchMonitor(harness.options), Catch::Contains("wg_distribution") && Catch::Contains("line 1"));
  harness.options.dynamic = true;
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  Sgd optimizer(net->parameters(), Rate());
  monitor.Attach(*net, optimizer);
  Step(net, optimizer);
  CHECK(harness.CountEvents(EventKind::kRefused, "") == 1);
}

TEST_CASE("a model of plain modules logs how to get activations, and has all other rows") {
  struct PlainImpl : torch::nn::Module {
    PlainImpl() { fc = register_module("fc", torch::nn::Linear(4, 4)); }
    torch::Tensor forward(const torch::Tensor& x) { return fc(x); }
    torch::nn::Linear fc{nullptr};
  };
  Harness harness(kAllButMoments);
  TorchMonitor monitor(harness.options);
  auto net = std::make_shared<PlainImpl>();
  Sgd optimizer(net->parameters(), Rate());
  monitor.Attach(*net, optimizer);
  net->forward(torch::randn({2, 4})).sum().backward();
  optimizer.step();
  CHECK(monitor.Close().ok());
  CHECK(harness.CountEvents(EventKind::kWarning, "namespace nn = stepwatch::nn") == 1);
  CHECK(harness.RowsOf(SiteKind::kActv).empty());
  CHECK(harness.RowsOf(SiteKind::kGradReduced, 0).size() == 2);
}

TEST_CASE("a sink that throws does not stop the training") {
  struct Throwing : Sink {
    WriteResult Write(const RecordLayout&, const StepFrame&) override { throw std::runtime_error("sink"); }
  };
  Harness harness(kAllButMoments);
  harness.options.extra_sinks.push_back(std::make_shared<Throwing>());
  TorchMonitor monitor(harness.options);
  TwoLayers net;
  Sgd optimizer(net->parameters(), Rate());
  monitor.Attach(*net, optimizer);
  for (int step = 0; step < 3; ++step) Step(net, optimizer);
  CHECK(monitor.core().step() == 3);
}

}  // namespace stepwatch::tests
