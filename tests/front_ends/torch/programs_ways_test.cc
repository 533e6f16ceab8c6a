// Programs that do more than training between two steps: more backward passes and updates than were announced,
// rollouts, checkpoints, exceptions that they catch, hooks of their own.
#include <torch/serialize.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/front_ends/torch/nets.h"

namespace stepwatch::tests {
namespace {

constexpr const char* kGradientsAndWeights = R"({"wg_distribution": true, "param_distribution": true})";
constexpr const char* kAllKinds = R"({"xy_distribution": true, "wg_distribution": true, "param_distribution": true,
                                      "mv_distribution": true, "mg_direction": true})";
constexpr int kStepsOfWays = 14;

// The same training for watched and for plain modules.
template <class Linear>
struct PairImpl : torch::nn::Module {
  PairImpl() {
    inner = register_module("inner", Linear(4, 4));
    outer = register_module("outer", Linear(4, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) { return outer(torch::tanh(inner(x))); }
  Linear inner{nullptr}, outer{nullptr};
};
using WatchedPair = PairImpl<nn::Linear>;
using PlainPair = PairImpl<torch::nn::Linear>;

struct ProductImpl : torch::nn::Module {
  ProductImpl() { weight = register_parameter("weight", torch::ones({4})); }
  std::map<std::string, torch::Tensor> forward(const torch::Tensor& x) { return {{"product", x * weight}}; }
  torch::Tensor weight;
};
TORCH_MODULE(Product);

torch::Tensor LossOf(WatchedPair& pair) {
  return pair.forward(torch::randn({3, 4})).square().mean();
}

// No two rows have the same key.
void CheckKeys(const Harness& harness) {
  std::set<std::tuple<SiteKind, int, std::string, int64_t, int>> keys;
  for (const Row& row : harness.rows()) {
    const bool has_micro_step = TraitsOf(row.kind).micro_steps == MicroSteps::kAlways;
    INFO(SiteKindName(row.kind) << " " << row.name << " step " << row.record.step);
    CHECK(keys.emplace(row.kind, row.chunk, row.name, row.record.step, has_micro_step ? row.record.micro_step : 0)
              .second);
  }
}

double UnreducedNorm(const Harness& harness, const std::string& name, int64_t step) {
  for (const Row& row : harness.RowsOf(SiteKind::kGradUnreduced, step))
    if (row.name == name) return ValueOf(row.record, Stat::kNorm);
  return -1;
}

uint64_t CountDropped(const Harness& harness, DropReason reason) {
  uint64_t dropped = 0;
  for (const Event& event : harness.events())
    if (event.kind == EventKind::kDrained) dropped += event.ledger.dropped[static_cast<size_t>(reason)];
  return dropped;
}

}  // namespace

TEST_CASE("un-reduced gradients are what all passes have accumulated, however many come, before they are clipped") {
  const int announced = GENERATE(1, 2, 4);
  Harness harness(kGradientsAndWeights);
  harness.options.grad_acc_steps = announced;
  auto pair = std::make_shared<WatchedPair>();
  Sgd optimizer(pair->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*pair, optimizer);
  std::vector<double> unreduced, reduced;
  for (int step = 0; step < kStepsOfWays; ++step) {
    optimizer.zero_grad();
    for (int pass = 0; pass < 1 + step % 5; ++pass) LossOf(*pair).backward();
    unreduced.push_back(Norm(pair->inner->weight.grad()));
    torch::nn::utils::clip_grad_norm_(pair->parameters(), 1e-3);
    reduced.push_back(Norm(pair->inner->weight.grad()));
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kStepsOfWays; ++step) {
    INFO("announced " << announced << ", step " << step);
    CHECK(UnreducedNorm(harness, "inner.weight", step) == Approx(unreduced[static_cast<size_t>(step)]).epsilon(1e-6));
    const auto record = harness.Find(SiteKind::kGradReduced, "inner.weight", step);
    REQUIRE(record);
    CHECK(ValueOf(*record, Stat::kNorm) == Approx(reduced[static_cast<size_t>(step)]).epsilon(1e-6));
  }
  CheckKeys(harness);
  CHECK(harness.LedgersBalance());
}

TEST_CASE("several updates of a network in a step give rows of their own") {
  Harness harness(kAllKinds);
  auto generator = std::make_shared<WatchedPair>(), critic = std::make_shared<WatchedPair>();
  Sgd clock(generator->parameters(), Rate());
  Watched<torch::optim::AdamW> other(critic->parameters(), torch::optim::AdamWOptions(1e-2));
  TorchMonitor monitor(harness.options);
  monitor.Attach(*generator, clock);
  monitor.Attach(*critic, other);
  std::vector<double> gradients, weights;
  for (int step = 0; step < kStepsOfWays; ++step) {
    for (int update = 0; update < 3; ++update) {
      other.zero_grad();
      LossOf(*critic).backward();
      gradients.push_back(Norm(critic->inner->weight.grad()));
      other.step();
      weights.push_back(Norm(critic->inner->weight));
    }
    clock.zero_grad();
    critic->forward(torch::cat({generator->forward(torch::randn({3, 4})), torch::randn({3, 2})}, 1)).sum().backward();
    clock.step();
  }
  CHECK(monitor.Close().ok());
  CheckKeys(harness);
  // The gradient that the generator's loss leaves in the critic belongs to no update.
  for (const Row& row : harness.RowsOf(SiteKind::kGradUnreduced)) CHECK(row.name.find("@3") == std::string::npos);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto step = static_cast<int64_t>(i / 3);
    const std::string name = std::string("inner.weight") + (i % 3 == 0 ? "" : "@" + std::to_string(i % 3));
    INFO(name << " step " << step);
    for (const auto& [kind, norm] : {std::pair{SiteKind::kGradUnreduced, gradients[i]},
                                     {SiteKind::kGradReduced, gradients[i]},
                                     {SiteKind::kParamUpdated, weights[i]}}) {
      double seen = -1;
      for (const Row& row : harness.RowsOf(kind, step))
        if (row.chunk == 1 && row.name == name) seen = ValueOf(row.record, Stat::kNorm);
      CHECK(seen == Approx(norm).epsilon(1e-6));
    }
  }
  CHECK(harness.RowsOf(SiteKind::kExpAvg, 5).size() == 3 * 4);
  CHECK(harness.LedgersBalance());
}

