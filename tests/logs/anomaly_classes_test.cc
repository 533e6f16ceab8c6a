#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "src/logs/anomalies.h"
#include "src/logs/anomaly_patterns.h"
#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

std::string Row(const AnomalyClass& kind) {
  const char* severity = kind.severity == vocabulary::Severity::kCritical  ? "critical"
                         : kind.severity == vocabulary::Severity::kWarning ? "warning"
                                                                           : "info";
  std::ostringstream row;
  row << "| `" << kind.name << "` | " << severity << " | " << NameOf(kind.role) << " | "
      << (kind.origin == Origin::kHost ? "yes" : "no") << " | " << kind.title << " | " << kind.title_zh << " |";
  return row.str();
}

TEST_CASE("the documentation has a row for every class of anomaly, as in the table of the code") {
  std::ifstream file(STEPWATCH_SOURCE_DIR "/docs/formats/log_anomalies.md");
  std::string expected, written;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| `")) written += line + "\n";
  for (const AnomalyClass& kind : AnomalyClasses()) expected += Row(kind) + "\n";
  CHECK(written == expected);
}

TEST_CASE("every class of anomaly has title and advice in both languages, and a pattern or a number") {
  std::set<std::string_view> found{"python_exception", "loss_nonfinite", "grad_nonfinite", "xid_app", "ecc_repaired"};
  for (const Pattern& pattern : AnomalyPatterns()) found.insert(pattern.classes);
  std::set<std::string_view> names;
  for (const AnomalyClass& kind : AnomalyClasses()) {
    CAPTURE(std::string(kind.name));
    CHECK(names.insert(kind.name).second);
    CHECK(found.contains(kind.name));
    CHECK(AnomalyClassNamed(kind.name) == &kind);
    for (const bool in_chinese : {false, true}) {
      CHECK(!AnomalyTitle(kind.name, in_chinese).empty());
      CHECK(!AnomalyAdvice(kind.name, in_chinese).empty());
    }
  }
  CHECK(names.size() >= 40);
  CHECK(AnomalyTitle("of_a_later_release").empty());
}

TEST_CASE("patterns and precedences name classes of the table") {
  const auto known = [](std::string_view classes) {
    std::istringstream words{std::string(classes)};
    for (std::string word; words >> word;)
      if (word != "*" && AnomalyClassNamed(word) == nullptr) return false;
    return true;
  };
  for (const Pattern& pattern : AnomalyPatterns()) CHECK(known(pattern.classes));
  for (const Precedence& each : AnomalyPrecedences()) CHECK((known(each.better) && known(each.hidden)));
}

}  // namespace
}  // namespace stepwatch::logs
