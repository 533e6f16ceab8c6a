// Events in the life of an edit and of a plan: for terminals, logs, `rehearse --json` and tests.
#pragma once

#include <cstdint>
#include <string>

#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/status.h"

namespace stepwatch {

enum class EventKind : uint8_t {
  kSeen,        // the file has new bytes, unchanged for the quiet time
  kRefused,     // the new bytes are unusable; the running plan stays
  kWarning,     // the new bytes are usable but flawed (unknown key, value replaced by a default)
  kNote,        // information; no action needed
  kMissing,     // the file is gone; the running plan stays
  kUnreadable,  // the file exists but cannot be read
  kRestored,    // the bytes in force are back after missing, unreadable or refused
  kArmed,       // a plan is ready and waits for the next step boundary
  kSuperseded,  // an armed plan was replaced before it was applied
  kStopping,    // the edit ends the collection at the next boundary
  kApplied,     // the step thread swapped plans; `step` is the first step of the plan
  kFinished,    // the plan has ended; `step` is its last step (-1: no step), `message` has the reason
  kDrained,     // all records of the plan are written or counted as dropped: `ledger`
  kWroteBack,   // dynamic_on in the file is false now, or `message` has the reason why not
  kDegraded,    // a fault costs records or control of the monitor; training continues
  kRecovered,   // the fault is over
  kAlarm,       // a value matched a rule of `alert`; `step`, `message`
  kAborted,     // the ranks did not agree on a step: no plan changes; `message` has the reason
  kPaused,      // from `step` on the plan in force collects nothing; it keeps its window and its count
  kResumed,     // from `step` on it collects again
  kRotated,     // the files with rows up to `step` are closed; later rows go to new files
  kLimited,     // a limit of Options::limits is near or reached; `message` has the limit and the usage
  kNotBegun,    // an earlier start of the job did this window ("on_restart": "once"); `step` is its last
};

const char* EventKindName(EventKind kind);  // "seen", "refused", ...

// Log level of an event: no action needed, worth a look, costs records or control.
enum class EventSeverity : uint8_t { kInfo, kWarning, kError };
EventSeverity SeverityOf(EventKind kind);

struct Event {
  EventKind kind = EventKind::kSeen;
  PlanId plan_id = 0;       // 0: no plan
  int64_t step = -1;        // -1: no step
  int64_t collected = -1;   // collected steps of the plan (kFinished, kDrained)
  std::string message;      // one sentence, for people; may be empty
  TextPlace place;          // kRefused, kWarning: place in the text
  std::string sha256;       // hash of the file's bytes, in hex; empty: not read
  int64_t bytes = -1;       // size of the file; -1: not read
  Ledger ledger;            // kDrained
  double busy_seconds = 0;  // kDrained: time that trainer threads spent measuring for this plan
  double t = 0;             // seconds since the monitor was created, steady clock
};

// Returns the event as one line for people: "plan 2 applied: first step 41". Control characters are escaped.
std::string EventText(const Event& event);

}  // namespace stepwatch