TEST_CASE("forward passes without gradient leave the rows of training their places") {
  Harness harness(kAllKinds);
  auto pair = std::make_shared<WatchedPair>();
  Sgd optimizer(pair->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*pair, optimizer);
  for (int step = 0; step < kStepsOfWays; ++step) {
    {
      const torch::NoGradGuard no_grad;
      for (int rollout = 0; rollout < 2048; ++rollout) pair->forward(torch::randn({1, 4}));
    }
    optimizer.zero_grad();
    LossOf(*pair).backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kStepsOfWays; ++step) {
    INFO("step " << step);
    CHECK(harness.RowsOf(SiteKind::kActvGrad, step).size() == 4);
    CHECK(harness.RowsOf(SiteKind::kGradUnreduced, step).size() == 4);
    CHECK(harness.RowsOf(SiteKind::kParamUpdated, step).size() == 4);
  }
  CHECK(CountDropped(harness, DropReason::kRingFull) == 0);
  CHECK(harness.CountEvents(EventKind::kWarning, "forward passes without gradient") == 1);
  CHECK(harness.CountEvents(EventKind::kWarning, "forward calls of modules without gradient have no rows") == 1);
}

TEST_CASE("a module that is saved, cloned or loaded while a plan is in force is the same as without the monitor") {
  Harness harness(kAllKinds);
  auto pair = std::make_shared<WatchedPair>();
  Watched<torch::optim::AdamW> optimizer(pair->parameters(), torch::optim::AdamWOptions(1e-2));
  TorchMonitor monitor(harness.options);
  monitor.Attach(*pair, optimizer);
  std::stringstream model_file, optimizer_file, tensor_file;
  for (int step = 0; step < kStepsOfWays; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = LossOf(*pair);
    loss.backward();
    if (step == 6) {  // in mid-step, with hooks everywhere
      torch::save(std::shared_ptr<torch::nn::Module>(pair), model_file);
      torch::save(optimizer, optimizer_file);
      torch::save(pair->inner->weight, tensor_file);
      auto plain = std::make_shared<PlainPair>();
      torch::optim::AdamW stock(plain->parameters(), torch::optim::AdamWOptions(1e-2));
      std::shared_ptr<torch::nn::Module> loaded = plain;
      torch::load(loaded, model_file);
      torch::load(stock, optimizer_file);
      torch::Tensor weight;
      torch::load(weight, tensor_file);
      CHECK(torch::equal(plain->inner->weight, pair->inner->weight));
      CHECK(torch::equal(weight, pair->inner->weight));
      CHECK(stock.state().size() == 4);
      const nn::Linear copy(std::dynamic_pointer_cast<nn::Linear::ContainedType>(pair->inner->clone()));
      for (const torch::Tensor& each : {plain->inner->weight, weight, copy->weight}) {
        if (torch::autograd::impl::get_autograd_meta(each) == nullptr) continue;
        CHECK(torch::autograd::impl::post_acc_grad_hooks(each) == nullptr);
        CHECK(torch::autograd::impl::hooks(each).empty());
      }
    }
    if (step == 8) {  // a checkpoint goes back into what is watched
      model_file.seekg(0);
      std::shared_ptr<torch::nn::Module> watched = pair;
      torch::load(watched, model_file);
    }
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int step = 1; step < kStepsOfWays; ++step) {
    INFO("step " << step);
    CHECK(harness.RowsOf(SiteKind::kParamUpdated, step).size() == 4);
    CHECK(harness.RowsOf(SiteKind::kExpAvg, step).size() == 4);
  }
  CheckKeys(harness);
}

