// Every stock module of torch::nn as stepwatch::nn has it, and what a watched holder keeps of the plain one.
#include <stepwatch/torch.h>
#include <torch/serialize.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/front_ends/torch/harness.h"

namespace stepwatch::tests {
namespace {

namespace nn = stepwatch::nn;

struct BoxImpl : nn::Module {};
TORCH_MODULE(Box);

torch::Tensor R(std::vector<int64_t> shape) {
  return torch::randn(shape);
}
torch::Tensor Ids(std::vector<int64_t> shape, int64_t end) {
  return torch::randint(end, shape);
}

// Registers modules in a box, and runs them once it is watched.
class Zoo {
 public:
  template <class Holder, class... Arguments>
  void Add(const std::string& name, Holder holder, Arguments... arguments) {
    box_->register_module(name, holder);
    names_.push_back(name);
    runs_.push_back([holder, arguments...]() mutable { holder(arguments...); });
  }
  void RunAll() {
    Harness harness(R"({"xy_distribution": true, "ops": ["norm"]})");
    TorchMonitor monitor(harness.options);
    monitor.Attach(*box_);
    for (size_t i = 0; i < runs_.size(); ++i) {
      INFO(names_[i]);
      CHECK_NOTHROW(runs_[i]());
    }
    monitor.EndStep();
    CHECK(monitor.Close().ok());
    std::set<std::string> seen;
    for (const Row& row : harness.RowsOf(SiteKind::kActv, 0)) seen.insert(row.name.substr(0, row.name.find('.') + 3));
    for (const std::string& name : names_) {
      INFO(name);
      CHECK(seen.count(name + ".in") == 1);
      CHECK(seen.count(name + ".ou") ==
            (name == "AdaptiveLogSoftmaxWithLoss" ? 0 : 1));  // it returns a struct of its own
    }
    CHECK(harness.CountEvents(EventKind::kDegraded, "") == 0);
    CHECK(harness.LedgersBalance());
  }

