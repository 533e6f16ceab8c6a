// Random changes of model and optimizer in mid-run: each row is torch's own number of the model as it is, and no row is
// missing in a step in which nothing has changed.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/front_ends/torch/nets.h"
#include "tests/random_seed.h"
#include "tests/rounds.h"

namespace stepwatch::tests {
namespace {

constexpr int kStepsOfChanges = 32;
constexpr size_t kLayers = 4;
constexpr int64_t kWidth = 5;

struct LayerImpl : torch::nn::Module {
  LayerImpl() {
    weight = register_parameter("weight", torch::randn({kWidth, kWidth}) * 0.4);
    bias = register_parameter("bias", torch::randn({kWidth}) * 0.1);
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(torch::nn::functional::linear(x, weight, bias)); }
  void SetWeight(const torch::Tensor& fresh) { parameters_["weight"] = weight = fresh; }
  torch::Tensor weight, bias;
};
TORCH_MODULE(Layer);
using WatchedLayer = Watched<Layer>;

struct StackImpl : torch::nn::Module {
  StackImpl() {
    points = register_parameter("points", torch::randn({6, kWidth}));
    for (size_t i = 0; i < kLayers; ++i) layers.push_back(register_module("layer" + std::to_string(i), WatchedLayer()));
  }
  torch::Tensor forward() {
    torch::Tensor x = points;
    for (WatchedLayer& layer : layers) x = layer(x);
    if (more) x = more(x);
    return x.square().mean();
  }
  torch::Tensor points;
  std::vector<WatchedLayer> layers;
  WatchedLayer more{nullptr};
};
TORCH_MODULE(Stack);

struct LeavesAsItIs : torch::autograd::PostAccumulateGradHook {
  void operator()(const torch::Tensor& parameter) override { parameter.mutable_grad().mul_(1.0); }
};

using Named = std::vector<std::pair<std::string, torch::Tensor>>;
using RowKey = std::tuple<SiteKind, std::string, int>;  // with the micro-step
using Table = std::map<RowKey, double>;

// A training that is changed at random, and the values of torch's operators in each of its steps.
class ChangedTraining {
 public:
  explicit ChangedTraining(uint64_t seed) : dice_(seed), each_pass_(Roll(2) == 0), harness_(ConfigText()) {
    torch::manual_seed(static_cast<uint64_t>(dice_()));
    optimizer_ = NewOptimizer();
    monitor_ = std::make_unique<TorchMonitor>(harness_.options);
    monitor_->Attach(*model_, *optimizer_);
    known_ = Parameters();
  }

  void Step() {
    Table table;
    passes_.clear();
    unhooked_.clear();
    changes_.emplace_back();
    const int passes = Roll(4) == 0 ? 2 : 1;
    // Before the backward passes, between them or behind them, or not at all.
    const int changes_at = Roll(10) >= 3 ? -1 : Roll(2) == 0 ? 0 : static_cast<int>(Roll(3));
    if (changes_at == 0) Change();
    if (Roll(6) == 0) {
      const torch::NoGradGuard no_grad;
      model_();
    }
    if (Roll(8) == 0) {  // the program finds that this step is not worth an update
      ZeroGradients();
      Pass(&table);
    }
    ZeroGradients();
    for (int pass = 1; pass <= passes; ++pass) {
      Pass(&table);
      if (changes_at == pass) Change();
    }
    if (Roll(3) == 0) Clip();
    AddBeforeUpdate(&table);
    optimizer_->step();
    AddAfterUpdate(&table);
    CHECK(monitor_->core().Flush(std::chrono::seconds(60)));  // no other thread is too slow for so short steps
    tables_.push_back(std::move(table));
    known_ = Parameters();
  }

  void Check() {
    CHECK(monitor_->core().step() == static_cast<int64_t>(tables_.size()));
    CHECK(monitor_->Close().ok());
    std::string text;
    int settled = 0;
    for (size_t step = 0; step < tables_.size(); ++step) {
      text += " " + std::to_string(step) + ":" + changes_[step];
      INFO((each_pass_ ? "each pass" : "the last pass") << ", changes" << text);
      REQUIRE(Complaints(static_cast<int64_t>(step), tables_[step], changes_[step].empty()) == "");
      settled += changes_[step].empty();
    }
    CHECK(settled > 10);
    CHECK(harness_.CountEvents(EventKind::kDegraded, "") == 0);
    CHECK(harness_.LedgersBalance());
  }

