// The machine under single inputs, under all of them in all orders, and on a long random walk.
#include "controller/reload/machine.h"

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/random_seed.h"
#include "tests/reload/machine_moves.h"
#include "tests/rounds.h"

namespace stepwatch::reload {
namespace {

TEST_CASE("refused bytes are reported once, keep the window, and going back is reported as restored") {
  SimulatedRun run = Running();
  SaveAndLook(&run, kBad);
  CHECK(Count<ReportRefused>(run) == 1);
  CHECK(run.state().refused);
  CHECK(run.state().window->plan_id == 1);
  SaveAndLook(&run, kA);
  CHECK(Count<ReportRestored>(run) == 1);
  CHECK(Count<PublishPlan>(run) == 0);
  CHECK_FALSE(run.state().refused);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);
}

TEST_CASE("a stop is published before it is reported: a step that ends right after the report obeys it") {
  SimulatedRun run = Running();
  SaveAndLook(&run, kOffText);
  std::vector<size_t> order;
  for (const Action& action : run.actions())
    if (std::holds_alternative<PublishStop>(action) || std::holds_alternative<ReportStopping>(action))
      order.push_back(action.index());
  const size_t published = Action(PublishStop{}).index(), reported = Action(ReportStopping{}).index();
  CHECK(order == std::vector<size_t>{published, reported});
}

TEST_CASE("a file that goes and comes back with the same bytes is lost, then restored, and starts nothing") {
  SimulatedRun run = Running();
  run.Lose();
  run.Look();
  CHECK(Count<ReportLost>(run) == 1);
  SaveAndLook(&run, kA);
  CHECK(Count<ReportRestored>(run) == 1);
  CHECK(Count<PublishPlan>(run) == 0);
  run.CheckRunsOut();
}

TEST_CASE("refused bytes that go and come back are refused again: nothing of theirs is in force") {
  SimulatedRun run = Running();
  SaveAndLook(&run, kBad);
  run.Lose();
  run.Look();
  SaveAndLook(&run, kBad);
  CHECK(Count<ReportRestored>(run) == 0);
  CHECK(Count<ReportRefused>(run) == 1);
  CHECK(run.state().refused);
}

TEST_CASE("a window that ends while the file is gone is written back when the file returns") {
  SimulatedRun run = Running();
  run.EndStep();
  run.Lose();
  run.Look();
  run.EndStep();
  run.DeliverAll();
  CHECK(run.collected().size() == 2);
  CHECK(run.write_backs() == 0);
  SaveAndLook(&run, kA);
  CHECK(run.write_backs() == 1);
  CHECK(run.file()->intent == EditIntent::kOff);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);
}

TEST_CASE("a window that ends while the file is gone is not written back into other bytes") {
  SimulatedRun run = Running();
  run.EndStep();
  run.Lose();
  run.Look();
  run.EndStep();
  run.DeliverAll();
  SaveAndLook(&run, kOffText);
  CHECK(run.write_backs() == 0);
  run.CheckRunsOut();
}

TEST_CASE("a window is not written back while a newer one of the same text is armed or in force") {
  SimulatedRun run = Running();
  run.EndStep();
  SaveAndLook(&run, kB);
  SaveAndLook(&run, kA);
  run.EndStep();  // the first window is complete, the second begins
  run.DeliverAll();
  CHECK(run.write_backs() == 0);
  CHECK(run.file()->name == "A");
  run.CheckRunsOut();
  CHECK(run.collected().size() == 4);
  CHECK(run.write_backs() == 1);
}

TEST_CASE("an edit that meets the write-back and is taken back before it is seen leaves the write-back due") {
  SimulatedRun run = Running();
  run.EndStep();
  run.EndStep();
  run.Save(kB);
  run.DeliverAll();  // finds B in the file
  CHECK(run.write_backs() == 1);
  CHECK(run.file()->name == "B");
  SaveAndLook(&run, kA);
  CHECK(run.write_backs() == 2);
  CHECK(run.file()->intent == EditIntent::kOff);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);
}

TEST_CASE("a stop that comes while a plan is being applied ends what was applied") {
  SimulatedRun run(true, 0);
  SaveAndLook(&run, kA);
  run.EndStep();  // applied; the loop does not know
  SaveAndLook(&run, kOffText);
  run.EndStep();
  run.DeliverAll();
  CHECK(run.collected().size() == 1);
  CHECK_FALSE(run.state().window);
  run.CheckRunsOut();
}

