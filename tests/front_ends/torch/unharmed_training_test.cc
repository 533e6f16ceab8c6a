// Training is the same bits with and without a monitor that watches everything.
#include <memory>
#include <vector>

#include "tests/front_ends/torch/nets.h"

namespace stepwatch::tests {
namespace {

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

// The input of `twice` has three gradients of very different size: two from inside, one from behind. Any other order of
// adding them up changes bits.
void SkipConnection(NetImpl& net) {
  auto in = net.Add("in", nn::Linear(6, 64));
  auto twice = net.Add("twice", Watched<UsesTwice>());
  net.run = [=](torch::Tensor x) mutable {
    const torch::Tensor h = in(x);
    const torch::Tensor before = h * 0.37;
    const torch::Tensor y = twice(h);
    return y + before + torch::tanh(h) * 31.7;
  };
}

void ChannelsLastBatchOfOne(NetImpl& net) {
  auto conv = net.Add("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3)));
  auto relu = net.Add("relu", nn::ReLU());
  auto last = net.Add("last", nn::Conv2d(nn::Conv2dOptions(8, 4, 3)));
  net.run = [=](torch::Tensor x) mutable {
    return last(relu(conv(x.contiguous(at::MemoryFormat::ChannelsLast)).contiguous(at::MemoryFormat::ChannelsLast)));
  };
}

}  // namespace

TEST_CASE("gradients and updates are the same bits with and without the monitor") {
  struct Training {
    const char* name;
    void (*build)(NetImpl&);
    std::vector<int64_t> shape;
    bool leaf_input = false;
  };
  const Training training = GENERATE(values<Training>({
      {"convolution, batch norm, in-place ReLU, pooling", ConvNet, {2, 3, 8, 8}},
      {"in-place ReLU on a view", InplaceOnView, {3, 2, 6}},
      {"in-place ReLU of which the input goes on", InplaceByItsInput, {3, 6}},
      {"the same on a view", InplaceByItsInput, {3, 2, 6}},
      {"an in-place module that writes nothing", IdleInplace, {3, 6}},
      {"recurrent modules with tuple outputs", Recurrent, {3, 4, 6}},
      {"a module called three times", SharedAndRepeated, {3, 6}},
      {"attention of a tensor with itself", Attention, {3, 2, 6}},
      {"a transformer layer", TransformerLayer, {3, 2, 6}},
      {"a module of the user that writes into its input", UserInplace, {3, 6}},
      {"gradients that meet in a skip connection", SkipConnection, {50, 6}},
      {"a batch of one in channels-last format", ChannelsLastBatchOfOne, {1, 3, 12, 12}},
      {"an input that is a leaf with a gradient", SharedAndRepeated, {3, 6}, true},
  }));
  INFO(training.name);
  CheckSameBits(training.build, training.shape, training.leaf_input);
}

TEST_CASE("a module gets the very tensors that it is called with, in their memory format") {
  Harness harness(R"({"xy_distribution": true, "ops": ["norm", "mean"]})");
  Net net;
  auto in = net->Add("in", nn::Conv2d(nn::Conv2dOptions(2, 3, 1)));
  auto keeps = net->Add("keeps", Watched<KeepsInput>());
  net->run = [&](torch::Tensor x) {
    const torch::Tensor h = in(x).contiguous(at::MemoryFormat::ChannelsLast);
    const torch::Tensor y = keeps(h);
    CHECK(keeps->seen == h.unsafeGetTensorImpl());
    CHECK(keeps->strides == h.strides().vec());
    CHECK(keeps->was_view == h.is_view());
    return y;
  };
  RunSteps(harness, net, [&](int) { net(torch::randn({1, 2, 4, 4})).sum().backward(); });
  CHECK_FALSE(harness.Find(SiteKind::kActvGrad, "keeps.input")->missing());
}

}  // namespace stepwatch::tests