 private:
  size_t Roll(size_t sides) { return std::uniform_int_distribution<size_t>(0, sides - 1)(dice_); }

  std::string ConfigText() const {
    return std::string(R"({"xy_distribution": true, "wg_distribution": true, "param_distribution": true, )") +
           R"("mv_distribution": true, "monitor_mbs_grad": )" + (each_pass_ ? "true}" : "false}");
  }

  // A tensor under its first name alone.
  Named Parameters() const {
    Named named;
    std::set<const void*> seen;
    for (const auto& item : model_->named_parameters())
      if (seen.insert(item.value().unsafeGetTensorImpl()).second) named.emplace_back(item.key(), item.value());
    return named;
  }
  std::vector<torch::Tensor> Updated() const {
    std::vector<torch::Tensor> tensors;
    for (const auto& [name, tensor] : Parameters())
      if (left_out_.count(name) == 0) tensors.push_back(tensor);
    return tensors;
  }

  std::unique_ptr<torch::optim::Optimizer> NewOptimizer() {
    switch (Roll(4)) {
      case 0: return std::make_unique<Sgd>(Updated(), torch::optim::SGDOptions(1e-2).momentum(0.5));
      case 1: return std::make_unique<Watched<torch::optim::Adam>>(Updated(), torch::optim::AdamOptions(1e-3));
      case 2: return std::make_unique<Watched<torch::optim::RMSprop>>(Updated(), torch::optim::RMSpropOptions(1e-3));
      default: return std::make_unique<Watched<torch::optim::AdamW>>(Updated(), torch::optim::AdamWOptions(1e-3));
    }
  }

  // Puts the parameters that the model has now into the group, but for those left out.
  void Regroup() {
    std::vector<torch::Tensor>& group = optimizer_->param_groups()[0].params();
    const std::vector<torch::Tensor> wanted = Updated();
    for (const torch::Tensor& old : group)
      if (std::none_of(wanted.begin(), wanted.end(), [&](const auto& each) { return each.is_same(old); }))
        optimizer_->state().erase(old.unsafeGetTensorImpl());
    kept_.insert(kept_.end(), group.begin(), group.end());  // what is dead to the training is alive in the program
    group = wanted;
  }

  void ZeroGradients() {
    for (const auto& [name, tensor] : Parameters()) {
      if (tensor.grad().defined() && tensor.requires_grad() && Roll(4) == 0)
        tensor.mutable_grad().detach_().zero_();
      else
        tensor.mutable_grad() = torch::Tensor();
    }
  }

  void Pass(Table* table) {
    const torch::Tensor loss = model_();
    if (!loss.requires_grad()) return;
    loss.backward();
    for (const auto& [name, tensor] : known_) {
      if (!tensor.requires_grad() || !IsIn(Parameters(), tensor) || IsIn(unhooked_, tensor)) continue;
      const int pass = each_pass_ ? passes_[name]++ : 0;
      (*table)[{SiteKind::kGradUnreduced, name, pass}] = Norm(tensor.grad());
    }
  }

  static bool IsIn(const Named& named, const torch::Tensor& tensor) {
    return std::any_of(named.begin(), named.end(), [&](const auto& item) { return item.second.is_same(tensor); });
  }

  void Clip() {
    for (const auto& [name, tensor] : Parameters())
      if (tensor.grad().defined()) tensor.mutable_grad().mul_(0.5);
  }

  torch::Tensor FirstMoment(const torch::Tensor& parameter) const {
    const auto found = optimizer_->state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer_->state().end()) return {};
    auto* state = found->second.get();
    if (auto* adam = dynamic_cast<torch::optim::AdamParamState*>(state)) return adam->exp_avg();
    if (auto* adamw = dynamic_cast<torch::optim::AdamWParamState*>(state)) return adamw->exp_avg();
    return {};
  }

