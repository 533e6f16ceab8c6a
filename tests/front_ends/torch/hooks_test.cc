// What hooks see, and that training is the same bits with and without them.
#include <stepwatch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/front_ends/torch/harness.h"

namespace stepwatch::tests {
namespace {

namespace nn = stepwatch::nn;

constexpr const char* kActivations = R"({"xy_distribution": true, "ops": ["norm", "mean"]})";

using Sgd = Watched<torch::optim::SGD>;

torch::optim::SGDOptions Rate() {
  return torch::optim::SGDOptions(0.1);
}

double Norm(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kDouble).norm().item<double>();
}

// A net given as a function over modules that the caller registers.
struct NetImpl : nn::Module {
  template <class Holder>
  Holder Add(const std::string& name, Holder holder) {
    return register_module(name, holder);
  }
  std::function<torch::Tensor(torch::Tensor)> run;
  torch::Tensor forward(torch::Tensor x) { return run(std::move(x)); }
};
TORCH_MODULE(Net);

using BuildNet = std::function<void(NetImpl&)>;

struct Trained {
  std::vector<torch::Tensor> parameters;
  std::vector<torch::Tensor> gradients;
  torch::Tensor input_gradient;
};

// Three steps, with or without a monitor that watches everything.
Trained Train(const BuildNet& build, const std::vector<int64_t>& shape, Harness* harness, bool leaf_input = false) {
  torch::manual_seed(11);
  Net net;
  build(*net);
  Sgd optimizer(net->parameters(), Rate());
  std::unique_ptr<TorchMonitor> monitor;
  if (harness != nullptr) {
    monitor = std::make_unique<TorchMonitor>(harness->options);
    monitor->Attach(*net, optimizer);
  }
  Trained trained;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const torch::Tensor input = torch::randn(shape).requires_grad_(leaf_input);
    net(input).square().mean().backward();
    for (const torch::Tensor& parameter : net->parameters()) trained.gradients.push_back(parameter.grad().clone());
    trained.input_gradient = input.grad();
    optimizer.step();
  }
  trained.parameters = net->parameters();
  return trained;
}

void CheckSameBits(const BuildNet& build, const std::vector<int64_t>& shape, bool leaf_input = false) {
  Harness harness(R"({"xy_distribution": true, "wg_distribution": true, "param_distribution": true})");
  const Trained bare = Train(build, shape, nullptr, leaf_input);
  const Trained watched = Train(build, shape, &harness, leaf_input);
  REQUIRE(bare.gradients.size() == watched.gradients.size());
  for (size_t i = 0; i < bare.gradients.size(); ++i) CHECK(torch::equal(bare.gradients[i], watched.gradients[i]));
  for (size_t i = 0; i < bare.parameters.size(); ++i) CHECK(torch::equal(bare.parameters[i], watched.parameters[i]));
  if (leaf_input) CHECK(torch::equal(bare.input_gradient, watched.input_gradient));
  CHECK(!harness.RowsOf(SiteKind::kActvGrad).empty());
  CHECK(harness.CountEvents(EventKind::kDegraded, "") == 0);
  CHECK(harness.LedgersBalance());
}

void ConvNet(NetImpl& net) {
  auto conv = net.Add("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)));
  auto norm = net.Add("norm", nn::BatchNorm2d(8));
  auto relu = net.Add("relu", nn::ReLU(nn::ReLUOptions(/*inplace=*/true)));
  auto pool = net.Add("pool", nn::MaxPool2d(2));
  auto fc = net.Add("fc", nn::Linear(8 * 4 * 4, 5));
  net.run = [=](torch::Tensor x) mutable { return fc(pool(relu(norm(conv(x)))).flatten(1)); };
}

// The output of a Linear on three dimensions is a view.
void InplaceOnView(NetImpl& net) {
  auto a = net.Add("a", nn::Linear(6, 9));
  auto relu = net.Add("relu", nn::ReLU(nn::ReLUOptions(true)));
  auto b = net.Add("b", nn::Linear(9, 4));
  net.run = [=](torch::Tensor x) mutable { return b(relu(a(x))); };
}

// The output is dropped: what goes on is the overwritten input.
void InplaceByItsInput(NetImpl& net) {
  auto a = net.Add("a", nn::Linear(6, 9));
  auto relu = net.Add("relu", nn::ReLU(nn::ReLUOptions(true)));
  auto b = net.Add("b", nn::Linear(9, 4));
  net.run = [=](torch::Tensor x) mutable {
    torch::Tensor y = a(x);
    relu(y);
    return b(y);
  };
}

// With p = 0 an in-place dropout writes nothing, and sigmoid needs its result as it was.
void IdleInplace(NetImpl& net) {
  auto a = net.Add("a", nn::Linear(6, 9));
  auto sigmoid = net.Add("sigmoid", nn::Sigmoid());
  auto dropout = net.Add("dropout", nn::Dropout(nn::DropoutOptions(0.0).inplace(true)));
  net.run = [=](torch::Tensor x) mutable { return dropout(sigmoid(a(x))); };
}

void Recurrent(NetImpl& net) {
  auto lstm = net.Add("lstm", nn::LSTM(nn::LSTMOptions(6, 7).num_layers(2).batch_first(true)));
  auto gru = net.Add("gru", nn::GRU(7, 5));
  net.run = [=](torch::Tensor x) mutable {
    auto [y, state] = lstm(x);
    return std::get<0>(gru(y)) + std::get<0>(state).mean();
  };
}

void SharedAndRepeated(NetImpl& net) {
  auto a = net.Add("a", nn::Linear(6, 6));
  auto b = net.Add("b", nn::Linear(6, 6));
  net.run = [=](torch::Tensor x) mutable { return a(torch::tanh(b(a(x)) + a(x))); };
}

void Attention(NetImpl& net) {
  auto in = net.Add("in", nn::Linear(6, 8));
  auto attention = net.Add("attention", nn::MultiheadAttention(nn::MultiheadAttentionOptions(8, 2)));
  auto norm = net.Add("norm", nn::LayerNorm(nn::LayerNormOptions({8})));
  net.run = [=](torch::Tensor x) mutable {
    const torch::Tensor h = in(x);
    return norm(h + std::get<0>(attention(h, h, h)));
  };
}

void TransformerLayer(NetImpl& net) {
  auto in = net.Add("in", nn::Linear(6, 8));
  auto layer = net.Add("layer", nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2).dropout(0.0)));
  net.run = [=](torch::Tensor x) mutable { return layer(in(x)); };
}

