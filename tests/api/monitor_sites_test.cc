// Groups of sites from the file of the config to the rows: what is collected in which step, and with which statistics.
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

std::string With(const std::string& sites, int64_t times = 7) {
  return ConfigText(Wanted{.dynamic_on = true, .collect_times = times}, ", \"stepwatch\": {\"sites\": " + sites + "}");
}

// Names of each step's rows of one kind, with the cells from the fourth to the one before shape, after Close.
using Rows = std::map<int64_t, std::vector<std::string>>;
Rows RowsOf(const Job& job, const std::string& kind) {
  Rows rows;
  for (const Table& table : job.Tables(kind)) {
    size_t first = 3, end = 3;
    if (table[0][3] == "micro_step") ++first;
    while (table[0][end] != "shape") ++end;
    for (size_t i = 1; i < table.size(); ++i) {
      std::string row = table[i][1];
      for (size_t k = first; k < end; ++k) row += table[i][k].empty() ? " -" : " " + table[0][k];
      rows[std::stoll(table[i][2])].push_back(row);
    }
  }
  return rows;
}

// Collects from the first step on.
void StartStatic(Job* job) {
  job->options.dynamic = false;
  job->Start();
}

TEST_CASE("each group has its interval, counted from the first step of the window") {
  Job job(With(R"([{"match": "layers.0", "kinds": ["actv"], "every": 3}, {"match": "layers.1", "every": 2}])"));
  StartStatic(&job);
  job.TrainSteps(8);
  job.Close();
  const std::vector<std::string> ports{"layers.0.input norm", "layers.0.output norm"};
  CHECK(RowsOf(job, "actv") == Rows{{0, ports}, {3, ports}, {6, ports}});
  const std::vector<std::string> one{"layers.0.weight norm"}, two{"layers.0.weight norm", "layers.1.weight norm"};
  CHECK(RowsOf(job, "grad_reduced") == Rows{{0, two}, {1, one}, {2, two}, {3, one}, {4, two}, {5, one}, {6, two}});
}

TEST_CASE("an interval counts the steps that step_interval collects, and the window ends as without groups") {
  Job job(ConfigText(Wanted{.dynamic_on = true, .collect_times = 5, .step_interval = 3},
                     R"(, "stepwatch": {"sites": [{"match": "**", "every": 2}]})"));
  job.options.start_iteration = 103;  // as if it had been resumed: 105 is the 35th
  StartStatic(&job);
  job.TrainSteps(20);
  job.Settle();
  CHECK(job.Events(EventKind::kFinished).at(0).step == 117);
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{108, 114});
  CHECK(job.Events(EventKind::kDrained).at(0).collected == 5);
}

TEST_CASE("a group's statistics are the only ones of its rows, in columns that all rows of the kind share") {
  Job job(With(R"([{"match": "layers.1", "ops": ["max", "nans"]},
                   {"match": "layers.0", "kinds": ["actv"], "ops": ["min"]}])",
               1));
  StartStatic(&job);
  job.TrainSteps(2);
  job.Close();
  CHECK(RowsOf(job, "grad_reduced") == Rows{{0, {"layers.0.weight norm - -", "layers.1.weight - max nans"}}});
  CHECK(RowsOf(job, "actv") == Rows{{0, {"layers.0.input - - - min", "layers.0.output - - - min"}}});
}

TEST_CASE("the latest values of a site have its own statistics") {
  Job job(With(R"([{"match": "layers.1", "ops": ["max", "nans"]}])"));
  job.options.keep_latest = true;
  StartStatic(&job);
  job.TrainSteps(2);
  const auto values = job.monitor->Latest(SiteKind::kGradReduced, std::chrono::seconds(10));
  REQUIRE(values.size() == 2);
  CHECK(values[0].record.value_count == 1);
  CHECK(values[1].record.value_count == 2);
  CHECK(values[1].record.values[0].stat == Stat::kMax);
}

TEST_CASE("alarms judge what a group has, and its history goes on over the steps in which it is not due") {
  Job job(ConfigText(Wanted{.dynamic_on = true, .collect_times = 7},
                     R"(, "alert": {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": 0.0}}]},
                     "stepwatch": {"sites": [{"match": "layers.0", "every": 3, "ops": ["abs_max"]},
                                             {"match": "**", "every": 0}]})"));
  StartStatic(&job);
  job.TrainSteps(8);
  job.Close();
  std::vector<int64_t> steps;
  for (const Event& event : job.Events(EventKind::kAlarm)) steps.push_back(event.step);
  CHECK(std::set<int64_t>(steps.begin(), steps.end()) == std::set<int64_t>{0, 3, 6});
}

TEST_CASE("an amendment and a model that grows leave the groups as they are") {
  Job job(With(R"([{"match": "layers.*", "kinds": ["actv"], "every": 2, "ops": ["max"]}, {"match": "**", "every": 0}])",
               100));
  StartStatic(&job);
  job.TrainSteps(3);
  REQUIRE(job.monitor->Amend(Ops({"mean"})).ok());
  job.TrainSteps(2);  // steps 3 and 4: the count of the window goes on
  SyntheticModel grown(3, 8, 1);
  REQUIRE(job.monitor->Attach(grown.Sites(), &grown).ok());
  job.TrainSteps(grown, 2);  // steps 5 and 6
  job.Close();
  const std::vector<std::string> two{"layers.0.input - max", "layers.0.output - max", "layers.1.input - max",
                                     "layers.1.output - max"};
  std::vector<std::string> three = two;
  three.insert(three.end(), {"layers.2.input - max", "layers.2.output - max"});
  CHECK(RowsOf(job, "actv") == Rows{{0, two}, {2, two}, {4, two}, {6, three}});
  CHECK(job.Steps("grad_reduced").empty());
}

}  // namespace
}  // namespace stepwatch::testing