  void AddBeforeUpdate(Table* table) {
    trained_.clear();
    for (const auto& [name, tensor] : Parameters()) {
      const bool is_trained = tensor.requires_grad() || tensor.grad().defined();
      if (left_out_.count(name) > 0 || !is_trained) continue;
      trained_.push_back(name);
      if (tensor.grad().defined()) (*table)[{SiteKind::kGradReduced, name, 0}] = Norm(tensor.grad());
      (*table)[{SiteKind::kParamOrigin, name, 0}] = Norm(tensor);
      if (const torch::Tensor moment = FirstMoment(tensor); moment.defined())
        (*table)[{SiteKind::kExpAvg, name, 0}] = Norm(moment);
    }
  }

  void AddAfterUpdate(Table* table) {
    for (const auto& [name, tensor] : Parameters())
      if (std::find(trained_.begin(), trained_.end(), name) != trained_.end())
        (*table)[{SiteKind::kParamUpdated, name, 0}] = Norm(tensor);
  }

  // A line for each row that is wrong, or missing.
  std::string Complaints(int64_t step, const Table& table, bool is_settled) const {
    std::string text;
    const auto complain = [&](const RowKey& key, const std::string& what) {
      const auto& [kind, name, pass] = key;
      text += std::string(SiteKindName(kind)) + " " + name + " pass " + std::to_string(pass) + " " + what + "\n";
    };
    Table seen;
    for (const SiteKind kind : {SiteKind::kGradUnreduced, SiteKind::kGradReduced, SiteKind::kParamOrigin,
                                SiteKind::kParamUpdated, SiteKind::kExpAvg})
      for (const Row& row : harness_.RowsOf(kind, step)) {
        const RowKey key(kind, row.name, kind == SiteKind::kGradUnreduced ? row.record.micro_step : 0);
        const double norm = ValueOf(row.record, Stat::kNorm);
        const auto found = table.find(key);
        if (!seen.emplace(key, norm).second) complain(key, "is there twice");
        if (found == table.end())
          complain(key, "is a row too many: " + std::to_string(norm));
        else if (norm != Approx(found->second).epsilon(1e-5))
          complain(key, std::to_string(norm) + " should be " + std::to_string(found->second));
      }
    for (const auto& [key, norm] : table)
      if (is_settled && seen.count(key) == 0) complain(key, "is missing");
    return text;
  }

  // --- changes ---

  WatchedLayer& AnyLayer() { return model_->layers[Roll(kLayers)]; }
  torch::Tensor AnyWeight() { return Roll(4) == 0 ? model_->points : AnyLayer()->weight; }

  void Freeze() {
    for (torch::Tensor& each : AnyLayer()->parameters()) each.set_requires_grad(false);
  }
  void Unfreeze() {
    for (const auto& [name, tensor] : Parameters()) tensor.set_requires_grad(true);
  }
  void ReplaceModule() {
    const size_t place = Roll(kLayers);
    WatchedLayer fresh;
    fresh->to(model_->points.scalar_type());
    model_->layers[place] = model_->replace_module("layer" + std::to_string(place), fresh);
    Regroup();
  }
  void ReplaceParameter() {
    WatchedLayer& layer = AnyLayer();
    layer->SetWeight((layer->weight.detach() * 0.9).requires_grad_());
    Regroup();
  }
  void Tie() {
    AnyLayer()->SetWeight(AnyLayer()->weight);
    Regroup();
  }
  void AttachAnother() {
    if (!tables_.empty() && Roll(2) == 0) retired_.push_back(std::move(optimizer_));
    optimizer_ = NewOptimizer();
    monitor_->Attach(*model_, *optimizer_);
    known_ = Parameters();
  }
  void AssignAnother() {
    if (auto* own = dynamic_cast<Sgd*>(optimizer_.get())) *own = Sgd(Updated(), torch::optim::SGDOptions(1e-2));
  }
  void GiveOtherData() {
    const torch::NoGradGuard no_grad;
    torch::Tensor weight = AnyLayer()->weight;
    weight.set_data(weight.detach() * 0.9);
  }
  void GiveLongerData() {
    const torch::NoGradGuard no_grad;
    optimizer_->state().erase(model_->points.unsafeGetTensorImpl());
    model_->points.mutable_grad() = torch::Tensor();
    const auto count = static_cast<int64_t>(4 + Roll(6));
    model_->points.set_data(torch::randn({count, kWidth}, torch::dtype(model_->points.scalar_type())));
  }
  void ChangeDtype() {
    optimizer_->state().clear();
    for (const auto& [name, tensor] : Parameters()) tensor.mutable_grad() = torch::Tensor();
    model_->to(model_->points.scalar_type() == torch::kDouble ? torch::kFloat : torch::kDouble);
  }
  void AddOrRemoveModule() {
    if (model_->more) {
      model_->unregister_module("more");
      model_->more = nullptr;
    } else {
      model_->more = model_->register_module("more", WatchedLayer());
      model_->more->to(model_->points.scalar_type());
    }
    Regroup();
  }
  void LeaveOutOrTakeBack() {
    const std::string name = "layer" + std::to_string(Roll(kLayers)) + ".bias";
    if (left_out_.erase(name) == 0) left_out_.insert(name);
    Regroup();
  }
  void HookTensor() {
    if (const torch::Tensor weight = AnyWeight(); weight.requires_grad())
      weight.register_hook([](const torch::Tensor& gradient) { return gradient * 1.0; });
  }
  void HookAccumulation() {
    const torch::Tensor tensor = Roll(2) == 0 ? AnyWeight() : AnyLayer()->bias;
    if (!tensor.requires_grad()) return;
    torch::autograd::impl::set_post_acc_grad_hooks(tensor, std::make_unique<LeavesAsItIs>());
    unhooked_.emplace_back("", tensor);
  }