struct WritesInputImpl : nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x.mul_(2).add_(1); }
};
TORCH_MODULE(WritesInput);

void UserInplace(NetImpl& net) {
  auto a = net.Add("a", nn::Linear(6, 9));
  auto write = net.Add("write", Watched<WritesInput>());
  auto b = net.Add("b", nn::Linear(9, 4));
  net.run = [=](torch::Tensor x) mutable { return b(write(a(x))); };
}

// One step of a net on a fresh harness; what was recorded is in the harness afterwards.
void RunSteps(Harness& harness, Net& net, const std::function<void(int)>& step, int steps = 1) {
  Sgd optimizer(net->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, optimizer);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    step(i);
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  CHECK(harness.LedgersBalance());
}

}  // namespace

TEST_CASE("gradients and updates are the same bits with and without the monitor") {
  SECTION("convolution, batch norm, in-place ReLU, pooling") {
    CheckSameBits(ConvNet, {2, 3, 8, 8});
  }
  SECTION("in-place ReLU on a view") {
    CheckSameBits(InplaceOnView, {3, 2, 6});
  }
  SECTION("in-place ReLU of which the input goes on") {
    CheckSameBits(InplaceByItsInput, {3, 6});
  }
  SECTION("the same on a view") {
    CheckSameBits(InplaceByItsInput, {3, 2, 6});
  }
  SECTION("an in-place module that writes nothing") {
    CheckSameBits(IdleInplace, {3, 6});
  }
  SECTION("recurrent modules with tuple outputs") {
    CheckSameBits(Recurrent, {3, 4, 6});
  }
  SECTION("a module called three times") {
    CheckSameBits(SharedAndRepeated, {3, 6});
  }
  SECTION("attention of a tensor with itself") {
    CheckSameBits(Attention, {3, 2, 6});
  }
  SECTION("a transformer layer") {
    CheckSameBits(TransformerLayer, {3, 2, 6});
  }
  SECTION("a module of the user that writes into its input") {
    CheckSameBits(UserInplace, {3, 6});
  }
  SECTION("an input that is a leaf with a gradient") {
    CheckSameBits(SharedAndRepeated, {3, 6}, /*leaf_input=*/true);
  }
}

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

TEST_CASE("an input's gradient is the one through that module alone") {
  Harness harness(kActivations);
  Net net;
  auto in = net->Add("in", nn::Linear(4, 4));
  auto a = net->Add("a", nn::Linear(4, 4));
  auto b = net->Add("b", nn::Linear(4, 4));
  torch::Tensor through_a, through_b;
  net->run = [&](torch::Tensor x) {
    const torch::Tensor h = in(x);
    const torch::Tensor y = a(h), z = b(h);
    y.register_hook([&](const torch::Tensor& grad) { through_a = grad.matmul(a->weight); });
    z.register_hook([&](const torch::Tensor& grad) { through_b = grad.matmul(b->weight); });
    return y * 3 + z.square() + h;
  };
  RunSteps(harness, net, [&](int) { net(torch::randn({5, 4})).sum().backward(); });
  const auto of_a = harness.Find(SiteKind::kActvGrad, "a.input");
  const auto of_b = harness.Find(SiteKind::kActvGrad, "b.input");
  REQUIRE((of_a && of_b));
  CHECK(ValueOf(*of_a, Stat::kNorm) == Approx(Norm(through_a)).epsilon(1e-6));
  CHECK(ValueOf(*of_b, Stat::kNorm) == Approx(Norm(through_b)).epsilon(1e-6));
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

TEST_CASE("a module that writes into its input unannounced says so at first and is seen from the second call on") {
  Harness harness(kActivations);
  Net net;
  UserInplace(*net);
  RunSteps(
      harness, net,
      [&](int) {
        net(torch::randn({5, 6})).sum().backward();
      },
      2);
  REQUIRE(harness.Find(SiteKind::kActvGrad, "write.input", 0));
  CHECK(harness.Find(SiteKind::kActvGrad, "write.input", 0)->missing());
  const auto input = harness.Find(SiteKind::kActvGrad, "write.input", 1);
  const auto output = harness.Find(SiteKind::kActvGrad, "write.output", 1);
  REQUIRE((input && output));
  CHECK(ValueOf(*input, Stat::kNorm) == Approx(2 * ValueOf(*output, Stat::kNorm)));
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

TEST_CASE("Adam's moments exist from the second step on") {
  Harness harness(R"({"mv_distribution": true, "mg_direction": true})");
  Net net;
  auto fc = net->Add("fc", nn::Linear(4, 4));
  Watched<torch::optim::Adam> optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, optimizer);
  for (int step = 0; step < 2; ++step) {
    fc(torch::randn({2, 4})).sum().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (const SiteKind kind : {SiteKind::kExpAvg, SiteKind::kExpAvgSq, SiteKind::kMgDirection}) {
    CHECK(harness.RowsOf(kind, 0).empty());
    CHECK(harness.RowsOf(kind, 1).size() == 2);
  }
}

}  // namespace stepwatch::tests
