// Groups of sites in a job whose ranks agree: an edit of the groups in mid-training holds on all ranks from one step
// on.
#include <map>

#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

std::string With(const std::string& sites) {
  return ConfigText(Wanted{.dynamic_on = true, .collect_times = 1000000},
                    ", \"stepwatch\": {\"sites\": " + sites + "}");
}

// Each row as its step, its name, and the columns in which it has a value.
std::vector<std::string> RowsOf(const Job& job, const std::string& kind) {
  std::vector<std::string> rows;
  for (const Table& table : job.Tables(kind)) {
    for (size_t i = 1; i < table.size(); ++i) {
      std::string row = table[i].at(2) + " " + table[i].at(1);
      for (size_t k = 3; k < table[i].size(); ++k) {
        const bool is_value = table[0].at(k) != "micro_step";
        if (is_value && !table[i][k].empty()) row += " " + table[0][k];
      }
      rows.push_back(row);
    }
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST_CASE("an edit of the groups in mid-training gives all ranks the same rows at the same steps") {
  RankedJob job(3,
                With(R"([{"match": "layers.0", "every": 2}, {"match": "layers.1", "kinds": ["actv"], "every": 5}])"));
  job.Start();
  job.Run(milliseconds(10));  // rows of faster steps are dropped on a slow machine
  REQUIRE(job.WaitForAll(EventKind::kApplied));
  const auto collects_until = [&](int64_t steps) {
    const int64_t begin = job.Slowest();
    REQUIRE(Eventually([&] { return job.Slowest() >= begin + steps; }));
  };
  collects_until(12);
  CHECK(job[0].Edit(With(R"([{"match": "layers.0", "every": 3, "ops": ["max", "nans"]},
                             {"match": "**", "kinds": ["actv"], "every": 4, "ops": ["min"]}])")) ==
        RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  collects_until(15);
  CHECK(job[0].Edit(With(R"([{"match": "**", "every": 0}, {"match": "layers.1"}])")) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kApplied, 3));
  collects_until(5);
  CHECK(job[0].Edit(With(R"([{"match": "layers.1", "every": 2, "ops": ["mean"]}])")) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kApplied, 4));
  collects_until(8);
  CHECK(job[0].Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  REQUIRE(job.WaitForAll(EventKind::kDrained, 4));
  job.Close();

  const std::vector<std::string> actv = RowsOf(job[0], "actv"), gradients = RowsOf(job[0], "grad_reduced");
  REQUIRE(!actv.empty());
  REQUIRE(!gradients.empty());
  for (size_t rank : {1, 2}) {
    INFO("rank " << rank);
    CHECK(RowsOf(job[rank], "actv") == actv);
    CHECK(RowsOf(job[rank], "grad_reduced") == gradients);
  }

  // Each plan counts its groups from its own first step.
  std::vector<int64_t> first, last;
  for (const Event& event : job[0].Events(EventKind::kApplied)) first.push_back(event.step);
  for (const Event& event : job[0].Events(EventKind::kFinished)) last.push_back(event.step);
  REQUIRE(first.size() == 4);
  REQUIRE(last.size() == 4);
  std::map<int64_t, std::vector<std::string>> expected_gradients, expected_actv;
  const auto expect = [&](size_t plan, int64_t every, auto* rows, const std::vector<std::string>& names) {
    for (int64_t step = first[plan]; step <= last[plan]; step += every)
      for (const std::string& name : names) (*rows)[step].push_back(std::to_string(step) + " " + name);
  };
  expect(0, 2, &expected_gradients, {"layers.0.weight norm shape dtype"});
  expect(0, 1, &expected_gradients, {"layers.1.weight norm shape dtype"});
  expect(0, 5, &expected_actv, {"layers.1.input norm shape dtype", "layers.1.output norm shape dtype"});
  expect(1, 3, &expected_gradients, {"layers.0.weight max nans shape dtype"});
  expect(1, 1, &expected_gradients, {"layers.1.weight norm shape dtype"});
  expect(3, 1, &expected_gradients, {"layers.0.weight norm shape dtype"});
  expect(3, 2, &expected_gradients, {"layers.1.weight mean shape dtype"});
  const auto sorted = [](const std::map<int64_t, std::vector<std::string>>& rows) {
    std::vector<std::string> all;
    for (const auto& [step, each] : rows) all.insert(all.end(), each.begin(), each.end());
    std::sort(all.begin(), all.end());
    return all;
  };
  CHECK(gradients == sorted(expected_gradients));
  CHECK(std::any_of(actv.begin(), actv.end(), [](const std::string& row) {
    return row.find("layers.1.output") != std::string::npos && row.find(" min ") != std::string::npos;
  }));
}

}  // namespace
}  // namespace stepwatch::testing
