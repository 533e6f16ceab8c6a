// The reload state machine: the reaction of one process to its config file, as a pure function.
//
// Step(state, input) -> actions; no clock, no I/O, no threads. PlanController performs the actions and feeds back their
// results. Rules and states: docs/design/life_of_an_edit.md.
//
//   IDLE --run--> ARMED --applied--> COLLECTING --finished--> DRAINING --drained--> IDLE (+ write-back)
//                   ^                    | run: ARMED again, the old plan keeps collecting until the swap
//                   +--------------------+ off or empty: stopping, at the next boundary DRAINING
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/step/record_ring.h"
#include "stepwatch/event.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::reload {

// The intent of a text of the config file.
enum class EditIntent : uint8_t {
  kRefused,  // unusable
  kOff,      // dynamic_on is false
  kEmpty,    // dynamic_on is true, collect_times is 0: stop, and write false back
  kRun,      // collect; the compiled plan carries MachineState::next_plan_id
  kDone,     // collect, which an earlier start of the job has done: no plan begins, and false is written back
};

// --- inputs ---
struct BytesSeen {
  std::string sha256;
  EditIntent intent = EditIntent::kOff;
};
struct FileLost {
  EventKind kind = EventKind::kMissing;  // or kUnreadable
};
struct Applied {
  PlanId plan_id = 0;
};
struct Finished {
  PlanId plan_id = 0;
  step::EndReason reason = step::EndReason::kClosed;
};
struct Drained {
  PlanId plan_id = 0;
  step::EndReason reason = step::EndReason::kClosed;
};
// The write-back of these bytes has left our own text in the file, or the same bytes: this is not a change. Other bytes
// found meanwhile are newer.
struct WroteBack {
  std::string base_sha256;
  std::string sha256;
};
// The write-back has found other bytes, saved at that moment: the next look at the file decides, if no look has found
// them meanwhile.
struct FoundEdited {
  std::string base_sha256;
  PlanId plan_id = 0;
};
// Rank 0 of a job: the ranks have agreed on these bytes, and on the id of their plan. Rank 0 decides what is new: the
// same text again, after it was written back, is new.
struct AgreedBytes {
  std::string sha256;
  EditIntent intent = EditIntent::kOff;
  PlanId plan_id = 0;
};
// The ranks of the job do not apply the plan: one of them cannot. The running plan continues.
struct Rejected {
  PlanId plan_id = 0;  // 0: the end of the collection
};
// The ranks reject its id, which one of them has used: this is the next id that is free on all.
struct Renumbered {
  PlanId next_plan_id = 0;
};
// Compile the armed plan again and, if `in_force`, the running one before it: the model has grown, or a call has
// changed their config. The step thread waits, so the plans that it has applied are known, and the window is not over.
struct Recompiled {
  bool in_force = true;
};
// The ranks of the job have agreed to continue the window under this plan, from a later step. The armed plan stays, and
// begins after that. The id is free.
struct Resampled {
  PlanId plan_id = 0;
};
// A request: these bytes run although the file holds others and cannot be changed. kRefused has no effect.
struct OverrideBytes {
  std::string sha256;
  EditIntent intent = EditIntent::kOff;
  bool returns = false;  // the file's content takes effect again when their window is complete
};
// A request: the bytes that were seen last, which the file already holds, begin again. Their window is over, or was not
// begun because it had been done before. No effect while there is a plan.
struct EditRepeated {
  std::string sha256;
};
// A request: the window in force pauses or resumes. Without a window, or if it is about to end or to be replaced, this
// has no effect.
struct PauseRequested {
  bool pause = true;
  bool armed_waits = false;  // the armed plan does not begin at the next boundary
};
// The step thread has stopped waiting, and does not apply the plan that was to continue the window.
struct Discarded {
  PlanId plan_id = 0;
};
// A limit of the run ends the newest plan, regardless of the file.
struct LimitReached {};
using Input = std::variant<BytesSeen, FileLost, Applied, Finished, Drained, WroteBack, FoundEdited, AgreedBytes,
                           Rejected, Renumbered, Recompiled, Resampled, Discarded, OverrideBytes, EditRepeated,
                           PauseRequested, LimitReached>;

// --- actions ---
struct ReportSeen {};      // new bytes; precedes the actions that follow from them
struct ReportRefused {};   // with the error that led to the intent
struct ReportNotBegun {};  // the bytes request a window that was done before
struct ReportLost {
  EventKind kind = EventKind::kMissing;
};
struct ReportRestored {};
struct ReportStopping {};
// A plan was to continue a window that has ended before, or that another plan continues.
struct ReportSuperseded {
  PlanId plan_id = 0;
};
struct PublishPlan {
  PlanId plan_id = 0;
};
// The armed plan was compiled again, and keeps its step.
struct RepublishPlan {
  PlanId plan_id = 0;
};
// The plan replaces the one in force; the window continues.
struct ContinueWindow {
  PlanId plan_id = 0;
};
// Withdraws the armed plan, and ends the window at the next boundary.
struct PublishStop {
  step::EndReason reason = step::EndReason::kStopped;
};
// From the next boundary on the window that this plan began is paused, or continues.
struct SetPause {
  PlanId window = 0;
  bool pause = true;
};
// If the file still holds these bytes, set its dynamic_on to false.
struct WriteBack {
  std::string base_sha256;
  PlanId plan_id = 0;
};
// The next look at the file treats its content as new.
struct LookAgain {};
using Action = std::variant<ReportSeen, ReportRefused, ReportNotBegun, ReportLost, ReportRestored, ReportStopping,
                            ReportSuperseded, PublishPlan, RepublishPlan, ContinueWindow, PublishStop, SetPause,
                            WriteBack, LookAgain>;

// A plan that was armed or is in force.
struct MachinePlan {
  PlanId plan_id = 0;
  std::string sha256;       // of the config bytes it came from
  PlanId continuation = 0;  // waits to continue its window, or has begun without a report yet; 0: neither
  PlanId window = 0;        // the plan that began its window
  bool paused = false;      // the window is paused, or is about to be
};

struct MachineState {
  bool dynamic = false;
  PlanId next_plan_id = 1;

  std::string seen;                    // hash of the bytes seen last, our own write-back included
  std::optional<std::string> in_file;  // `seen` overrides the file, which held these bytes then; empty: unknown
  bool returns = false;                // with `in_file`: see OverrideBytes
  bool has_returned = false;           // with `in_file`: the content of the file is new, whatever it is
  bool refused = false;                // those bytes were refused
  std::optional<EventKind> lost;       // the file is missing or unreadable since

  // Published and not yet known to be applied or withdrawn, oldest first: the step thread may have taken one that the
  // loop still considers armed, or that is already replaced.
  std::vector<MachinePlan> published;
  std::optional<MachinePlan> armed;
  std::optional<MachinePlan> window;
  bool stopping = false;  // the window ends at the next boundary
  std::vector<MachinePlan> draining;
  // `seen` has a complete window, or requested zero steps or a window that was done before (plan id 0). Written back
  // once no plan collects any more and the file exists.
  std::optional<MachinePlan> due;
};

struct Transition {
  MachineState state;
  std::vector<Action> actions;
};

Transition Step(MachineState state, const Input& input);

// The state of the process as status shows it.
RunState RunStateOf(const MachineState& state);

}  // namespace stepwatch::reload
