// The reload state machine: what one process does about the config file, as a pure function.
//
// Step(state, input) -> actions; no clock, no I/O, no threads. The reloader performs the actions and feeds back what
// happened. Rules and states: docs/life_of_an_edit.md.
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

// What a text of the config file asks for.
enum class EditIntent : uint8_t {
  kRefused,  // unusable
  kOff,      // dynamic_on is false
  kEmpty,    // dynamic_on is true, collect_times is 0: stop, and write false back
  kRun,      // collect; the compiled plan carries MachineState::next_plan_id
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
};
struct Drained {
  PlanId plan_id = 0;
  step::EndReason reason = step::EndReason::kClosed;
};
// Our own write-back is in the file: not a change.
struct WroteBack {
  std::string sha256;
};
// It is not, because somebody saved other bytes at that moment: what the file is seen to hold next decides.
struct FoundEdited {
  std::string base_sha256;
  PlanId plan_id = 0;
};
// The ranks of the job do not take it: one of them cannot. What ran goes on.
struct Rejected {
  PlanId plan_id = 0;  // 0: the end of the collection
};
// Plans are compiled again, because the model has grown or a call has changed their config: what is armed and, with
// `in_force`, before it what is in force: then the step thread waits, what it has applied is known here, and the window
// is not over.
struct Recompiled {
  bool in_force = true;
};
using Input =
    std::variant<BytesSeen, FileLost, Applied, Finished, Drained, WroteBack, FoundEdited, Rejected, Recompiled>;

// --- actions ---
struct ReportSeen {};     // new bytes; precedes what is done about them
struct ReportRefused {};  // with the error that made the intent
struct ReportLost {
  EventKind kind = EventKind::kMissing;
};
struct ReportRestored {};
struct ReportStopping {};
struct OfferPlan {
  PlanId plan_id = 0;
  bool keeps_window = false;
};
// Withdraws the armed plan, and ends the window at the next boundary.
struct OfferStop {};
// If the file still holds these bytes, make its dynamic_on false.
struct WriteBack {
  std::string base_sha256;
  PlanId plan_id = 0;
};
using Action = std::variant<ReportSeen, ReportRefused, ReportLost, ReportRestored, ReportStopping, OfferPlan, OfferStop,
                            WriteBack>;

// A plan that was armed or is in force.
struct MachinePlan {
  PlanId plan_id = 0;
  std::string sha256;         // of the config bytes it came from
  bool keeps_window = false;  // carries on the window in force; never what is armed
};

struct MachineState {
  bool dynamic = false;
  PlanId next_plan_id = 1;

  std::string seen;               // hash of the bytes seen last, our own write-back included
  bool refused = false;           // those bytes were refused
  std::optional<EventKind> lost;  // the file is missing or unreadable since

  // Offered and not yet known to be applied or withdrawn, oldest first: the step thread may have taken one that the
  // loop still believes armed, or already replaced.
  std::vector<MachinePlan> offered;
  std::optional<MachinePlan> armed;
  std::optional<MachinePlan> window;
  bool stopping = false;  // the window ends at the next boundary
  std::vector<MachinePlan> draining;
  // Of `seen`: its window is complete, or it asked for zero steps (plan id 0). Written back once nothing collects any
  // more and the file is there.
  std::optional<MachinePlan> due;
};

struct Transition {
  MachineState state;
  std::vector<Action> actions;
};

Transition Step(MachineState state, const Input& input);

// The state of the process as people see it.
RunState RunStateOf(const MachineState& state);

}  // namespace stepwatch::reload
