#include "operations/intake/incident_registry.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

Incident IncidentOf(const std::string& id, IncidentState state = IncidentState::kOpened) {
  Incident incident;
  incident.id = id;
  incident.run = "run-7";
  incident.kind = IncidentKind::kStuck;
  incident.state = state;
  return incident;
}

TEST_CASE("a book lists what is open, the last change first") {
  IncidentRegistry book;
  (void)book.Change(IncidentOf("a"));
  (void)book.Change(IncidentOf("b"));
  (void)book.Change(IncidentOf("c"));
  (void)book.Change(IncidentOf("a", IncidentState::kUpdated));
  (void)book.Change(IncidentOf("b", IncidentState::kResolved));
  const auto open = book.List({});
  REQUIRE(open.size() == 2);
  CHECK(open[0].incident.id == "a");
  CHECK(book.List({false, "", 2}).size() == 2);
  CHECK(book.List({false, "other", 9}).empty());
}

TEST_CASE("an acknowledgement stays with its incident through later changes") {
  IncidentRegistry book;
  (void)book.Change(IncidentOf("a"));
  CHECK_FALSE(book.Acknowledge("nothing", {"kim", "", 1}));
  REQUIRE(book.Acknowledge("a", {"kim", "looking", 1}));
  const StoredChange later = book.Change(IncidentOf("a", IncidentState::kUpdated));
  REQUIRE(later.acknowledgement);
  CHECK(later.acknowledgement->by == "kim");
  CHECK(later.number == 3);
}

TEST_CASE("a follower of the changes goes on where it was, and learns of a gap") {
  IncidentRegistry book;
  for (int i = 0; i < 5; ++i) (void)book.Change(IncidentOf("a"));
  const auto page = book.After(2, 2);
  REQUIRE(page.changes.size() == 2);
  CHECK(page.changes[0].number == 3);
  CHECK_FALSE(page.misses_some);
  for (size_t i = 0; i < IncidentRegistry::kEventsMax; ++i) (void)book.Change(IncidentOf("a"));
  CHECK(book.After(2, 2).misses_some);
  CHECK_FALSE(book.After(5, 2).misses_some);
}

TEST_CASE("a book that was restored with all changes misses none, whatever numbers lines had between them") {
  IncidentRegistry before;
  Restored restored;
  restored.changes = {before.Change(IncidentOf("a"))};
  restored.number_last = 500;
  IncidentRegistry book;
  book.Restore(restored);
  (void)book.Change(IncidentOf("b"));
  const auto page = book.After(0, 10);
  CHECK_FALSE(page.misses_some);
  REQUIRE(page.changes.size() == 2);
  CHECK(page.changes[1].number == 501);
  IncidentRegistry empty;
  Restored nothing;
  nothing.number_last = 500;
  empty.Restore(nothing);
  (void)empty.Change(IncidentOf("c"));
  CHECK_FALSE(empty.After(0, 10).misses_some);
}

TEST_CASE("a book that was restored with as many changes as are kept may miss some") {
  IncidentRegistry before;
  Restored restored;
  (void)before.Change(IncidentOf("a"));
  for (int64_t i = 0; i < Restored::kChangesMax; ++i) restored.changes.push_back(before.Change(IncidentOf("a")));
  IncidentRegistry book;
  book.Restore(restored);
  CHECK(book.After(0, 10).misses_some);
  CHECK_FALSE(book.After(1, 10).misses_some);
}

TEST_CASE("a book forgets the oldest of those that are resolved, and none that is open") {
  IncidentRegistry book;
  (void)book.Change(IncidentOf("open"));
  for (size_t i = 0; i < IncidentRegistry::kResolvedMax + 500; ++i)
    (void)book.Change(IncidentOf("r" + std::to_string(i), IncidentState::kResolved));
  CHECK(book.Find("open") != nullptr);
  CHECK(book.Find("r0") == nullptr);
  CHECK(book.Find("r" + std::to_string(IncidentRegistry::kResolvedMax + 499)) != nullptr);
  CHECK(book.List({false, "", 100000}).size() <= IncidentRegistry::kResolvedMax + 201);
}

TEST_CASE("a silence holds for matching incidents until it ends") {
  IncidentRegistry book;
  REQUIRE(book.Add({"s", "run-*", "stuck", "", "", 0, 100}));
  CHECK(book.SilenceOf(IncidentOf("a"), 50) != nullptr);
  CHECK(book.SilenceOf(IncidentOf("a"), 100) == nullptr);
  Incident other = IncidentOf("a");
  other.kind = IncidentKind::kLossSpike;
  CHECK(book.SilenceOf(other, 50) == nullptr);
  CHECK(book.Silences(100).empty());
  CHECK_FALSE(book.RemoveSilence("s"));
}

TEST_CASE("a star stands for any characters, and nothing for all") {
  CHECK(Matches("", "anything"));
  CHECK(Matches("*", ""));
  CHECK(Matches("a*c*", "abbcx"));
  CHECK(Matches("*ab", "aab"));
  CHECK(Matches("a*b*b", "acbbb"));
  CHECK_FALSE(Matches("a*b", "abc"));
  CHECK_FALSE(Matches("ab", "abc"));
  CHECK_FALSE(Matches("abc", "ab"));
}

}  // namespace
}  // namespace stepwatch::operations
