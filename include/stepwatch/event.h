// The life of an edit and of a plan, told as events: for terminals, logs, `rehearse --json` and tests.
#pragma once

#include <cstdint>
#include <string>

#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/status.h"

namespace stepwatch {

enum class EventKind : uint8_t {
  kSeen,        // new bytes in the file, stable for the quiet time
  kRefused,     // they are unusable; what ran goes on
  kWarning,     // usable, but something in them is worth a word (unknown key, value replaced by a default)
  kNote,        // worth knowing, nothing to do
  kMissing,     // the file is gone; what ran goes on
  kUnreadable,  // the file is there and cannot be read
  kRestored,    // the bytes that are in force are back after missing, unreadable or refused
  kArmed,       // a plan is ready and waits for the next step boundary
  kSuperseded,  // an armed plan was replaced before it was applied
  kStopping,    // the edit ends the collection at the next boundary
  kApplied,     // the step thread swapped; `step` is the first step of the plan
  kFinished,    // the plan's last step is over; `step` is that step (-1: it had none), `message` says why
  kDrained,     // all its records are written or counted as dropped: `ledger`
  kWroteBack,   // dynamic_on is false in the file now, or `message` says why not
  kDegraded,    // the monitor has a trouble that costs records or steering, training goes on
  kRecovered,   // the trouble is over
  kAlarm,       // a rule of `alert` hit a value; `step`, `message`
  kAborted,     // the ranks of the job did not agree on a step: nothing was changed; `message` says why
  kPaused,      // from `step` on the plan in force collects nothing, and keeps its window and its count
  kResumed,     // from `step` on it collects again
  kRotated,     // the files with the rows up to `step` are closed, and later rows go to new ones
  kLimited,   // a limit of Options::limits is near, or has ended the collection; `message` says which, and what is used
  kNotBegun,  // an earlier start of the job has done this window ("on_restart": "once"); `step` is the last one of it
};

const char* EventKindName(EventKind kind);  // "seen", "refused", ...

// For whoever logs events: nothing to do, worth a look, costs something.
enum class EventSeverity : uint8_t { kInfo, kWarning, kError };
EventSeverity SeverityOf(EventKind kind);

struct Event {
  EventKind kind = EventKind::kSeen;
  PlanId plan_id = 0;      // 0: about no plan
  int64_t step = -1;       // -1: about no step
  int64_t collected = -1;  // collected steps of the plan (kFinished, kDrained)
  std::string message;     // one sentence, for people; may be empty
  TextPlace place;         // kRefused, kWarning: where in the text
  std::string sha256;      // of the file's bytes, hex; empty: not read
  int64_t bytes = -1;
  Ledger ledger;            // kDrained
  double busy_seconds = 0;  // kDrained: time that trainer threads spent measuring for this plan
  double t = 0;             // seconds since the monitor was created, steady clock
};

// The event as one line for people: "plan 2 applied: first step 41". Control characters are escaped.
std::string EventText(const Event& event);

}  // namespace stepwatch