  void Change() {
    using Call = void (ChangedTraining::*)();
    static constexpr std::pair<const char*, Call> kChanges[] = {
        {"freeze", &ChangedTraining::Freeze},
        {"unfreeze", &ChangedTraining::Unfreeze},
        {"replace a module", &ChangedTraining::ReplaceModule},
        {"replace a parameter", &ChangedTraining::ReplaceParameter},
        {"tie", &ChangedTraining::Tie},
        {"another optimizer", &ChangedTraining::AttachAnother},
        {"assign an optimizer", &ChangedTraining::AssignAnother},
        {"other data", &ChangedTraining::GiveOtherData},
        {"longer data", &ChangedTraining::GiveLongerData},
        {"another dtype", &ChangedTraining::ChangeDtype},
        {"a module more or less", &ChangedTraining::AddOrRemoveModule},
        {"leave out or take back", &ChangedTraining::LeaveOutOrTakeBack},
        {"hook a tensor", &ChangedTraining::HookTensor},
        {"hook an accumulation", &ChangedTraining::HookAccumulation},
    };
    const auto& [name, change] = kChanges[Roll(std::size(kChanges))];
    changes_.back() = name;
    (this->*change)();
  }

  std::mt19937_64 dice_;
  const bool each_pass_;  // monitor_mbs_grad
  Harness harness_;
  Stack model_;
  std::set<std::string> left_out_;  // parameters that no optimizer updates
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> retired_;
  std::vector<torch::Tensor> kept_;
  std::unique_ptr<TorchMonitor> monitor_;
  Named known_;     // as the monitor has read them last: a gradient has the name that its tensor had then
  Named unhooked_;  // tensors whose place for a hook somebody else has taken in this step
  std::map<std::string, int> passes_;
  std::vector<std::string> trained_;
  std::vector<Table> tables_;
  std::vector<std::string> changes_;  // of each step
};

void TrainChanged(uint64_t series) {
  const uint64_t first = test::RandomSeed();
  for (uint64_t seed = first; seed < first + series; ++seed) {
    INFO("repeat with STEPWATCH_SEED=" << seed);
    ChangedTraining training(seed);
    for (int step = 0; step < kStepsOfChanges; ++step) training.Step();
    training.Check();
  }
}

}  // namespace

TEST_CASE("whatever changes at random in mid-run, rows are torch's numbers of the model as it is") {
  TrainChanged(testing::Rounds(uint64_t{6}));
}

TEST_CASE("the same for hundreds of series of changes", "[long]") {
  TrainChanged(testing::Rounds(uint64_t{200}));
}

}  // namespace stepwatch::tests
