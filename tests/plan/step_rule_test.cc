#include "src/plan/step_rule.h"

#include <string>

#include "tests/catch.h"

namespace stepwatch::plan {
namespace {

// The steps collected in [first, last], "1 3".
std::string Collected(const StepRule& rule, int64_t first, int64_t last) {
  std::string steps;
  int64_t collected = 0;
  for (int64_t step = first; step <= last; ++step) {
    if (!rule.Collects(step, collected)) continue;
    ++collected;
    steps += (steps.empty() ? "" : " ") + std::to_string(step);
  }
  return steps;
}

TEST_CASE("the worked traces of TrainerMon") {
  CHECK(Collected({1, 2, 2}, 0, 10) == "1 3");
  CHECK(Collected({0, 1, 100000000}, 0, 4) == "0 1 2 3 4");
  CHECK(Collected({0, 2, 2}, 1003, 1010) == "1004 1006");
  CHECK(Collected({1, 1, 2}, 1, 10) == "1 2");  // dynamic from the beginning
  CHECK(Collected({501, 1, 2}, 501, 510) == "501 502");
  CHECK(Collected({3, 1, 2}, 3, 10) == "3 4");  // edited before step 2 ended
  CHECK(Collected({4, 1, 2}, 4, 10) == "4 5");  // the second window of scenario 5
  CHECK(Collected({1, 3, 2}, 1, 20) == "1 4");  // interval in dynamic mode
  CHECK(Collected({4, 1, 0}, 4, 10) == "");     // collect_times 0: none, unlike msProbe
}

TEST_CASE("nothing is collected before the start, wherever the interval lies") {
  const StepRule rule{10, 3, 100};
  CHECK_FALSE(rule.Collects(4, 0));
  CHECK_FALSE(rule.Collects(7, 0));
  CHECK(rule.Collects(10, 0));
  CHECK_FALSE(rule.Collects(11, 1));
  CHECK(rule.Collects(13, 99));
  CHECK_FALSE(rule.Collects(13, 100));
}

TEST_CASE("file buckets are absolute") {
  CHECK(FileBucket(0, 5) == 0);
  CHECK(FileBucket(4, 5) == 0);
  CHECK(FileBucket(5, 5) == 5);
  CHECK(FileBucket(1004, 5) == 1000);
  CHECK(FileBucket(7, 1) == 7);
  CHECK(FileBucket(-1, 5) == -5);
  CHECK(FileBucket(-5, 5) == -5);
  CHECK(FileBucket(-6, 5) == -10);
}

TEST_CASE("the steps that lie behind are those that would have been collected") {
  for (int64_t start : {0, 3})
    for (int64_t interval : {1, 2, 5})
      for (int64_t times : {0, 1, 4}) {
        const StepRule rule{start, interval, times};
        int64_t collected = 0;
        for (int64_t step = 0; step < 30; ++step) {
          CHECK(rule.CollectedBefore(step) == collected);
          if (rule.Collects(step, collected)) ++collected;
        }
      }
}

}  // namespace
}  // namespace stepwatch::plan