TEST_CASE("a message about an older plan does not pass for one about the newest") {
  MachineState state;
  state.dynamic = true;
  state = Step(state, BytesSeen{"A", EditIntent::kRun}).state;
  state = Step(state, Applied{1}).state;
  state = Step(state, BytesSeen{"B", EditIntent::kRun}).state;
  state = Step(state, Applied{1}).state;  // comes twice: from the caller of Attach, and from the drain
  REQUIRE(state.window);
  CHECK(state.window->plan_id == 1);
  REQUIRE(state.armed);
  CHECK(state.armed->plan_id == 2);
}

TEST_CASE("a model that grows keeps its window, and what waits starts anew") {
  SimulatedRun run = Running();
  run.EndStep();
  run.Recompile();
  REQUIRE(run.actions().size() == 1);
  CHECK(std::holds_alternative<ContinueWindow>(run.actions()[0]));
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);
  CHECK(run.write_backs() == 1);

  SimulatedRun waiting(true, 0);
  SaveAndLook(&waiting, kA);
  waiting.Recompile();
  REQUIRE(waiting.actions().size() == 1);
  CHECK(std::holds_alternative<RepublishPlan>(waiting.actions()[0]));
  waiting.CheckRunsOut();
  CHECK(waiting.collected().size() == 2);
}

TEST_CASE("a model that grows at the very boundary at which its window ends collects no step more") {
  SimulatedRun run = Running();
  run.EndStep();
  run.Recompile();
  run.EndStep();  // takes the new plan and completes the old window
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);
  CHECK(run.write_backs() == 1);
}

TEST_CASE("what was to continue a window that ends first is superseded, and so is what was never taken") {
  SimulatedRun run = Running();
  run.EndStep();
  run.Recompile();  // in the last step that is collected
  SimulatedRun untaken = run;
  run.EndStep();
  run.DeliverOne();
  CHECK(Count<ReportSuperseded>(run) == 1);
  run.CheckRunsOut();
  untaken.Discard();
  CHECK(Count<ReportSuperseded>(untaken) == 1);
  CHECK(untaken.state().window->continuation == 0);
  untaken.CheckRunsOut();
}

TEST_CASE("bytes that the ranks agree on are new, whatever was seen, and take the id that they agree on") {
  MachineState state;
  state.dynamic = true;
  state = Step(state, BytesSeen{"A", EditIntent::kRun}).state;
  const Transition agreed = Step(state, AgreedBytes{"A", EditIntent::kRun, 7});
  REQUIRE(agreed.actions.size() == 2);
  CHECK(std::get<PublishPlan>(agreed.actions[1]).plan_id == 7);
  const Transition renumbered = Step(agreed.state, Renumbered{9});
  REQUIRE(renumbered.actions.size() == 1);
  CHECK(std::get<PublishPlan>(renumbered.actions[0]).plan_id == 9);
  CHECK(renumbered.state.next_plan_id == 10);
}

TEST_CASE("what is compiled again while an edit is armed begins before the edit, and the edit has its own window") {
  SimulatedRun run = Running();
  SaveAndLook(&run, kB);
  run.Recompile(true);
  REQUIRE(run.actions().size() == 2);
  CHECK(std::holds_alternative<ContinueWindow>(run.actions()[0]));
  CHECK(std::holds_alternative<RepublishPlan>(run.actions()[1]));
  run.EndStep();
  run.CheckRunsOut();
  REQUIRE(run.collected().size() == 2);
  CHECK(run.collected()[0].plan_id == 3);
  CHECK(run.collected()[1].plan_id == 4);
}

TEST_CASE("a stop that is on its way ends a window that is compiled again") {
  for (bool between_steps : {true, false}) {
    SimulatedRun run = Running();
    SaveAndLook(&run, kOffText);
    run.Recompile(between_steps);
    CHECK(run.state().stopping);
    run.EndStep();
    run.DeliverAll();
    CHECK_FALSE(run.state().window);
    run.CheckRunsOut();
    CHECK(run.collected().size() == 1);
  }
}

TEST_CASE("going back to the bytes in force does not take back the stop of a window that was compiled again") {
  SimulatedRun run = Running();
  SaveAndLook(&run, kOffText);
  run.Recompile();
  SaveAndLook(&run, kBad);
  SaveAndLook(&run, kA);
  CHECK(Count<PublishPlan>(run) == 1);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 3);  // one of the old window, two of the new
}

TEST_CASE("a limit ends the window at the next boundary, and the end is written back") {
  SimulatedRun run = Running();
  run.Limit();
  REQUIRE(run.actions().size() == 1);
  CHECK(std::get<PublishStop>(run.actions()[0]).reason == step::EndReason::kLimited);
  run.Limit();
  CHECK(run.actions().empty());
  run.EndStep();
  run.DeliverAll();
  CHECK(run.collected().size() == 1);
  CHECK(run.write_backs() == 1);
  CHECK(run.file()->intent == EditIntent::kOff);
  run.CheckRunsOut();
}