 private:
  Box box_;
  std::vector<std::string> names_;
  std::vector<std::function<void()>> runs_;
};

#define ADD(Name, construct, ...) zoo.Add(#Name, nn::Name construct, __VA_ARGS__)

void AddShapesAndConvolutions(Zoo& zoo) {
  ADD(Identity, (), R({2, 3}));
  ADD(Linear, (4, 3), R({2, 4}));
  ADD(Flatten, (), R({2, 3, 4}));
  ADD(Unflatten, (nn::UnflattenOptions(1, {2, 2})), R({3, 4}));
  ADD(Bilinear, (3, 4, 5), R({2, 3}), R({2, 4}));
  ADD(Embedding, (10, 4), Ids({3}, 10));
  ADD(EmbeddingBag, (10, 4), Ids({2, 3}, 10));
  ADD(Conv1d, (3, 4, 2), R({2, 3, 6}));
  ADD(Conv2d, (3, 4, 2), R({2, 3, 6, 6}));
  ADD(Conv3d, (3, 4, 2), R({2, 3, 4, 4, 4}));
  ADD(ConvTranspose1d, (3, 4, 2), R({2, 3, 6}));
  ADD(ConvTranspose2d, (3, 4, 2), R({2, 3, 6, 6}));
  ADD(ConvTranspose3d, (3, 4, 2), R({2, 3, 4, 4, 4}));
  ADD(Upsample, (nn::UpsampleOptions().scale_factor(std::vector<double>{2.0})), R({1, 2, 3}));
  ADD(PixelShuffle, (2), R({1, 4, 2, 2}));
  ADD(PixelUnshuffle, (2), R({1, 1, 4, 4}));
  ADD(Fold, (nn::FoldOptions({4, 5}, {2, 2})), R({1, 12, 12}));
  ADD(Unfold, (nn::UnfoldOptions({2, 2})), R({1, 3, 4, 5}));
  ADD(CosineSimilarity, (), R({2, 3}), R({2, 3}));
  ADD(PairwiseDistance, (), R({2, 3}), R({2, 3}));
  ADD(Functional, (torch::tanh), R({2, 3}));
}

void AddPoolingAndPadding(Zoo& zoo) {
  ADD(AvgPool1d, (2), R({1, 2, 4}));
  ADD(AvgPool2d, (2), R({1, 2, 4, 4}));
  ADD(AvgPool3d, (2), R({1, 2, 4, 4, 4}));
  ADD(MaxPool1d, (2), R({1, 2, 4}));
  ADD(MaxPool2d, (2), R({1, 2, 4, 4}));
  ADD(MaxPool3d, (2), R({1, 2, 4, 4, 4}));
  ADD(AdaptiveMaxPool1d, (2), R({1, 2, 4}));
  ADD(AdaptiveMaxPool2d, (nn::AdaptiveMaxPool2dOptions({2, 2})), R({1, 2, 4, 4}));
  ADD(AdaptiveMaxPool3d, (nn::AdaptiveMaxPool3dOptions({2, 2, 2})), R({1, 2, 4, 4, 4}));
  ADD(AdaptiveAvgPool1d, (2), R({1, 2, 4}));
  ADD(AdaptiveAvgPool2d, (nn::AdaptiveAvgPool2dOptions({2, 2})), R({1, 2, 4, 4}));
  ADD(AdaptiveAvgPool3d, (nn::AdaptiveAvgPool3dOptions({2, 2, 2})), R({1, 2, 4, 4, 4}));
  ADD(MaxUnpool1d, (2), R({1, 1, 2}), Ids({1, 1, 2}, 4));
  ADD(MaxUnpool2d, (2), R({1, 1, 2, 2}), Ids({1, 1, 2, 2}, 16));
  ADD(MaxUnpool3d, (2), R({1, 1, 2, 2, 2}), Ids({1, 1, 2, 2, 2}, 64));
  ADD(FractionalMaxPool2d, (nn::FractionalMaxPool2dOptions(2).output_size(2)), R({1, 2, 6, 6}));
  ADD(FractionalMaxPool3d, (nn::FractionalMaxPool3dOptions(2).output_size(2)), R({1, 2, 6, 6, 6}));
  ADD(LPPool1d, (nn::LPPool1dOptions(2, 2)), R({1, 2, 4}));
  ADD(LPPool2d, (nn::LPPool2dOptions(2, 2)), R({1, 2, 4, 4}));
  ADD(LPPool3d, (nn::LPPool3dOptions(2, 2)), R({1, 2, 4, 4, 4}));
  ADD(ReflectionPad1d, (1), R({1, 2, 4}));
  ADD(ReflectionPad2d, (1), R({1, 2, 4, 4}));
  ADD(ReflectionPad3d, (1), R({1, 2, 4, 4, 4}));
  ADD(ReplicationPad1d, (1), R({1, 2, 4}));
  ADD(ReplicationPad2d, (1), R({1, 2, 4, 4}));
  ADD(ReplicationPad3d, (1), R({1, 2, 4, 4, 4}));
  ADD(ZeroPad1d, (1), R({1, 2, 4}));
  ADD(ZeroPad2d, (1), R({1, 2, 4, 4}));
  ADD(ZeroPad3d, (1), R({1, 2, 4, 4, 4}));
  ADD(ConstantPad1d, (nn::ConstantPad1dOptions(1, 3.0)), R({1, 2, 4}));
  ADD(ConstantPad2d, (nn::ConstantPad2dOptions(1, 3.0)), R({1, 2, 4, 4}));
  ADD(ConstantPad3d, (nn::ConstantPad3dOptions(1, 3.0)), R({1, 2, 4, 4, 4}));
}

void AddActivations(Zoo& zoo) {
  ADD(ELU, (), R({2, 4}));
  ADD(SELU, (), R({2, 4}));
  ADD(Hardshrink, (), R({2, 4}));
  ADD(Hardtanh, (), R({2, 4}));
  ADD(LeakyReLU, (), R({2, 4}));
  ADD(LogSigmoid, (), R({2, 4}));
  ADD(Softmax, (1), R({2, 4}));
  ADD(Softmin, (1), R({2, 4}));
  ADD(LogSoftmax, (1), R({2, 4}));
  ADD(Softmax2d, (), R({1, 2, 3, 4}));
  ADD(PReLU, (), R({2, 4}));
  ADD(ReLU, (), R({2, 4}));
  ADD(ReLU6, (), R({2, 4}));
  ADD(RReLU, (), R({2, 4}));
  ADD(CELU, (), R({2, 4}));
  ADD(GLU, (), R({2, 4}));
  ADD(GELU, (), R({2, 4}));
  ADD(SiLU, (), R({2, 4}));
  ADD(Mish, (), R({2, 4}));
  ADD(Sigmoid, (), R({2, 4}));
  ADD(Softplus, (), R({2, 4}));
  ADD(Softshrink, (), R({2, 4}));
  ADD(Softsign, (), R({2, 4}));
  ADD(Tanh, (), R({2, 4}));
  ADD(Tanhshrink, (), R({2, 4}));
  ADD(Threshold, (0.1, 20.0), R({2, 4}));
  ADD(Dropout, (0.5), R({2, 4}));
  ADD(Dropout2d, (0.5), R({1, 2, 3, 4}));
  ADD(Dropout3d, (0.5), R({1, 2, 3, 4, 4}));
  ADD(AlphaDropout, (0.5), R({2, 4}));
  ADD(FeatureAlphaDropout, (0.5), R({1, 2, 3, 4}));
}

void AddNormsAndSequences(Zoo& zoo) {
  ADD(BatchNorm1d, (4), R({3, 4}));
  ADD(BatchNorm2d, (2), R({2, 2, 3, 3}));
  ADD(BatchNorm3d, (2), R({2, 2, 3, 3, 3}));
  ADD(InstanceNorm1d, (2), R({2, 2, 4}));
  ADD(InstanceNorm2d, (2), R({2, 2, 3, 3}));
  ADD(InstanceNorm3d, (2), R({2, 2, 3, 3, 3}));
  ADD(LayerNorm, (nn::LayerNormOptions({4})), R({3, 4}));
  ADD(LocalResponseNorm, (2), R({2, 4, 3}));
  ADD(CrossMapLRN2d, (3), R({2, 4, 3, 3}));
  ADD(GroupNorm, (2, 4), R({2, 4, 3}));
  ADD(RNN, (3, 4), R({5, 2, 3}));
  ADD(LSTM, (3, 4), R({5, 2, 3}));
  ADD(GRU, (3, 4), R({5, 2, 3}));
  ADD(RNNCell, (3, 4), R({2, 3}));
  ADD(LSTMCell, (3, 4), R({2, 3}));
  ADD(GRUCell, (3, 4), R({2, 3}));
  ADD(MultiheadAttention, (4, 2), R({3, 2, 4}), R({3, 2, 4}), R({3, 2, 4}));
  const nn::TransformerEncoderLayerOptions encoder(4, 2);
  const nn::TransformerDecoderLayerOptions decoder(4, 2);
  ADD(TransformerEncoderLayer, (encoder), R({3, 2, 4}));
  ADD(TransformerDecoderLayer, (decoder), R({3, 2, 4}), R({3, 2, 4}));
  ADD(TransformerEncoder, (nn::TransformerEncoderLayer(encoder), 1), R({3, 2, 4}));
  ADD(TransformerDecoder, (nn::TransformerDecoderLayer(decoder), 1), R({3, 2, 4}), R({3, 2, 4}));
  ADD(Transformer, (nn::TransformerOptions(4, 2, 1, 1)), R({3, 2, 4}), R({3, 2, 4}));
}

void AddLosses(Zoo& zoo) {
  const torch::Tensor probability = torch::rand({2, 3}), sign = torch::ones({2, 3});
  ADD(L1Loss, (), R({2, 3}), R({2, 3}));
  ADD(KLDivLoss, (), R({2, 3}), probability);
  ADD(MSELoss, (), R({2, 3}), R({2, 3}));
  ADD(BCELoss, (), probability, probability);
  ADD(HingeEmbeddingLoss, (), R({2, 3}), sign);
  ADD(MultiMarginLoss, (), R({2, 3}), Ids({2}, 3));
  ADD(CosineEmbeddingLoss, (), R({2, 3}), R({2, 3}), torch::ones({2}));
  ADD(SmoothL1Loss, (), R({2, 3}), R({2, 3}));
  ADD(HuberLoss, (), R({2, 3}), R({2, 3}));
  ADD(MultiLabelMarginLoss, (), R({2, 3}), Ids({2, 3}, 3));
  ADD(SoftMarginLoss, (), R({2, 3}), sign);
  ADD(MultiLabelSoftMarginLoss, (), R({2, 3}), sign);
  ADD(TripletMarginLoss, (), R({2, 3}), R({2, 3}), R({2, 3}));
  ADD(TripletMarginWithDistanceLoss, (), R({2, 3}), R({2, 3}), R({2, 3}));
  ADD(CTCLoss, (), R({5, 2, 4}).log_softmax(2), Ids({2, 2}, 3) + 1, torch::full({2}, 5), torch::full({2}, 2));
  ADD(PoissonNLLLoss, (), R({2, 3}), R({2, 3}));
  ADD(MarginRankingLoss, (), R({2}), R({2}), torch::ones({2}));
  ADD(NLLLoss, (), R({2, 3}), Ids({2}, 3));
  ADD(CrossEntropyLoss, (), R({2, 3}), Ids({2}, 3));
  ADD(BCEWithLogitsLoss, (), R({2, 3}), probability);
  ADD(AdaptiveLogSoftmaxWithLoss, (nn::AdaptiveLogSoftmaxWithLossOptions(4, 10, {4})), R({2, 4}), Ids({2}, 10));
}

#undef ADD

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

}  // namespace

TEST_CASE("every stock module is seen when it runs") {
  torch::manual_seed(3);
  Zoo zoo;
  SECTION("shapes and convolutions") {
    AddShapesAndConvolutions(zoo);
  }
  SECTION("pooling and padding") {
    AddPoolingAndPadding(zoo);
  }
  SECTION("activations") {
    AddActivations(zoo);
  }
  SECTION("norms and sequences") {
    AddNormsAndSequences(zoo);
  }
  SECTION("losses") {
    AddLosses(zoo);
  }
  zoo.RunAll();
}

TEST_CASE("every module that LibTorch's headers declare is in stepwatch::nn and in this test") {
  const std::string ours = ReadFile(STEPWATCH_SOURCE_DIR "/include/stepwatch/torch/modules.h");
  const std::string tested = ReadFile(STEPWATCH_SOURCE_DIR "/tests/front_ends/torch/modules_test.cc");
  REQUIRE(!ours.empty());
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STEPWATCH_TORCH_MODULES_DIR)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = ReadFile(entry.path().string());
    const std::regex declaration("\nTORCH_MODULE\\((\\w+)\\)");
    for (std::sregex_iterator found(text.begin(), text.end(), declaration), end; found != end; ++found, ++count) {
      const std::string name = (*found)[1];
      INFO(name);
      CHECK(ours.find("using " + name + " = Watched<torch::nn::" + name + ">;") != std::string::npos);
      CHECK(tested.find("ADD(" + name + ",") != std::string::npos);
    }
  }
  CHECK(count > 100);
}