TEST_CASE("exceptions that the program catches leave the monitor in order") {
  struct MayFail : torch::optim::SGD {
    using SGD::SGD;
    torch::Tensor step(LossClosure closure = nullptr) override {
      if (fails) throw std::runtime_error("in the update");
      return SGD::step(std::move(closure));
    }
    bool fails = false;
  };
  Harness harness(kAllKinds);
  auto pair = std::make_shared<WatchedPair>();
  Watched<MayFail> optimizer(pair->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*pair, optimizer);
  std::vector<double> gradients;
  for (int step = 0; step < kStepsOfWays; ++step) {
    optimizer.zero_grad();
    if (step % 4 == 1) CHECK_THROWS(pair->forward(torch::randn({3, 5})));
    if (step % 4 == 2) {  // in mid-backward
      const torch::Tensor hidden = pair->inner(torch::randn({3, 4}));
      hidden.register_hook([](const torch::Tensor&) -> torch::Tensor { throw std::runtime_error("of the program"); });
      CHECK_THROWS(pair->outer(hidden).sum().backward());
      optimizer.zero_grad();
    }
    if (step % 4 == 3)
      CHECK_THROWS(optimizer.step([]() -> torch::Tensor { throw std::runtime_error("in a closure"); }));
    if (step % 5 == 4) {  // when the monitor has seen gradients and weights already
      LossOf(*pair).backward();
      optimizer.fails = true;
      CHECK_THROWS(optimizer.step());
      optimizer.fails = false;
      optimizer.zero_grad();
    }
    LossOf(*pair).backward();
    gradients.push_back(Norm(pair->inner->weight.grad()));
    optimizer.step();
    CHECK(monitor.core().step() == step + 1);
  }
  CHECK(monitor.Close().ok());
  CheckKeys(harness);
  for (int step = 0; step < kStepsOfWays; ++step) {
    const std::string name = "inner.weight";
    for (const SiteKind kind : {SiteKind::kGradReduced, SiteKind::kGradUnreduced}) {
      INFO(SiteKindName(kind) << " " << name << " step " << step);
      double seen = -1;
      for (const Row& row : harness.RowsOf(kind, step))
        if (row.name == name) seen = ValueOf(row.record, Stat::kNorm);
      CHECK(seen == Approx(gradients[static_cast<size_t>(step)]).epsilon(1e-6));
      for (const Row& row : harness.RowsOf(kind, step)) CHECK(row.name.find('@') == std::string::npos);
    }
  }
  CHECK(harness.CountEvents(EventKind::kDegraded, "") == 0);
  CHECK(harness.LedgersBalance());
}

TEST_CASE("a selected module that does not run through the monitor is reported once") {
  Harness harness(R"({"xy_distribution": true})");
  auto pair = std::make_shared<WatchedPair>();
  Sgd optimizer(pair->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*pair, optimizer);
  for (int step = 0; step < kStepsOfWays; ++step) {
    torch::nn::functional::linear(pair->inner(torch::randn({3, 4})), pair->outer->weight).sum().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  CHECK(harness.CountEvents(EventKind::kWarning, "1 of 2 selected modules (\"0:outer\" is one)") == 1);
}

TEST_CASE("an output that is not looked into is reported once") {
  Harness harness(R"({"xy_distribution": true})");
  Watched<Product> module;
  Sgd optimizer(module->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*module, optimizer);
  for (int step = 0; step < kStepsOfWays; ++step) {
    module->forward(torch::randn({3, 4})).at("product").sum().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  CHECK(harness.CountEvents(EventKind::kWarning, "the output of module \"0:\"") == 1);
}

TEST_CASE("a hook of the program after the accumulation runs as without the monitor, whenever it is put on") {
  struct StepsInBackward : torch::autograd::PostAccumulateGradHook {
    explicit StepsInBackward(int* counter) : calls(counter) {}
    void operator()(const torch::Tensor& parameter) override {
      ++*calls;
      const torch::NoGradGuard no_grad;
      parameter.sub_(parameter.grad(), 0.1);
      parameter.mutable_grad() = torch::Tensor();
    }
    int* calls;
  };
  const int put_on = GENERATE(-1, 5);  // before the monitor; in mid-run
  Harness harness(kGradientsAndWeights);
  auto pair = std::make_shared<WatchedPair>();
  int calls = 0;
  const auto put = [&] {
    torch::autograd::impl::set_post_acc_grad_hooks(pair->inner->weight, std::make_unique<StepsInBackward>(&calls));
  };
  if (put_on < 0) put();
  Sgd optimizer(pair->parameters(), Rate());
  {
    TorchMonitor monitor(harness.options);
    monitor.Attach(*pair, optimizer);
    for (int step = 0; step < kStepsOfWays; ++step) {
      if (step == put_on) put();
      optimizer.zero_grad();
      LossOf(*pair).backward();
      optimizer.step();
    }
  }
  CHECK(calls == (put_on < 0 ? kStepsOfWays : kStepsOfWays - put_on));
  for (int step = 0; step < kStepsOfWays; ++step)
    if (step != put_on) CHECK(UnreducedNorm(harness, "inner.weight", step) > 0);
  LossOf(*pair).backward();
  CHECK(calls == (put_on < 0 ? kStepsOfWays : kStepsOfWays - put_on) + 1);
}

}  // namespace stepwatch::tests
