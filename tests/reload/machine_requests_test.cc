// The machine with requests beside the file: a pause, and bytes that override the file.
#include <vector>

#include "tests/catch.h"
#include "tests/reload/machine_moves.h"
#include "tests/rounds.h"

namespace stepwatch::reload {
namespace {

TEST_CASE("a pause keeps window and count, and a resumed window collects what it still may") {
  SimulatedRun run = Running();
  run.Pause(true);
  CHECK(Count<SetPause>(run) == 1);
  run.EndStep();  // the running step is collected
  CHECK(run.collected().size() == 1);
  for (int i = 0; i < 5; ++i) run.EndStep();
  run.DeliverAll();
  CHECK(run.collected().size() == 1);
  REQUIRE(run.state().window);
  CHECK(run.state().window->paused);
  run.Pause(true);
  CHECK(run.actions().empty());
  run.Pause(false);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);
  CHECK(run.write_backs() == 1);
}

TEST_CASE("a pause ends with the next edit and with a stop, and is no matter without a window") {
  SimulatedRun run(true, 0);
  run.Pause(true);
  CHECK(run.actions().empty());
  run = Running();
  run.Pause(true);
  run.EndStep();
  SimulatedRun stopped = run;
  SaveAndLook(&run, kB);
  run.EndStep();
  run.DeliverAll();
  CHECK_FALSE(run.state().window->paused);
  run.EndStep();
  CHECK(run.collected().size() == 2);

  SaveAndLook(&stopped, kOffText);
  stopped.EndStep();
  stopped.DeliverAll();
  CHECK_FALSE(stopped.state().window);
}

TEST_CASE("a window that an edit replaces at a later step is paused until then") {
  SimulatedRun run = Running();
  SaveAndLook(&run, kB);
  MachineState state = run.state();
  REQUIRE(state.armed);
  CHECK(Step(state, PauseRequested{true}).actions.empty());
  const Transition paused = Step(state, PauseRequested{true, true});
  CHECK(paused.actions.size() == 1);
  CHECK(paused.state.window->paused);
}

TEST_CASE("a window that is about to end or to be replaced is not paused, and a refused edit does not end a pause") {
  SimulatedRun run = Running();
  SaveAndLook(&run, kB);
  run.Pause(true);
  CHECK(run.actions().empty());
  SaveAndLook(&run, kOffText);
  run.Pause(true);
  CHECK(run.actions().empty());

  SimulatedRun refused = Running();
  refused.Pause(true);
  SaveAndLook(&refused, kBad);
  SaveAndLook(&refused, kA);
  CHECK(refused.state().window->paused);
  refused.CheckRunsOut();
}

TEST_CASE("a window goes on under what the ranks have agreed on, and what is armed begins after that") {
  SimulatedRun run = Running();
  SaveAndLook(&run, kB);
  MachineState state = run.state();
  const PlanId window = state.window->plan_id, armed = state.armed->plan_id;
  state.armed->plan_id = state.published.back().plan_id = state.next_plan_id++;  // the id before it was kept free
  Transition next = Step(state, Resampled{armed});
  REQUIRE(next.actions.size() == 1);
  CHECK(std::get<ContinueWindow>(next.actions[0]).plan_id == armed);
  CHECK(next.state.next_plan_id == state.next_plan_id);
  CHECK(next.state.published.size() == 1);
  CHECK(Step(next.state, Resampled{armed}).actions.empty());

  const Transition ended = Step(next.state, Finished{window, step::EndReason::kTimes});
  CHECK(std::get<ReportSuperseded>(ended.actions.at(0)).plan_id == armed);
  const Transition withdrawn = Step(next.state, Discarded{armed});
  CHECK(withdrawn.state.window->continuation == 0);

  next = Step(next.state, Applied{armed});
  CHECK(next.state.window->plan_id == armed);
  CHECK(next.state.window->window == window);
  REQUIRE(next.state.armed);
  next = Step(next.state, Applied{armed + 1});
  CHECK(next.state.window->plan_id == armed + 1);
  CHECK_FALSE(next.state.armed);
  CHECK(next.state.draining.size() == 2);
}

TEST_CASE("without a window nothing goes on under what the ranks have agreed on, and its id is used") {
  const Transition next = Step(MachineState(), Resampled{5});
  CHECK(next.actions.empty());
  CHECK(next.state.next_plan_id == 6);
}

TEST_CASE("every sequence with samplings that wait for their step keeps the rules, and the window its count",
          "[slow]") {
  const std::vector<Move> moves = {Move::kResample,  Move::kResampleLater,   Move::kEndStep, Move::kDeliverOne,
                                   Move::kRecompile, Move::kRecompileInStep, Move::kSaveB,   Move::kSaveOff,
                                   Move::kOverrideB, Move::kPause,           Move::kResume,  Move::kLimit};
  CHECK(PlayAll(Running(), kLength, moves) == kSequences);

  SimulatedRun waiting = Running();
  waiting.Resample(2);
  CHECK(waiting.state().window->continuation != 0);
  CHECK(PlayAll(waiting, kLength - 1, moves) == kSequences / 12);
  waiting.EndStep();
  waiting.EndStep();
  CHECK(waiting.collected().size() == 2);
  waiting.CheckRunsOut();
  CHECK(waiting.collected().size() == 2);
  CHECK(waiting.write_backs() == 1);
}

TEST_CASE("a model that grows in a pause stays paused") {
  SimulatedRun run = Running();
  run.Pause(true);
  run.EndStep();
  run.Recompile();
  run.EndStep();
  run.DeliverAll();
  CHECK(run.state().window->plan_id == 2);
  CHECK(run.state().window->paused);
  run.EndStep();
  CHECK(run.collected().size() == 1);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);
}

