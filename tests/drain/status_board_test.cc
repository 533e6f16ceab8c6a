// The board is bounded, and what it leaves out is counted to the last alarm.
#include "src/drain/status_board.h"

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::drain {
namespace {

AlarmsRaised AlarmsOf(int64_t step, size_t count) {
  AlarmsRaised raised{1, step, {}, 0};
  for (size_t i = 0; i < count; ++i) raised.sentences.push_back("alarm " + std::to_string(i));
  return raised;
}

TEST_CASE("a loop that hangs is woken once and finds what happened first, with a count of the rest") {
  int wakes = 0;
  StatusBoard board([&] { ++wakes; });
  constexpr int kSteps = 100000;
  for (int step = 0; step < kSteps; ++step) {
    board.Post(AlarmsOf(step, 2));
    board.PostDiagnostics({"trouble of step " + std::to_string(step)});
  }
  CHECK(wakes == 1);
  const std::vector<std::string> diagnostics = board.TakeDiagnostics();
  const std::vector<BoardEntry> entries = board.Take();
  REQUIRE(entries.size() == StatusBoard::kAlarmEntriesMax);
  CHECK(std::get<AlarmsRaised>(entries.back()).step == StatusBoard::kAlarmEntriesMax - 1);
  REQUIRE(diagnostics.size() == StatusBoard::kDiagnosticsMax + 1);
  const size_t steps = kSteps - StatusBoard::kAlarmEntriesMax;
  CHECK(diagnostics.back() == "the loop thread was far behind the drain thread; not reported: " +
                                  std::to_string(2 * steps) + " alarms of " + std::to_string(steps) + " steps, " +
                                  std::to_string(kSteps - StatusBoard::kDiagnosticsMax) + " further messages");
  CHECK(board.Take().empty());
  CHECK(board.TakeDiagnostics().empty());
  board.Post(AlarmsOf(kSteps, 1));
  CHECK(board.Take().size() == 1);
}

TEST_CASE("alarms without an entry never take the place of the entries of a plan") {
  StatusBoard board([] {});
  for (int step = 0; step < 1000; ++step) board.Post(AlarmsOf(step, 1));
  board.Post(PlanBegan{7, 1});
  board.Post(PlanFinished{7});
  board.Post(PlanDrained());
  const std::vector<BoardEntry> entries = board.Take();
  REQUIRE(entries.size() == StatusBoard::kAlarmEntriesMax + 3);
  CHECK(std::holds_alternative<PlanDrained>(entries.back()));
}

TEST_CASE("a sink that fails and recovers all the time is reported with its newest state") {
  StatusBoard board([] {});
  for (int i = 0; i < 10000; ++i) {
    board.Post(SinkFailed{Status(StatusCode::kExhausted, "full " + std::to_string(i))});
    if (i < 9999) board.Post(SinkRecovered{});
  }
  const std::vector<BoardEntry> entries = board.Take();
  REQUIRE(entries.size() == StatusBoard::kHealthEntriesMax);
  CHECK(std::get<SinkFailed>(entries.back()).status.message() == "full 9999");
  CHECK(board.TakeDiagnostics().size() == 1);
}

TEST_CASE("at most one wake-up is outstanding, and none is lost between taking and posting") {
  int wakes = 0;
  StatusBoard board([&] { ++wakes; });
  board.Post(PlanBegan{1, 0});
  board.Post(PlanFinished{1});
  CHECK(wakes == 1);
  board.Woken();
  board.Post(PlanDrained());  // while the loop is in the call that it was woken for
  CHECK(wakes == 2);
  CHECK(board.Take().size() == 3);
  board.Woken();
  board.Remind();
  CHECK(wakes == 2);
}

TEST_CASE("a wake-up that could not be scheduled is made up for") {
  int wakes = 0;
  bool out_of_memory = true;
  StatusBoard board([&] {
    if (out_of_memory) throw std::bad_alloc();
    ++wakes;
  });
  board.Post(PlanBegan{1, 0});
  out_of_memory = false;
  board.Remind();
  CHECK(wakes == 1);
  board.Remind();
  CHECK(wakes == 1);
}

}  // namespace
}  // namespace stepwatch::drain