namespace {

struct NetImpl : nn::Cloneable<NetImpl> {
  NetImpl() { NetImpl::reset(); }
  void reset() override {
    fc = register_module("fc", nn::Linear(4, 4));
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(4, 4).batch_first(true)));
    head = register_module("head", nn::Sequential(nn::Linear(4, 3), nn::ReLU(), nn::Dropout(0.0)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head->forward(std::get<0>(lstm(fc->forward(x).unsqueeze(1))).squeeze(1));
  }
  nn::Linear fc{nullptr};
  nn::LSTM lstm{nullptr};
  nn::Sequential head{nullptr};
};
TORCH_MODULE(Net);

struct PlainImpl : torch::nn::Module {
  PlainImpl() {
    fc = register_module("fc", torch::nn::Linear(4, 4));
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(4, 4).batch_first(true)));
    head = register_module("head",
                           torch::nn::Sequential(torch::nn::Linear(4, 3), torch::nn::ReLU(), torch::nn::Dropout(0.0)));
  }
  torch::nn::Linear fc{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Sequential head{nullptr};
};

std::vector<std::string> KeysOf(const torch::OrderedDict<std::string, torch::Tensor>& dictionary) {
  return dictionary.keys();
}

}  // namespace

TEST_CASE("names are those of the plain modules, and each can load what the other has saved") {
  Net net;
  auto plain = std::make_shared<PlainImpl>();
  CHECK(KeysOf(net->named_parameters()) == KeysOf(plain->named_parameters()));
  std::stringstream stream;
  torch::save(net.ptr(), stream);
  torch::load(plain, stream);
  CHECK(torch::equal(plain->fc->weight, net->fc->weight));
  CHECK(torch::equal(plain->lstm->named_parameters()["weight_hh_l0"], net->lstm->named_parameters()["weight_hh_l0"]));
  CHECK(plain->head->size() == net->head->size());
}

