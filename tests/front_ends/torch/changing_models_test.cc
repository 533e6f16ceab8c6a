// Models and optimizers that change while they are trained: what is told of them holds in every step, or a line says
// that it does not.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/front_ends/torch/changing_nets.h"

namespace stepwatch::tests {

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
  CHECK(harness.CountEvents(EventKind::kNote, "were replaced by other tensors (points)") == (is_told ? 0 : 1));
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

TEST_CASE("a module that gets another name has rows under that one from the next step on") {
  Harness harness(kOfAll);
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  for (int step = 0; step < kSteps; ++step) {
    if (step == 3) {
      model->unregister_module("head");
      model->register_module("top", model->head);
    }
    optimizer.zero_grad();
    model().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int step = 4; step < kSteps; ++step) {
    INFO("step " << step);
    CHECK(harness.Find(SiteKind::kParamUpdated, "top.weight", step));
    CHECK(harness.Find(SiteKind::kActv, "top.output", step));
    CHECK_FALSE(harness.Find(SiteKind::kParamUpdated, "head.weight", step));
  }
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

TEST_CASE("a tensor that has got the place of another one has rows under its new name alone") {
  Harness harness(kOfParameters);
  Changing model;
  model->head = model->replace_module("head", nn::Linear(4, 4));
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  std::vector<Norms> norms;
  for (int step = 0; step < kSteps; ++step) {
    if (step == 3) {  // body and head share a weight from now on, under the name of the first
      struct Open : nn::Linear::ContainedType {
        static auto& ParametersOf(torch::nn::Module& module) { return module.*(&Open::parameters_); }
      };
      const torch::Tensor old = model->body->weight;
      model->body->weight = model->head->weight;
      Open::ParametersOf(*model->body)["weight"] = model->head->weight;
      std::vector<torch::Tensor>& group = optimizer.param_groups()[0].params();
      group.erase(std::find_if(group.begin(), group.end(), [&](const auto& each) { return each.is_same(old); }));
    }
    optimizer.zero_grad();
    model().backward();
    norms.push_back(BeforeUpdate(model));
    optimizer.step();
    AddAfterUpdate(model, &norms.back());
    if (step >= 3)
      for (const SiteKind kind :
           {SiteKind::kGradUnreduced, SiteKind::kGradReduced, SiteKind::kParamOrigin, SiteKind::kParamUpdated})
        norms.back().erase({kind, "head.weight"});
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kSteps; ++step)
    if (step != 3) CheckRows(harness, step, norms[static_cast<size_t>(step)]);
}

TEST_CASE("a parameter that no optimizer updates has un-reduced gradients after the program has put its hook on it") {
  struct LeavesAsItIs : torch::autograd::PostAccumulateGradHook {
    void operator()(const torch::Tensor&) override {}
  };
  Harness harness(kOfParameters);
  Changing model;
  AdamW optimizer(model->head->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  for (int step = 0; step < kSteps; ++step) {
    if (step == 3) torch::autograd::impl::set_post_acc_grad_hooks(model->points, std::make_unique<LeavesAsItIs>());
    model->zero_grad();
    model().backward();
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kSteps; ++step) {
    INFO("step " << step);
    CHECK(harness.Find(SiteKind::kGradUnreduced, "points", step).has_value() == (step != 3));
  }
}

TEST_CASE("backward passes are counted on when the model is attached again between them") {
  Harness harness(R"({"wg_distribution": true, "monitor_mbs_grad": true})");
  harness.options.grad_acc_steps = 3;
  Changing model;
  AdamW optimizer(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, optimizer);
  std::vector<double> norms;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (int pass = 0; pass < 3; ++pass) {
      if (pass == step % 3) monitor.Attach(*model, optimizer);
      model().backward();
      norms.push_back(Norm(model->points.grad()));
    }
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  for (int i = 0; i < 3 * kSteps; ++i) {
    INFO("step " << i / 3 << ", pass " << i % 3);
    const auto record = harness.Find(SiteKind::kGradUnreduced, "points", i / 3, i % 3);
    REQUIRE(record);
    CHECK(ValueOf(*record, Stat::kNorm) == Approx(norms[static_cast<size_t>(i)]).epsilon(1e-6));
  }
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
    CHECK(WaitForEvent(harness, EventKind::kWarning, "1 more tensors that no attached module registers"));
    CHECK(WaitForEvent(harness, EventKind::kWarning, "no longer updated by an attached optimizer: points"));
    CHECK(monitor.Close().ok());
    for (const Row& row : harness.rows()) CHECK(row.name != "points");
  }
  SECTION("a model that is destroyed") {
    train();
    model.reset();
    train();
    CHECK(WaitForEvent(harness, EventKind::kWarning, "an attached model was destroyed"));
    CHECK(monitor.Close().ok());
  }
  CHECK(harness.CountEvents(EventKind::kWarning, "no attached module registers") <= 1);
  CHECK(harness.CountEvents(EventKind::kWarning, "an attached model was destroyed") <= 1);
  CHECK(harness.LedgersBalance());
}

}  // namespace stepwatch::tests
