// Optimizers that change while a model is trained: rows follow the one that updates a parameter.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/front_ends/torch/changing_nets.h"

namespace stepwatch::tests {

TEST_CASE("a parameter that comes to an optimizer as a group has rows in that step") {
  ChangingJob job(kOfParameters, [](const Changing& model) {
    Freeze(model->body, true);
    Parameters listed = model->head->parameters();
    listed.push_back(model->points);
    return listed;
  });
  job.TrainAndCheck([&](int step) -> std::string {
    if (step != 3) return "";
    Freeze(job.model->body, false);
    job.optimizer.add_param_group(torch::optim::OptimizerParamGroup(job.model->body->parameters()));
    return "";
  });
  CHECK(job.harness.CountEvents(EventKind::kNote, "were moved to an attached optimizer") == 1);
}

TEST_CASE("an optimizer that is assigned to the watched variable is watched in its place") {
  ChangingJob job(kOfParameters);
  job.TrainAndCheck([&](int step) -> std::string {
    if (step == 5) job.optimizer = AdamW(job.model->parameters(), torch::optim::AdamWOptions(1e-3));
    return "";
  });
  CHECK(job.harness.RowsOf(SiteKind::kExpAvg, 5).empty());  // it begins without a state
  CHECK(job.harness.RowsOf(SiteKind::kExpAvg, 6).size() == 5);
}

TEST_CASE("an optimizer that is replaced, and that the program keeps, leaves its parameters to the new one") {
  Harness harness(kOfParameters);
  Changing model;
  auto optimizer = std::make_unique<AdamW>(model->parameters(), AdamRate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, *optimizer);
  std::vector<std::unique_ptr<AdamW>> kept;
  std::vector<Norms> norms;
  for (int step = 0; step < kSteps; ++step) {
    if (step % 4 == 3) {
      kept.push_back(std::move(optimizer));
      optimizer = std::make_unique<AdamW>(model->parameters(), AdamRate());
      monitor.Attach(*model, *optimizer);
    }
    optimizer->zero_grad();
    model().backward();
    norms.push_back(BeforeUpdate(model));
    optimizer->step();
    AddAfterUpdate(model, &norms.back());
    CHECK(monitor.core().step() == step + 1);
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kSteps; ++step) CheckRows(harness, step, norms[static_cast<size_t>(step)]);
  CHECK(harness.CountEvents(EventKind::kWarning, "") == 0);
}

TEST_CASE("rows belong to the one that steps of optimizers that take turns") {
  Harness harness(kOfParameters);
  harness.options.ends_step_by_hand = true;
  Changing model;
  AdamW first(model->parameters(), AdamRate());
  Sgd second(model->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*model, {&first, &second});
  std::vector<Norms> norms;
  for (int step = 0; step < kSteps; ++step) {
    torch::optim::Optimizer& optimizer = step / 3 % 2 == 0 ? static_cast<torch::optim::Optimizer&>(first) : second;
    optimizer.zero_grad();
    model().backward();
    norms.push_back(BeforeUpdate(model));
    optimizer.step();
    AddAfterUpdate(model, &norms.back());
    monitor.EndStep();
  }
  CHECK(monitor.Close().ok());
  for (int step = 0; step < kSteps; ++step) CheckRows(harness, step, norms[static_cast<size_t>(step)]);
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
  CHECK(WaitForEvent(harness, EventKind::kWarning, "attach the optimizer whose step is called"));
  monitor.Attach(*model, *optimizer);
  train(kSteps);
  CHECK(monitor.core().step() == 2 * kSteps);
  CHECK(monitor.Close().ok());
  CHECK(harness.CountEvents(EventKind::kWarning, "no step has ended") == 1);
}

}  // namespace stepwatch::tests
