#include "controller/door/metrics.h"

#include <set>
#include <sstream>

#include "tests/catch.h"

namespace stepwatch::door {
namespace {

TEST_CASE("every metric has its help and its type before its samples, and is there once") {
  JobStatus status;
  status.step_seconds = 0.25;
  std::istringstream lines(MetricsText(status));
  std::set<std::string> families;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      CHECK(families.insert(family).second);
    } else if (line.starts_with("# TYPE ")) {
      CHECK(line.substr(7, family.size() + 1) == family + " ");
    } else {
      CHECK(line.substr(0, line.find_first_of(" {")) == family);
    }
  }
  CHECK(families.count("stepwatch_step_seconds") == 1);
  CHECK(families.count("stepwatch_rows_dropped_total") == 1);
}

TEST_CASE("what cannot stand in a label is escaped") {
  JobStatus status;
  status.config_path = "a\\b\"c\nd";
  CHECK(MetricsText(status).find("config_path=\"a\\\\b\\\"c\\nd\"") != std::string::npos);
}

TEST_CASE("the state is 1 and all others are 0") {
  JobStatus status;
  status.monitor.state = RunState::kCollecting;
  const std::string text = MetricsText(status);
  CHECK(text.find("stepwatch_state{state=\"COLLECTING\"} 1\n") != std::string::npos);
  CHECK(text.find("stepwatch_state{state=\"IDLE\"} 0\n") != std::string::npos);
}

}  // namespace
}  // namespace stepwatch::door
