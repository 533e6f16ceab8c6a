// Models and optimizers that change while they are trained: their rows are right in every step, or a line reports that
// they are not.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/front_ends/torch/changing_nets.h"

namespace stepwatch::tests {

TEST_CASE("parameters that are replaced in the model and in their group are followed") {
  const bool is_announced = GENERATE(false, true);
  ChangingJob job(kOfParameters);
  Parameters kept;  // tensors that are dead to the training are alive in the program
  job.TrainAndCheck([&](int step) -> std::string {
    if (step % 4 != 3) return "";
    kept.push_back(job.model->points);
    job.model->ReplacePoints(6 + step);
    PutInGroup(job.optimizer, kept.back(), job.model->points);
    if (is_announced) job.monitor->Attach(*job.model, job.optimizer);
    return is_announced ? "" : "points";
  });
  for (const Row& row : job.harness.RowsOf(SiteKind::kParamUpdated, kSteps - 1))
    if (row.name == "points") CHECK(row.record.dims[0] == 6 + 11);
  CHECK(job.harness.CountEvents(EventKind::kNote, "were replaced by other tensors (points)") == (is_announced ? 0 : 1));
}

TEST_CASE("a parameter that gets data of another shape or dtype is trained and seen like any other") {
  ChangingJob job(kOfParameters);
  job.TrainAndCheck([&](int step) -> std::string {
    if (step % 3 == 2) {
      const torch::NoGradGuard no_grad;
      job.optimizer.state().erase(job.model->points.unsafeGetTensorImpl());
      job.model->points.mutable_grad() = torch::Tensor();
      job.model->points.set_data(torch::randn({4 + step, 4}, torch::dtype(job.model->points.scalar_type())));
    }
    if (step == 7) {
      job.optimizer.state().clear();
      job.model->to(torch::kDouble);
    }
    return "";
  });
  CHECK(job.harness.RowsOf(SiteKind::kGradUnreduced, kSteps - 1)[0].record.dtype == DType::kFloat64);
}

TEST_CASE("a plan keeps nothing of autograd's graph alive") {
  ChangingJob job(kOfAll);
  for (int step = 0; step < kSteps; ++step) {
    job.model().backward();
    for (const torch::Tensor& parameter : job.model->parameters())
      CHECK(!torch::autograd::impl::try_get_grad_accumulator(parameter));
    job.optimizer.step();
  }
}

TEST_CASE("a parameter has rows in the step in which it is unfrozen, and none while it is frozen") {
  ChangingJob job(kOfParameters, [](const Changing& model) {
    Freeze(model->body, true);
    return model->parameters();
  });
  job.TrainAndCheck([&](int step) -> std::string {
    if (step == 2 || step == 10) Freeze(job.model->body, false);
    if (step == 7) Freeze(job.model->body, true);
    return "";
  });
  CHECK(job.harness.RowsOf(SiteKind::kGradUnreduced, 2).size() == 5);
  CHECK(job.harness.RowsOf(SiteKind::kGradUnreduced, 8).size() == 3);
}

TEST_CASE("a module that is replaced under its name is followed") {
  ChangingJob job(kOfAll);
  job.TrainAndClose(kSteps, [&](int step) {
    if (step == 4) {
      const nn::Linear old = job.model->head;
      job.model->head = job.model->replace_module("head", nn::Linear(4, 3));
      PutInGroup(job.optimizer, old->weight, job.model->head->weight);
      PutInGroup(job.optimizer, old->bias, job.model->head->bias);
    }
  });
  for (int step = 0; step < kSteps; ++step) {
    INFO("step " << step);
    const auto weight = job.harness.Find(SiteKind::kParamUpdated, "head.weight", step);
    REQUIRE(weight);
    CHECK(weight->dims[0] == (step < 4 ? 2 : 3));
    const auto output = job.harness.Find(SiteKind::kActv, "head.output", step);
    if (step == 4) continue;  // nobody has looked yet when it is called
    REQUIRE(output);
    CHECK(output->dims[1] == (step < 4 ? 2 : 3));
    CHECK(job.harness.Find(SiteKind::kActvGrad, "head.input", step));
    CHECK(job.harness.Find(SiteKind::kGradUnreduced, "head.weight", step));
  }
}

TEST_CASE("a module that gets another name has rows under that one from the next step on") {
  ChangingJob job(kOfAll);
  job.TrainAndClose(kSteps, [&](int step) {
    if (step == 3) {
      job.model->unregister_module("head");
      job.model->register_module("top", job.model->head);
    }
  });
  for (int step = 4; step < kSteps; ++step) {
    INFO("step " << step);
    CHECK(job.harness.Find(SiteKind::kParamUpdated, "top.weight", step));
    CHECK(job.harness.Find(SiteKind::kActv, "top.output", step));
    CHECK_FALSE(job.harness.Find(SiteKind::kParamUpdated, "head.weight", step));
  }
}

TEST_CASE("modules and parameters of new names have rows from the next step on, and gone ones have none") {
  ChangingJob job(kOfAll);
  job.TrainAndClose(kSteps, [&](int step) {
    if (step == 3) {
      job.model->more = job.model->register_module("more", nn::Linear(2, 2));
      job.optimizer.add_param_group(torch::optim::OptimizerParamGroup(job.model->more->parameters()));
    }
    if (step == 9) {
      job.model->unregister_module("more");
      job.model->more = nullptr;
      job.optimizer.param_groups().pop_back();
    }
  });
  for (int step = 0; step < kSteps; ++step) {
    INFO("step " << step);
    const bool is_there = step > 3 && step < 9;
    CHECK(job.harness.Find(SiteKind::kActv, "more.output", step).has_value() == is_there);
    CHECK(job.harness.Find(SiteKind::kParamUpdated, "more.weight", step).has_value() == is_there);
    CHECK(job.harness.Find(SiteKind::kGradUnreduced, "more.weight", step).has_value() == is_there);
    CHECK(job.harness.Find(SiteKind::kParamUpdated, "head.weight", step).has_value());
  }
  CHECK(job.harness.CountEvents(EventKind::kNote, "the model has changed (new: more, more.weight, more.bias)") == 1);
}

TEST_CASE("a plan that begins is for the model as it is then") {
  ChangingJob job(R"({"dynamic_on": false})", AllParameters, [](Options& options) { options.dynamic = true; });
  Parameters kept;
  job.TrainAndClose(2 * kSteps, [&](int step) {
    if (step == 3) {  // nothing is collected
      kept.push_back(job.model->points);
      job.model->ReplacePoints(9);
      PutInGroup(job.optimizer, kept.back(), job.model->points);
      job.model->more = job.model->register_module("more", nn::Linear(2, 2));
      job.optimizer.add_param_group(torch::optim::OptimizerParamGroup(job.model->more->parameters()));
    }
    if (step != 5) return;
    job.harness.Save(R"({"dynamic_on": true, "xy_distribution": true, "wg_distribution": true,
                         "param_distribution": true, "collect_times": 12})");
    CHECK(job.monitor->Refresh(std::chrono::seconds(10)) == RefreshOutcome::kArmed);
  });
  for (int step = 6; step < 6 + 12; ++step) {
    INFO("step " << step);
    for (const char* name : {"points", "more.weight"}) CHECK(job.harness.Find(SiteKind::kGradUnreduced, name, step));
    CHECK(job.harness.Find(SiteKind::kActv, "more.output", step));
    const auto points = job.harness.Find(SiteKind::kParamUpdated, "points", step);
    REQUIRE(points);
    CHECK(points->dims[0] == 9);
  }
}

