// The tensors that hooks see.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/front_ends/torch/nets.h"

namespace stepwatch::tests {
namespace {

constexpr const char* kActivations = R"({"xy_distribution": true, "ops": ["norm", "mean"]})";

}  // namespace

TEST_CASE("rows come in the order in which modules finish, and the network's input has no gradient") {
  Harness harness(kActivations);
  Net net;
  auto fc1 = net->Add("fc1", nn::Linear(4, 3));
  auto fc2 = net->Add("fc2", nn::Linear(3, 2));
  net->run = [=](torch::Tensor x) mutable { return fc2(fc1(x)); };
  RunSteps(harness, net, [&](int) { net(torch::randn({5, 4})).sum().backward(); });
  CHECK(harness.Names(SiteKind::kActv) == "fc1.input:0 fc1.output:0 fc2.input:0 fc2.output:0");
  CHECK(harness.Names(SiteKind::kActvGrad) == "fc2.output:0 fc2.input:0 fc1.output:0 fc1.input:0!");
}

TEST_CASE("an in-place module's input is measured before it is overwritten, and its gradient is found") {
  const std::vector<int64_t> shape = GENERATE(std::vector<int64_t>{5, 4}, std::vector<int64_t>{5, 2, 4});
  Harness harness(kActivations);
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 6));
  auto relu = net->Add("relu", nn::ReLU(nn::ReLUOptions(true)));
  torch::Tensor before, after;
  net->run = [&](torch::Tensor x) {
    torch::Tensor h = fc(x);
    before = h.detach().clone();
    const torch::Tensor other = h * 5;  // a use of the input that does not go through the module
    torch::Tensor y = relu(h);
    after = y.detach().clone();
    return (y * 2).sum() + other.sum();
  };
  RunSteps(harness, net, [&](int) { net(torch::randn(shape)).backward(); });
  CHECK(ValueOf(*harness.Find(SiteKind::kActv, "relu.input"), Stat::kNorm) == Approx(Norm(before)).epsilon(1e-12));
  CHECK(ValueOf(*harness.Find(SiteKind::kActv, "relu.output"), Stat::kNorm) == Approx(Norm(after)).epsilon(1e-12));
  const double passed = static_cast<double>((before > 0).sum().item<int64_t>());
  const auto input_grad = harness.Find(SiteKind::kActvGrad, "relu.input");
  REQUIRE(input_grad);
  CHECK(ValueOf(*input_grad, Stat::kNorm) == Approx(2 * std::sqrt(passed)));
  CHECK(input_grad->ndim == shape.size());
  CHECK(ValueOf(*harness.Find(SiteKind::kActvGrad, "relu.output"), Stat::kMean) == 2);
}

TEST_CASE("the gradient of an input that a module writes into unannounced is seen from the first call on") {
  Harness harness(kActivations);
  Net net;
  UserInplace(*net);
  RunSteps(
      harness, net,
      [&](int) {
        net(torch::randn({5, 6})).sum().backward();
      },
      2);
  for (const int step : {0, 1}) {
    const auto input = harness.Find(SiteKind::kActvGrad, "write.input", step);
    const auto output = harness.Find(SiteKind::kActvGrad, "write.output", step);
    REQUIRE((input && output));
    CHECK(ValueOf(*input, Stat::kNorm) == Approx(2 * ValueOf(*output, Stat::kNorm)));
  }
}

TEST_CASE("a second walk of the graph, for a weight alone, leaves the gradient of the input as it is") {
  Harness harness(kActivations);
  Net net;
  auto in = net->Add("in", nn::Linear(4, 4));
  auto fc = net->Add("fc", nn::Linear(4, 4));
  torch::Tensor hidden;
  net->run = [&](torch::Tensor x) { return fc(hidden = in(x)); };
  RunSteps(harness, net, [&](int) {
    const torch::Tensor loss = net(torch::randn({5, 4})).square().sum();
    hidden.retain_grad();
    loss.backward({}, /*retain_graph=*/true);
    (void)torch::autograd::grad({loss}, {fc->weight});
  });
  const auto input = harness.Find(SiteKind::kActvGrad, "fc.input");
  REQUIRE(input);
  CHECK(ValueOf(*input, Stat::kNorm) == Approx(Norm(hidden.grad())).epsilon(1e-6));
}

TEST_CASE("writing into a leaf that needs its gradient fails as it does without the monitor") {
  Harness harness(kActivations);
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 4));
  auto relu = net->Add("relu", nn::ReLU(nn::ReLUOptions(true)));
  auto write = net->Add("write", Watched<WritesInput>());
  net->run = [=](torch::Tensor x) mutable { return fc(x); };
  RunSteps(harness, net, [&](int) {
    torch::Tensor leaf = torch::randn({2, 4}).requires_grad_();
    CHECK_THROWS_AS(relu(leaf), c10::Error);
    CHECK_THROWS_AS(write(leaf), c10::Error);
    net(torch::randn({2, 4})).sum().backward();
  });
}

