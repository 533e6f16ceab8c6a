// The traces on the pure machine: no loop, no files, no threads.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/reload/simulated_run.h"
#include "tests/reload/traces.h"

namespace stepwatch::reload {
namespace {

using testing::Collected;
using testing::Trace;
using testing::Wanted;

EditIntent IntentOf(const Wanted& wanted, bool dynamic) {
  if (*wanted.broken != '\0') return EditIntent::kRefused;
  if (dynamic && !wanted.dynamic_on) return EditIntent::kOff;
  if (wanted.collect_times == 0) return dynamic ? EditIntent::kEmpty : EditIntent::kOff;
  return EditIntent::kRun;
}

Text TextOf(const Wanted& wanted, bool dynamic) {
  const std::string name = std::string(wanted.gradients ? "gradients" : "weights") +
                           (wanted.dynamic_on ? " on" : " off") + " times " + std::to_string(wanted.collect_times) +
                           " interval " + std::to_string(wanted.step_interval) + wanted.broken;
  return {name, IntentOf(wanted, dynamic), {wanted.start_step, wanted.step_interval, wanted.collect_times}};
}

// How far the messages of the step thread lag behind.
enum class Lag { kNone, kOneStep, kUntilEdit };

void Deliver(SimulatedRun* run, Lag lag, bool edited_next) {
  if (lag == Lag::kNone || edited_next) return run->DeliverAll();
  if (lag == Lag::kOneStep) run->DeliverOne();
}

SimulatedRun Play(const Trace& trace, Lag lag) {
  SimulatedRun run(trace.dynamic, trace.first_step);
  run.Save(TextOf(trace.initial, trace.dynamic));
  run.Look();
  run.BeginFirstStep();
  for (int64_t step = trace.first_step; step < trace.first_step + trace.steps; ++step) {
    bool edited_next = false;
    for (const testing::Edit& edit : trace.edits) {
      edited_next = edited_next || edit.during_step == step + 1;
      if (edit.during_step != step || !trace.dynamic) continue;
      run.Save(TextOf(edit.wanted, trace.dynamic));
      run.Look();
    }
    run.EndStep();
    Deliver(&run, lag, edited_next);
  }
  run.DeliverAll();
  return run;
}

std::string Shown(const std::vector<Collected>& collected) {
  std::string text;
  for (const Collected& each : collected) text += std::to_string(each.step) + (each.gradients ? "g " : "w ");
  return text;
}

std::string CollectedIn(const SimulatedRun& run) {
  std::vector<Collected> collected;
  for (const auto& each : run.collected())
    collected.push_back({each.step, run.plans().at(each.plan_id).name.rfind("gradients", 0) == 0});
  return Shown(collected);
}

TEST_CASE("the machine plays every trace, however late the step thread's messages come") {
  for (const Trace& trace : testing::Traces())
    for (Lag lag : {Lag::kNone, Lag::kOneStep, Lag::kUntilEdit}) {
      INFO(trace.name << ", lag " << static_cast<int>(lag));
      const SimulatedRun run = Play(trace, lag);
      CHECK(CollectedIn(run) == Shown(trace.collected));
      CHECK((run.write_backs() > 0 && run.file()->intent == EditIntent::kOff) == trace.written_back);
    }
}

}  // namespace
}  // namespace stepwatch::reload