TEST_CASE("a parameter that no optimizer updates has un-reduced gradients after the program has put its hook on it") {
  struct LeavesAsItIs : torch::autograd::PostAccumulateGradHook {
    void operator()(const torch::Tensor&) override {}
  };
  ChangingJob job(kOfParameters, [](const Changing& model) { return model->head->parameters(); });
  job.TrainAndClose(kSteps, [&](int step) {
    job.model->zero_grad();
    if (step == 3) torch::autograd::impl::set_post_acc_grad_hooks(job.model->points, std::make_unique<LeavesAsItIs>());
  });
  for (int step = 0; step < kSteps; ++step) {
    INFO("step " << step);
    CHECK(job.harness.Find(SiteKind::kGradUnreduced, "points", step).has_value() == (step != 3));
  }
}

TEST_CASE("backward passes are counted on when the model is attached again between them") {
  ChangingJob job(R"({"wg_distribution": true, "monitor_mbs_grad": true})", AllParameters,
                  [](Options& options) { options.grad_acc_steps = 3; });
  std::vector<double> norms;
  for (int step = 0; step < kSteps; ++step) {
    job.optimizer.zero_grad();
    for (int pass = 0; pass < 3; ++pass) {
      if (pass == step % 3) job.monitor->Attach(*job.model, job.optimizer);
      job.model().backward();
      norms.push_back(Norm(job.model->points.grad()));
    }
    job.optimizer.step();
  }
  CHECK(job.monitor->Close().ok());
  for (int i = 0; i < 3 * kSteps; ++i) {
    INFO("step " << i / 3 << ", pass " << i % 3);
    const auto record = job.harness.Find(SiteKind::kGradUnreduced, "points", i / 3, i % 3);
    REQUIRE(record);
    CHECK(ValueOf(*record, Stat::kNorm) == Approx(norms[static_cast<size_t>(i)]).epsilon(1e-6));
  }
}

TEST_CASE("changes that cannot be followed are reported once, while the job runs") {
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
