// Settings of detectors that change while a run is watched.
#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("settings that change hold for runs that are watched already") {
  Observer observer;
  Script script;
  for (const Line& line : script.Train(100).lines) (void)observer.Observe(line);
  CHECK(observer.AdvanceBy(60).empty());
  Settings patient;
  patient.stuck.silence_seconds_min = 3600;
  observer.Apply(patient);
  CHECK(observer.AdvanceBy(1800).empty());
  observer.Apply(Settings());
  const std::vector<Incident> changes = observer.AdvanceBy(10);
  REQUIRE(OpenedIn(changes).size() == 1);
  CHECK(changes.front().kind == IncidentKind::kStuck);
}

TEST_CASE("settings that change leave what is open, and what was learnt, as it was") {
  Script script;
  script.change = [](int64_t step, int64_t, Beat* beat) { *beat->loss *= step >= 100 && step < 110 ? 3 : 1; };
  script.Train(105);
  Observer observer;
  std::vector<Incident> changes;
  for (const Line& line : script.lines)
    for (const Incident& change : observer.Observe(line)) changes.push_back(change);
  REQUIRE(OpenedIn(changes).size() == 1);
  const std::string id = changes.front().id;
  Settings settings;
  settings.numerics.spike_ratio = 1.5;
  settings.pace.drop_ratio = 0.5;
  observer.Apply(settings);
  REQUIRE(observer.OpenIncidents().size() == 1);
  const size_t first = script.lines.size();
  script.Train(60);
  for (size_t i = first; i < script.lines.size(); ++i)
    for (const Incident& change : observer.Observe(script.lines[i])) changes.push_back(change);
  CHECK(OpenedIn(changes).size() == 1);
  CHECK(IsResolved(changes, id));
}

TEST_CASE("settings that change hold for runs that begin later") {
  Observer observer;
  Settings patient;
  patient.stuck.silence_seconds_min = 3600;
  observer.Apply(patient);
  Script script;
  for (const Line& line : script.Train(100).lines) (void)observer.Observe(line);
  CHECK(observer.AdvanceBy(1800).empty());
  CHECK(OpenedIn(observer.AdvanceBy(3600)).size() == 1);
}

}  // namespace
}  // namespace stepwatch::operations
