// docs/operate/monitor.md names every state, event, metric and reason for a lost row.
#include <sstream>
#include <string>

#include "controller/control_socket/metrics.h"
#include "stepwatch/event.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::control_socket {
namespace {

TEST_CASE("the page for the person on call names all that a job reports of itself") {
  const std::string page = testing::Contents(STEPWATCH_SOURCE_DIR "/docs/operate/monitor.md");
  const auto names = [&](const std::string& word) {
    INFO(word << " is not on the page");
    CHECK((page.find("`" + word + "`") != std::string::npos || page.find("`" + word + "{") != std::string::npos));
  };
  for (int i = 0; i <= static_cast<int>(RunState::kFailed); ++i) names(RunStateName(static_cast<RunState>(i)));
  for (int i = 0; i <= static_cast<int>(EventKind::kNotBegun); ++i) names(EventKindName(static_cast<EventKind>(i)));
  for (int i = 0; i < kDropReasonCount; ++i) names(DropReasonName(static_cast<DropReason>(i)));
  status::JobStatus status;
  status.step_seconds = 1;
  status.ranks.emplace();
  std::istringstream lines(MetricsText(status));
  for (std::string mark, kind, metric, line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> mark >> kind >> metric;
    if (kind == "TYPE") names(metric);
    for (const char* label : {"{cause=\"", "{reason=\""})
      if (const size_t at = line.find(label); at != std::string::npos) {
        const size_t word = line.find('"', at) + 1;
        names(line.substr(word, line.find('"', word) - word));
      }
  }
}

}  // namespace
}  // namespace stepwatch::control_socket