TEST_CASE("bytes that override the file run while the file holds others, and are not written back") {
  SimulatedRun run = Running();
  run.Override(kB);
  CHECK(Count<PublishPlan>(run) == 1);
  CHECK(run.state().in_file == "A");
  run.Lose();
  run.Look();
  SaveAndLook(&run, kA);  // as it was
  CHECK(Count<ReportRestored>(run) == 1);
  CHECK(Count<PublishPlan>(run) == 0);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);  // one of A in the step of the edit, one of B
  CHECK(run.write_backs() == 0);
  CHECK(run.file()->name == "A");
  run.Override(kB);  // again
  CHECK(Count<PublishPlan>(run) == 1);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 3);
}

TEST_CASE("bytes that override the file for a time give way to it when their window is complete") {
  SimulatedRun run = Running();
  run.Override(kB, true);
  run.EndStep();
  run.DeliverAll();
  CHECK(run.state().in_file == "A");
  run.EndStep();
  run.DeliverAll();
  CHECK(Count<LookAgain>(run) == 1);
  run.Look();
  CHECK(Count<PublishPlan>(run) == 1);  // A again, from its beginning
  CHECK_FALSE(run.state().in_file);
  run.CheckRunsOut();
  CHECK(run.plans().at(3).name == "A");
  CHECK(run.write_backs() == 1);
  CHECK(run.file()->name == "A with false");
}

TEST_CASE(
    "bytes that override the file for a time give way to an edit before, and stay if they are overridden for good") {
  SimulatedRun run = Running();
  run.Override(kB, true);
  SimulatedRun for_good = run;
  SaveAndLook(&run, kOffText);
  CHECK_FALSE(run.state().in_file);
  run.CheckRunsOut();
  CHECK(run.file()->intent == EditIntent::kOff);

  for_good.Override(kB);
  for_good.CheckRunsOut();
  CHECK(for_good.state().in_file == "A");
}

TEST_CASE("the file wins over bytes that override it when it changes, and agrees with them when it holds them") {
  SimulatedRun run = Running();
  run.Override(kB);
  run.EndStep();
  run.DeliverAll();
  SimulatedRun same = run;
  SaveAndLook(&run, kOffText);
  CHECK(Count<PublishStop>(run) == 1);
  CHECK_FALSE(run.state().in_file);
  run.CheckRunsOut();

  SaveAndLook(&same, kB);
  CHECK(same.actions().empty());
  CHECK_FALSE(same.state().in_file);
  same.CheckRunsOut();
  CHECK(same.write_backs() == 1);
  CHECK(same.file()->intent == EditIntent::kOff);
}

TEST_CASE(
    "bytes that override the file are not written back because an earlier write-back of the same has found an edit") {
  SimulatedRun run(true, 0);
  run.SlowFiles();
  SaveAndLook(&run, kB);
  run.EndStep();
  run.EndStep();
  run.DeliverAll();  // the write-back of B is under way
  run.Override(kA);
  SaveAndLook(&run, kA);
  run.Override(kB);
  run.FinishWriteBack();
  CHECK(run.state().in_file == "A");
  CHECK_FALSE(run.state().due);
  run.CheckRunsOut();
  CHECK(run.write_backs() == 1);
  CHECK(run.file()->name == "A");
}

