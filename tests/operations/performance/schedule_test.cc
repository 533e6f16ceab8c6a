// Schedules of a learning rate, recognised from the rates alone.

#include "operations/performance/schedule.h"

#include <cmath>
#include <functional>
#include <numbers>

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

Schedule Of(const std::function<double(double)>& rate, int from = 1, int to = 1000) {
  std::vector<Sampled> rates;
  for (int step = from; step <= to; ++step) rates.push_back({static_cast<double>(step), rate(step)});
  return RecogniseSchedule(rates).value();
}

double Cosine(double step) {
  if (step < 100) return 3e-4 * step / 100;
  return 3e-5 + (3e-4 - 3e-5) / 2 * (1 + std::cos(std::numbers::pi * (step - 100) / 1900));
}

TEST_CASE("constant, linear and cosine schedules are told apart, with their warm-up") {
  const Schedule constant = Of([](double) { return 1e-3; });
  CHECK(NameOf(constant.kind) == "constant");
  CHECK_FALSE(constant.warm_up_until);
  const Schedule linear = Of([](double step) { return step < 50 ? 2e-5 * step : 1e-3 * (2000 - step) / 1950; });
  CHECK(NameOf(linear.kind) == "linear");
  CHECK(linear.warm_up_until == 50);
  const Schedule cosine = Of(Cosine, 1, 2000);
  CHECK(NameOf(cosine.kind) == "cosine");
  CHECK(*cosine.warm_up_until == Approx(100).margin(2));
  CHECK(cosine.error < 0.01);
  CHECK(cosine.deviations.empty());
}

TEST_CASE("a rate that departs from its schedule is reported with its step") {
  const Schedule schedule = Of([](double step) { return step >= 700 && step < 720 ? 1e-4 : 1e-3; });
  CHECK(NameOf(schedule.kind) == "constant");
  REQUIRE(schedule.deviations.size() == 20);
  CHECK(schedule.deviations.front().x == 700);
}

TEST_CASE("rates without a pattern have no schedule, and few rates have none") {
  CHECK(NameOf(Of([](double step) { return 1e-3 * (1 + std::sin(step * step)); }).kind) == "unknown");
  CHECK_FALSE(RecogniseSchedule({{1, 1e-3}, {2, 1e-3}}));
  CHECK_FALSE(RecogniseSchedule(std::vector<Sampled>(20, {1, 0})));
}

TEST_CASE("quantiles are weighted, and none exist without weight") {
  CHECK_FALSE(Quantile({}, 0.5));
  CHECK_FALSE(Quantile({{1, 0}, {std::nan(""), 5}}, 0.5));
  CHECK(Quantile({{1, 1}, {2, 98}, {3, 1}}, 0.5) == 2);
  CHECK(Quantile({{1, 1}, {2, 98}, {3, 1}}, 1) == 3);
  CHECK(Quantile({{1, 5}, {2, 5}}, 0.05) == 1);
}

TEST_CASE("a slope needs eight points at different places") {
  CHECK_FALSE(TheilSen({{1, 1}, {2, 2}}));
  CHECK_FALSE(TheilSen(std::vector<Sampled>(20, {1, 1})));
  std::vector<Sampled> line;
  for (int i = 0; i < 20; ++i) line.push_back({static_cast<double>(i), 2.0 * i});
  line[5].y = 1e6;  // one odd value moves nothing
  CHECK(TheilSen(line)->slope == Approx(2));
}

}  // namespace
}  // namespace stepwatch::operations
