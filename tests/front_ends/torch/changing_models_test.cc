// Models and optimizers that change while they are trained: what is told of them holds in every step, or a line says
// that it does not.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/front_ends/torch/nets.h"

namespace stepwatch::tests {
namespace {

using AdamW = Watched<torch::optim::AdamW>;
using Parameters = std::vector<torch::Tensor>;

constexpr const char* kOfParameters =
    R"({"wg_distribution": true, "param_distribution": true, "mv_distribution": true})";
constexpr const char* kOfAll = R"({"xy_distribution": true, "wg_distribution": true, "param_distribution": true})";
constexpr int kSteps = 14;

torch::optim::AdamWOptions AdamRate() {
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

void Freeze(const nn::Linear& part, bool frozen) {
  for (torch::Tensor& parameter : part->parameters()) parameter.set_requires_grad(!frozen);
}

void PutInGroup(torch::optim::Optimizer& optimizer, const torch::Tensor& old, const torch::Tensor& fresh) {
  for (auto& group : optimizer.param_groups())
    for (torch::Tensor& parameter : group.params())
      if (parameter.is_same(old)) parameter = fresh;
  optimizer.state().erase(old.unsafeGetTensorImpl());
}

// What torch's own operators say of the parameters that have a gradient, by kind and name.
using Norms = std::map<std::pair<SiteKind, std::string>, double>;

Norms BeforeUpdate(const Changing& model) {
  Norms norms;
  for (const auto& item : model->named_parameters()) {
    if (!item.value().grad().defined()) continue;
    norms[{SiteKind::kGradUnreduced, item.key()}] = Norm(item.value().grad());
    norms[{SiteKind::kGradReduced, item.key()}] = Norm(item.value().grad());
    norms[{SiteKind::kParamOrigin, item.key()}] = Norm(item.value());
  }
  return norms;
}

void AddAfterUpdate(const Changing& model, Norms* norms) {
  for (const auto& item : model->named_parameters())
    if (norms->count({SiteKind::kParamOrigin, item.key()}) > 0)
      (*norms)[{SiteKind::kParamUpdated, item.key()}] = Norm(item.value());
}

// The step's rows of these kinds are these, and each is there once. Without those of un-reduced gradients that `late`
// says may be absent.
void CheckRows(const Harness& harness, int64_t step, const Norms& norms, const std::string& late = "") {
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

// Trains, with a change before each step, and checks the rows of every step. `late` names the parameter whose
// un-reduced gradient may be absent in a step.
void TrainAndCheck(Harness& harness, Changing& model, torch::optim::Optimizer& optimizer, TorchMonitor& monitor,
                   const std::function<std::string(int)>& change) {
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
  CHECK(monitor.core().step() == kSteps);
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kSteps; ++step)
    CheckRows(harness, step, norms[static_cast<size_t>(step)], late[static_cast<size_t>(step)]);
  CHECK(harness.CountEvents(EventKind::kDegraded, "") == 0);
  CHECK(harness.LedgersBalance());
}

// Events are told by another thread.
bool WaitForEvent(const Harness& harness, EventKind kind, const std::string& part) {
  for (int i = 0; i < 1000 && harness.CountEvents(kind, part) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return harness.CountEvents(kind, part) > 0;
}

}  // namespace

TEST_CASE("parameters that are replaced in the model and in their group are followed") {
  const bool is_told = GENERATE(false, true);
  Harness harness(kOfParameters);
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  Parameters kept;  // tensors that are dead to the training are alive in the program
  TrainAndCheck(harness, model, optimizer, monitor, [&](int step) -> std::string {
    if (step % 4 != 3) return "";
    kept.push_back(model->points);
    model->ReplacePoints(6 + step);
    PutInGroup(optimizer, kept.back(), model->points);
    if (is_told) monitor.Attach(*model, optimizer);
    return is_told ? "" : "points";
  });
  for (const Row& row : harness.RowsOf(SiteKind::kParamUpdated, kSteps - 1))
    if (row.name == "points") CHECK(row.record.dims[0] == 6 + 11);
  CHECK(harness.CountEvents(EventKind::kNote, "other tensors now (points)") == (is_told ? 0 : 1));
}

TEST_CASE("a parameter that gets data of another shape or dtype is trained and seen like any other") {
  Harness harness(kOfParameters);
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  TrainAndCheck(harness, model, optimizer, monitor, [&](int step) -> std::string {
    if (step % 3 == 2) {
      const torch::NoGradGuard no_grad;
      optimizer.state().erase(model->points.unsafeGetTensorImpl());
      model->points.mutable_grad() = torch::Tensor();
      model->points.set_data(torch::randn({4 + step, 4}, torch::dtype(model->points.scalar_type())));
    }
    if (step == 7) {
      optimizer.state().clear();
      model->to(torch::kDouble);
    }
    return "";
  });
  CHECK(harness.RowsOf(SiteKind::kGradUnreduced, kSteps - 1)[0].record.dtype == DType::kFloat64);
}

TEST_CASE("a plan keeps nothing of autograd's graph alive") {
  Harness harness(kOfAll);
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  for (int step = 0; step < kSteps; ++step) {
    model().backward();
    for (const torch::Tensor& parameter : model->parameters())
      CHECK(!torch::autograd::impl::try_get_grad_accumulator(parameter));
    optimizer.step();
  }
}

TEST_CASE("a parameter has rows in the step in which it is unfrozen, and none while it is frozen") {
  Harness harness(kOfParameters);
  Changing model;
  Freeze(model->body, true);
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  TrainAndCheck(harness, model, optimizer, monitor, [&](int step) -> std::string {
    if (step == 2 || step == 10) Freeze(model->body, false);
    if (step == 7) Freeze(model->body, true);
    return "";
  });
  CHECK(harness.RowsOf(SiteKind::kGradUnreduced, 2).size() == 5);
  CHECK(harness.RowsOf(SiteKind::kGradUnreduced, 8).size() == 3);
}

TEST_CASE("a parameter that comes to an optimizer as a group has rows in that step") {
  Harness harness(kOfParameters);
  Changing model;
  Freeze(model->body, true);
  Parameters first{model->points};
  for (const torch::Tensor& parameter : model->head->parameters()) first.push_back(parameter);
  AdamW optimizer(first, AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  TrainAndCheck(harness, model, optimizer, monitor, [&](int step) -> std::string {
    if (step != 3) return "";
    Freeze(model->body, false);
    optimizer.add_param_group(torch::optim::OptimizerParamGroup(model->body->parameters()));
    return "";
  });
  CHECK(harness.CountEvents(EventKind::kNote, "have come to an attached optimizer") == 1);
}

TEST_CASE("a module that is replaced under its name is followed") {
  Harness harness(kOfAll);
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  for (int step = 0; step < kSteps; ++step) {
    if (step == 4) {
      const nn::Linear old = model->head;
      model->head = model->replace_module("head", nn::Linear(4, 3));
      PutInGroup(optimizer, old->weight, model->head->weight);
      PutInGroup(optimizer, old->bias, model->head->bias);
    }
    optimizer.zero_grad();
    model().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kSteps; ++step) {
    INFO("step " << step);
    const auto weight = harness.Find(SiteKind::kParamUpdated, "head.weight", step);
    REQUIRE(weight);
    CHECK(weight->dims[0] == (step < 4 ? 2 : 3));
    const auto output = harness.Find(SiteKind::kActv, "head.output", step);
    if (step == 4) continue;  // nobody has looked yet when it is called
    REQUIRE(output);
    CHECK(output->dims[1] == (step < 4 ? 2 : 3));
    CHECK(harness.Find(SiteKind::kActvGrad, "head.input", step));
    CHECK(harness.Find(SiteKind::kGradUnreduced, "head.weight", step));
  }
  CHECK(harness.LedgersBalance());
}

TEST_CASE("modules and parameters of new names have rows from the next step on, and gone ones have none") {
  Harness harness(kOfAll);
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  for (int step = 0; step < kSteps; ++step) {
    if (step == 3) {
      model->more = model->register_module("more", nn::Linear(2, 2));
      optimizer.add_param_group(torch::optim::OptimizerParamGroup(model->more->parameters()));
    }
    if (step == 9) {
      model->unregister_module("more");
      model->more = nullptr;
      optimizer.param_groups().pop_back();
    }
    optimizer.zero_grad();
    model().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kSteps; ++step) {
    INFO("step " << step);
    const bool is_there = step > 3 && step < 9;
    CHECK(harness.Find(SiteKind::kActv, "more.output", step).has_value() == is_there);
    CHECK(harness.Find(SiteKind::kParamUpdated, "more.weight", step).has_value() == is_there);
    CHECK(harness.Find(SiteKind::kGradUnreduced, "more.weight", step).has_value() == is_there);
    CHECK(harness.Find(SiteKind::kParamUpdated, "head.weight", step).has_value());
  }
  CHECK(harness.CountEvents(EventKind::kNote, "the model has changed (new: more, more.weight, more.bias)") == 1);
  CHECK(harness.LedgersBalance());
}

TEST_CASE("a plan that begins is for the model as it is then") {
  Harness harness(R"({"dynamic_on": false})");
  harness.options.dynamic = true;
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  Parameters kept;
  for (int step = 0; step < 2 * kSteps; ++step) {
    if (step == 3) {  // nothing is collected
      kept.push_back(model->points);
      model->ReplacePoints(9);
      PutInGroup(optimizer, kept.back(), model->points);
      model->more = model->register_module("more", nn::Linear(2, 2));
      optimizer.add_param_group(torch::optim::OptimizerParamGroup(model->more->parameters()));
    }
    if (step == 5) {
      harness.Save(R"({"dynamic_on": true, "xy_distribution": true, "wg_distribution": true,
                       "param_distribution": true, "collect_times": 12})");
      CHECK(monitor.Refresh(std::chrono::seconds(10)) == RefreshOutcome::kArmed);
    }
    optimizer.zero_grad();
    model().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int step = 6; step < 6 + 12; ++step) {
    INFO("step " << step);
    for (const char* name : {"points", "more.weight"}) CHECK(harness.Find(SiteKind::kGradUnreduced, name, step));
    CHECK(harness.Find(SiteKind::kActv, "more.output", step));
    const auto points = harness.Find(SiteKind::kParamUpdated, "points", step);
    REQUIRE(points);
    CHECK(points->dims[0] == 9);
  }
  CHECK(harness.LedgersBalance());
}

TEST_CASE("an optimizer that is assigned to the watched variable is watched in its place") {
  Harness harness(kOfParameters);
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  TrainAndCheck(harness, model, optimizer, monitor, [&](int step) -> std::string {
    if (step == 5) optimizer = AdamW(model->parameters(), torch::optim::AdamWOptions(1e-3));
    return "";
  });
  CHECK(harness.RowsOf(SiteKind::kExpAvg, 5).empty());  // it begins without a state
  CHECK(harness.RowsOf(SiteKind::kExpAvg, 6).size() == 5);
}

TEST_CASE("an optimizer in another's place that nobody attaches is missed while the job runs") {
  Harness harness(kOfParameters);
  Changing model;
  TorchMonitor monitor(harness.options);
  auto optimizer = std::make_unique<AdamW>(model->parameters(), AdamRate());
  monitor.Attach(*model, *optimizer);
  const auto train = [&](int steps) {
    for (int step = 0; step < steps; ++step) {
      optimizer->zero_grad();
      model().backward();
      optimizer->step();
    }
  };
  train(kSteps);
  optimizer = std::make_unique<AdamW>(model->parameters(), AdamRate());
  train(95);
  CHECK(harness.CountEvents(EventKind::kWarning, "no step has ended") == 0);
  train(kSteps);
  CHECK(WaitForEvent(harness, EventKind::kWarning, "attach the optimizer that is stepped now"));
  monitor.Attach(*model, *optimizer);
  train(kSteps);
  CHECK(monitor.core().step() == 2 * kSteps);
  CHECK(monitor.Close().ok());
  CHECK(harness.CountEvents(EventKind::kWarning, "no step has ended") == 1);
}

TEST_CASE("what cannot be followed is told once, while the job runs") {
  Harness harness(kOfParameters);
  std::optional<Changing> model(std::in_place);
  AdamW optimizer((*model)->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(**model, optimizer);
  const auto train = [&] {
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      if (model) (*model)().backward();
      optimizer.step();
    }
  };
  SECTION("a tensor that the optimizer has and no module registers") {
    const torch::Tensor old = (*model)->points;
    (*model)->points = torch::randn({9, 4}).requires_grad_();
    PutInGroup(optimizer, old, (*model)->points);
    train();
    CHECK(WaitForEvent(harness, EventKind::kWarning, "1 tensors more that no attached module registers"));
    CHECK(WaitForEvent(harness, EventKind::kWarning, "updates these parameters of the model any more: points"));
    CHECK(monitor.Close().ok());
    for (const Row& row : harness.rows()) CHECK(row.name != "points");
  }
  SECTION("a model that is destroyed") {
    train();
    model.reset();
    train();
    CHECK(WaitForEvent(harness, EventKind::kWarning, "a model that was attached has been destroyed"));
    CHECK(monitor.Close().ok());
  }
  CHECK(harness.CountEvents(EventKind::kWarning, "no attached module registers") <= 1);
  CHECK(harness.CountEvents(EventKind::kWarning, "has been destroyed") <= 1);
  CHECK(harness.LedgersBalance());
}

}  // namespace stepwatch::tests