TEST_CASE("bytes that override the file while it is being written back do not yield to our own text") {
  SimulatedRun run = Running();
  run.SlowFiles();
  run.EndStep();
  run.EndStep();
  run.DeliverAll();
  run.Override(kB);
  run.FinishWriteBack();
  run.Look();
  CHECK(run.state().in_file == "A with false");
  REQUIRE(run.state().armed);
  run.CheckRunsOut();
  CHECK(run.collected().size() == 3);
}

TEST_CASE("overriding bytes that are unusable, or that the ranks do not take, leave the file's in force") {
  MachineState state;
  state.dynamic = true;
  state = Step(state, BytesSeen{"A", EditIntent::kRun}).state;
  state = Step(state, Applied{1}).state;
  CHECK(Step(state, OverrideBytes{"B", EditIntent::kRefused}).actions.empty());
  state = Step(state, OverrideBytes{"B", EditIntent::kRun}).state;
  state = Step(state, Rejected{2}).state;
  CHECK(state.seen == "A");
  CHECK_FALSE(state.in_file);
  CHECK_FALSE(state.refused);
}

TEST_CASE("every sequence of inputs with pauses and overrides among them keeps the rules and runs out clean",
          "[slow]") {
  const std::vector<Move> moves = {Move::kSaveA, Move::kSaveB,   Move::kSaveOff,    Move::kSaveBad,
                                   Move::kLose,  Move::kEndStep, Move::kDeliverAll, Move::kRecompileInStep,
                                   Move::kPause, Move::kResume,  Move::kOverrideB,  Move::kOverrideOff};
  CHECK(PlayAll(Running(), kLength, moves) == kSequences);

  std::vector<Move> lending = moves;
  lending[10] = Move::kLendB;
  CHECK(PlayAll(Running(), kLength, lending) == kSequences);

  SimulatedRun paused = Running();
  paused.Pause(true);
  paused.EndStep();
  CHECK(PlayAll(paused, kLength - 1, moves) == kSequences / 12);

  SimulatedRun overridden = Running();
  overridden.Override(kB);
  overridden.EndStep();
  CHECK(PlayAll(overridden, kLength - 1, moves) == kSequences / 12);

  SimulatedRun written_back = Running();
  written_back.EndStep();
  written_back.EndStep();
  written_back.SlowFiles();
  written_back.DeliverAll();
  std::vector<Move> slow = moves;
  slow[0] = Move::kFinishWriteBack;
  CHECK(PlayAll(written_back, kLength - 1, slow) == kSequences / 12);
}

// The windows that an earlier start of the job has done.
const Text kDoneA{"A", EditIntent::kDone, {0, 1, 2}};

TEST_CASE("what was done before begins nothing, and false is written back") {
  SimulatedRun run(true, 0);
  SaveAndLook(&run, kDoneA);
  CHECK(run.plans().empty());
  CHECK(run.write_backs() == 1);
  CHECK(run.file()->name == "A with false");
  CHECK(RunStateOf(run.state()) == RunState::kIdle);
  run.CheckRunsOut();

  SaveAndLook(&run, kA);  // somebody wants it again
  run.CheckRunsOut();
  CHECK(run.collected().size() == 2);
}

TEST_CASE("a window that was done begins again in a file that nobody can write at each request for it") {
  SimulatedRun run(true, 0);
  run.Protect();
  SaveAndLook(&run, kDoneA);
  CHECK(run.collected().empty());
  for (size_t windows = 1; windows <= 3; ++windows) {
    run.AskAgain(kA);
    CHECK(Count<PublishPlan>(run) == 1);
    run.AskAgain(kA);  // it waits for its step
    CHECK(run.actions().empty());
    run.EndStep();
    run.DeliverAll();
    run.AskAgain(kA);  // it is in force
    CHECK(run.actions().empty());
    run.CheckRunsOut();
    CHECK(run.collected().size() == 2 * windows);
  }
  SaveAndLook(&run, kBad);
  run.AskAgain(kBad);
  CHECK(run.actions().empty());
}

TEST_CASE("every sequence of requests for what was done, edits and steps keeps the rules and runs out clean",
          "[slow]") {
  const std::vector<Move> moves{Move::kAskA,      Move::kSaveA,   Move::kSaveB,      Move::kSaveOff,
                                Move::kLose,      Move::kEndStep, Move::kDeliverOne, Move::kFinishWriteBack,
                                Move::kOverrideB, Move::kLimit};
  for (const bool is_protected : {false, true}) {
    SimulatedRun run(true, 0);
    if (is_protected) run.Protect();
    run.SlowFiles();
    SaveAndLook(&run, kDoneA);
    CHECK(PlayAll(run, kLength - 1, moves) == (testing::kIsSanitized ? 1000 : 10000));
  }
}

}  // namespace
}  // namespace stepwatch::reload