TEST_CASE("a watched module is called through its holder, forward, Sequential, AnyModule and a module list") {
  Harness harness(R"({"xy_distribution": true, "forward_only": true})");
  Box box;
  nn::Linear fc = box->register_module("fc", nn::Linear(4, 4));
  nn::Sequential chain = box->register_module("chain", nn::Sequential(fc, nn::Tanh()));
  nn::ModuleList list = box->register_module("list", nn::ModuleList(nn::Linear(4, 4)));
  nn::AnyModule any(nn::LSTM(4, 4));
  box->register_module("any", any.ptr());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*box);
  const torch::Tensor x = R({2, 4});
  CHECK(torch::equal(fc(x), fc->forward(x)));
  chain->forward(x);
  list[0]->as<torch::nn::LinearImpl>();
  list->ptr<nn::Linear::Impl>(0)->forward(x);
  any.forward<std::tuple<torch::Tensor, std::tuple<torch::Tensor, torch::Tensor>>>(R({3, 2, 4}));
  monitor.EndStep();
  CHECK(monitor.Close().ok());
  CHECK(harness.Names(SiteKind::kActv) ==
        "fc.input:0 fc.output:0 fc.input@1:0 fc.output@1:0 fc.input@2:0 fc.output@2:0 chain.1.input:0 chain.1.output:0 "
        "list.0.input:0 list.0.output:0 any.input:0 any.output_0:0 any.output_1:0 any.output_2:0");
}