TEST_CASE("a forward that throws leaves the graph as it was") {
  struct ThrowsImpl : nn::Module {
    torch::Tensor forward(torch::Tensor) { throw std::runtime_error("mid forward"); }
  };
  struct Throws : torch::nn::ModuleHolder<ThrowsImpl> {
    using ModuleHolder::ModuleHolder;
  };
  Harness harness(kActivations);
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 4));
  auto bad = net->Add("bad", Watched<Throws>());
  net->run = [=](torch::Tensor x) mutable { return fc(x); };
  RunSteps(harness, net, [&](int) {
    torch::Tensor h = net(torch::randn({2, 4}));
    CHECK_THROWS_AS(bad(h), std::runtime_error);
    h.sum().backward();
  });
  CHECK(harness.Names(SiteKind::kActv) == "fc.input:0 fc.output:0");
  CHECK(harness.Find(SiteKind::kActvGrad, "fc.output"));
}

TEST_CASE("tuples get a number per element, and elements that are no tensor a row of nan") {
  Harness harness(kActivations);
  Net net;
  auto lstm = net->Add("lstm", nn::LSTM(3, 4));
  auto attention = net->Add("attention", nn::MultiheadAttention(nn::MultiheadAttentionOptions(4, 2)));
  net->run = [=](torch::Tensor x) mutable {
    const torch::Tensor y = std::get<0>(lstm(x));
    return std::get<0>(attention(y, y, y, torch::Tensor(), /*need_weights=*/false));
  };
  RunSteps(harness, net, [&](int) { net(torch::randn({5, 2, 3})).sum().backward(); });
  CHECK(harness.Names(SiteKind::kActv) ==
        "lstm.input:0 lstm.output_0:0 lstm.output_1:0 lstm.output_2:0 attention.input_0:0 attention.input_1:0 "
        "attention.input_2:0 attention.output_0:0 attention.output_1:0!");
}

TEST_CASE("evaluation gives no rows, and training without gradients only activations") {
  Harness harness(kActivations);
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 4));
  net->run = [=](torch::Tensor x) mutable { return fc(x); };
  RunSteps(
      harness, net,
      [&](int step) {
        if (step == 0) {
          net->eval();
          net(torch::randn({2, 4})).sum().backward();
          net->train();
        } else {
          const torch::NoGradGuard no_grad;
          net(torch::randn({2, 4}));
        }
      },
      2);
  CHECK(harness.RowsOf(SiteKind::kActv, 0).empty());
  CHECK(harness.RowsOf(SiteKind::kActv, 1).size() == 2);
  CHECK(harness.RowsOf(SiteKind::kActvGrad).empty());
}

TEST_CASE("hooks keep no graph alive") {
  Harness harness(kActivations);
  Net net;
  auto a = net->Add("a", nn::Linear(4, 4));
  auto relu = net->Add("relu", nn::ReLU(nn::ReLUOptions(true)));
  net->run = [=](torch::Tensor x) mutable { return relu(a(x)); };
  Sgd optimizer(net->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, optimizer);
  std::weak_ptr<int> guard;
  {
    const torch::Tensor y = net(torch::randn({2, 4}));
    auto held = std::make_shared<int>(1);
    guard = held;
    y.register_hook([held](const torch::Tensor&) {});
    held.reset();
    CHECK(!guard.expired());
    y.sum().backward();
  }
  CHECK(guard.expired());
  optimizer.step();
}

TEST_CASE("tensors that cannot be measured are dropped, counted and named once per kind") {
  struct OddImpl : nn::Module {
    std::tuple<torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
      return {torch::complex(x, x), x.expand({1, 1, 1, 1, 1, 1, 1, 1, 2, 4}), x.to_sparse(),
              torch::empty({3}, torch::TensorOptions().device(torch::kMeta))};
    }
  };
  struct Odd : torch::nn::ModuleHolder<OddImpl> {
    using ModuleHolder::ModuleHolder;
  };
  Harness harness(R"({"xy_distribution": true, "wg_distribution": true})");
  Net net;
  auto odd = net->Add("odd", Watched<Odd>());
  auto embedding = net->Add("embedding", nn::Embedding(nn::EmbeddingOptions(10, 4).sparse(true)));
  net->run = [=](torch::Tensor x) mutable { return std::get<1>(odd(embedding(x))); };
  RunSteps(
      harness, net, [&](int) { net(torch::randint(10, {2})).sum().backward(); }, 2);
  CHECK(harness.CountEvents(EventKind::kWarning, "actv: ") == 1);
  CHECK(harness.CountEvents(EventKind::kWarning, "grad_reduced: ") == 1);
  CHECK(harness.CountEvents(EventKind::kDegraded, "failed") == 0);
  CHECK(harness.Find(SiteKind::kActv, "odd.input"));
  CHECK(!harness.Find(SiteKind::kActv, "odd.output_0"));
}

}  // namespace stepwatch::tests