TEST_CASE("a limit withdraws a plan that waits, and its text starts nothing again") {
  SimulatedRun run(true, 0);
  SaveAndLook(&run, kA);
  run.Limit();
  CHECK(run.write_backs() == 1);
  run.CheckRunsOut();
  CHECK(run.collected().empty());
}

TEST_CASE("a limit in static mode ends the window and touches no file") {
  SimulatedRun run(false, 0);
  SaveAndLook(&run, kA);
  run.BeginFirstStep();
  run.DeliverAll();
  run.Limit();
  run.EndStep();
  run.DeliverAll();
  CHECK_FALSE(run.state().window);
  CHECK(run.write_backs() == 0);
}

TEST_CASE("states are named as people know them") {
  SimulatedRun run(true, 0);
  CHECK(RunStateOf(run.state()) == RunState::kIdle);
  SaveAndLook(&run, kA);
  CHECK(RunStateOf(run.state()) == RunState::kArmed);
  run.EndStep();
  run.DeliverAll();
  CHECK(RunStateOf(run.state()) == RunState::kCollecting);
  run.EndStep();
  run.EndStep();
  run.DeliverOne();
  CHECK(RunStateOf(run.state()) == RunState::kDraining);
  run.DeliverAll();
  CHECK(RunStateOf(run.state()) == RunState::kIdle);
  CHECK(RunStateOf(SimulatedRun(false, 0).state()) == RunState::kOff);
}

// --- all orders ---

TEST_CASE("every sequence of five inputs, from six situations, keeps the rules and runs out clean", "[slow][long]") {
  SimulatedRun fresh(true, 0);
  CHECK(PlayAll(fresh, kLength) == kSequences);

  CHECK(PlayAll(Running(), kLength) == kSequences);

  SimulatedRun unreported(true, 0);
  SaveAndLook(&unreported, kA);
  unreported.EndStep();
  CHECK(PlayAll(unreported, kLength) == kSequences);

  SimulatedRun armed_again = Running();
  SaveAndLook(&armed_again, kB);
  CHECK(PlayAll(armed_again, kLength) == kSequences);

  SimulatedRun draining = Running();
  draining.EndStep();
  draining.EndStep();
  draining.DeliverOne();
  CHECK(PlayAll(draining, kLength) == kSequences);

  draining.SlowFiles();
  draining.DeliverAll();
  CHECK(PlayAll(draining, kLength, Move::kCountSlow) == kSequencesSlow);
}

TEST_CASE("every sequence of four inputs, a limit among them, keeps the rules and runs out clean", "[slow]") {
  SimulatedRun fresh(true, 0);
  fresh.SlowFiles();
  CHECK(PlayAll(fresh, kLengthLimited, Move::kCountLimited) == kSequencesLimited);

  SimulatedRun armed_again = Running();
  SaveAndLook(&armed_again, kB);
  CHECK(PlayAll(armed_again, kLengthLimited, Move::kCountLimited) == kSequencesLimited);

  SimulatedRun unreported(true, 0);
  SaveAndLook(&unreported, kA);
  unreported.EndStep();
  CHECK(PlayAll(unreported, kLengthLimited, Move::kCountLimited) == kSequencesLimited);
}

TEST_CASE("a random walk of 100,000 inputs keeps the rules", "[random]") {
  const auto seed = static_cast<uint32_t>(test::RandomSeed());
  INFO("repeat with STEPWATCH_SEED=" << seed << " machine_test");
  std::mt19937 random(seed);
  SimulatedRun run(true, 0);
  run.SlowFiles();
  for (int i = 0; i < testing::Rounds(100000); ++i) {
    const auto move = random() % (static_cast<uint32_t>(Move::kCountLimited) + 3);
    if (move < static_cast<uint32_t>(Move::kCountLimited)) {
      Make(static_cast<Move>(move), &run);
    } else if (random() % 8 == 0) {
      const Move further[] = {Move::kPause,       Move::kResume,   Move::kOverrideA,    Move::kOverrideB,
                              Move::kOverrideOff, Move::kResample, Move::kResampleLater};
      Make(further[random() % std::size(further)], &run);
    } else if (random() % 8 == 0) {
      run.Recompile(false, false);
    } else if (random() % 8 == 0) {
      run.Recompile();
      run.Discard();
    } else {
      run.EndStep();
    }
    if (i % 1000 == 999) run.CheckRunsOut();
  }
}

}  // namespace
}  // namespace stepwatch::reload