TEST_CASE("AnyModule fills in default arguments, and refuses a wrong number of them") {
  nn::AnyModule lstm(nn::LSTM(4, 4));
  using Result = std::tuple<torch::Tensor, std::tuple<torch::Tensor, torch::Tensor>>;
  CHECK(std::get<0>(lstm.forward<Result>(R({3, 2, 4}))).size(0) == 3);
  nn::AnyModule bilinear(nn::Bilinear(3, 4, 5));
  CHECK(bilinear.forward(R({2, 3}), R({2, 4})).size(1) == 5);
  CHECK_THROWS_WITH(bilinear.forward(R({2, 3})), Catch::Contains("expects at least 2 argument(s)"));
}

TEST_CASE("a clone has its own parameters, the same types, and starts unwatched") {
  Harness harness(R"({"xy_distribution": true, "forward_only": true})");
  Net net;
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net);
  auto copy = std::dynamic_pointer_cast<NetImpl>(net->clone());
  REQUIRE(copy);
  CHECK(KeysOf(copy->named_parameters()) == KeysOf(net->named_parameters()));
  CHECK(torch::equal(copy->fc->weight, net->fc->weight));
  CHECK(!copy->fc->weight.is_same(net->fc->weight));
  CHECK(dynamic_cast<TapPoint*>(copy->fc.get()) != nullptr);
  CHECK(std::dynamic_pointer_cast<nn::Linear::Impl>(net->fc->clone()));
  net->eval();
  copy->eval();
  const torch::Tensor x = R({2, 4});
  CHECK(torch::equal(copy->forward(x), net->forward(x)));
  copy->train();
  copy->forward(x);
  monitor.EndStep();
  CHECK(monitor.Close().ok());
  CHECK(harness.rows().empty());
}

TEST_CASE("a watched root clones, converts to its plain holder, and prints the plain names") {
  Watched<Net> net;
  const Net plain = net;
  CHECK(plain.get() == net.get());
  CHECK(std::dynamic_pointer_cast<Watched<Net>::Impl>(net->clone()));
  std::stringstream text;
  text << nn::Linear(2, 3) << nn::LSTM(2, 3);
  CHECK(text.str().find("torch::nn::Linear(in_features=2") != std::string::npos);
  CHECK(text.str().find("torch::nn::LSTM(") != std::string::npos);
  CHECK(text.str().find("Watched") == std::string::npos);
  net->to(torch::kDouble);
  CHECK(net->fc->weight.scalar_type() == torch::kDouble);
}

TEST_CASE("an embedding from given weights is watched and shares them") {
  const torch::Tensor weights = R({5, 3});
  nn::Embedding embedding = nn::Embedding::from_pretrained(weights);
  CHECK(dynamic_cast<TapPoint*>(embedding.get()) != nullptr);
  CHECK(!embedding->weight.requires_grad());
  CHECK(torch::equal(embedding(Ids({4}, 5)).sizes().vec() == std::vector<int64_t>{4, 3} ? weights : torch::Tensor(),
                     embedding->weight));
  nn::EmbeddingBag bag = nn::EmbeddingBag::from_pretrained(weights);
  CHECK(torch::equal(bag->weight, weights));
}

}  // namespace stepwatch::tests
