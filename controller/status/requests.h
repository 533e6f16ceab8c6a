// Requests that steer a running job, and their results. The reloader fills the results; the control socket answers with
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/status/job_status.h"
#include "src/output/history.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/status.h"

namespace stepwatch::status {

// A requested change of the config file.
struct ConfigChange {
  enum class Verb : uint8_t {
    kApply,     // `text` replaces the content
    kStart,     // "dynamic_on" becomes true
    kStop,      // or false
    kRollback,  // an earlier config replaces the content
  };

  Verb verb = Verb::kApply;
  std::string text;          // kApply
  PlanId plan_id = 0;        // kRollback: restores the config of this plan; 0: the config before the one that ran last
  std::string if_match;      // require that the file has this SHA-256; empty: no condition
  bool is_override = false;  // kApply: leaves the file unchanged; its content takes effect when it next changes
  bool returns = false;      // with is_override: the file's content takes effect when the window of `text` is complete
  int64_t at_step = 0;       // kApply: first step of its plan; if that has begun, the next step
  output::EditPeer peer;     // its sender
};

// The verdict of the monitor on the text in the file.
struct Verdict {
  enum class Kind : uint8_t {
    kPending,     // not known in time: the ranks have not decided, or the file could not be looked at
    kArmed,       // its plan waits for its step
    kRunning,     // its plan is in force, and was before
    kStopping,    // the plan in force ends at the next boundary
    kOff,         // it requests no plan, and no plan runs
    kRefused,     // by this model, or by a rank
    kSuperseded,  // a newer text was saved
  };

  Kind kind = Kind::kPending;
  PlanId plan_id = 0;  // of the plan for this text; 0: no plan
  int64_t at_step = -1;
  Status refusal;
};

struct ChangeReport {
  enum class Outcome : uint8_t {
    kWritten,
    kUnchanged,    // the file already had this text
    kOverridden,   // the text runs, or is about to, and the file has another
    kConflict,     // the file does not have the expected content
    kEdited,       // another program saved the file at the same time; its content stays
    kInvalid,      // the text is invalid
    kUnwritable,   // the file cannot be written
    kNoOldConfig,  // kRollback: there is no earlier config
    kStatic,       // the job reads its config only once
    kNotReader,    // another process of the job reads the config
    kNotReady,     // not at present
  };

  Outcome outcome = Outcome::kNotReady;
  std::string config_path;
  std::string method;           // how the file was written
  std::string message;          // unless kWritten, kUnchanged or kOverridden
  TextPlace place;              // kInvalid: as far as it is known
  std::string replaced_sha256;  // of the file before; empty: it was missing or not read
  std::string sha256;           // of the new text
  PlanId old_plan_id = 0;       // kRollback: the plan of the restored config
  bool is_begun = false;        // kUnchanged: the file's plan had ended or not begun, and begins again
  Verdict verdict;              // kWritten, kUnchanged, kOverridden

  // The file has the text.
  bool is_done() const { return outcome == Outcome::kWritten || outcome == Outcome::kUnchanged; }
};

// The result that a config would have if the file held it; no plan is armed.
struct EditTrial {
  Status refusal;         // Ok: it would be accepted
  bool collects = false;  // it requests a plan, which can be built
  int64_t sites = 0;
  int64_t rows_per_step = 0;  // per collected step
};

// The result of a request to pause the collection, or to resume it.
struct PauseResult {
  enum class Outcome : uint8_t {
    kDone,
    kUnchanged,      // it already was in the requested state
    kAsked,          // the running step did not end in time; the change applies when it does
    kNotCollecting,  // no plan is in force
    kEnding,         // its window has ended or is about to, or another plan replaces it
    kRanks,          // the ranks of a job collect the same steps and cannot agree on one: the mode is static
    kNoAnswer,       // the loop does not respond
  };
  Outcome outcome = Outcome::kNoAnswer;
  bool paused = false;   // current state
  PlanId plan_id = 0;    // in force; 0: no plan
  int64_t step = 0;      // the running step
  int64_t at_step = -1;  // kDone, kUnchanged: first step in this state; kAsked: first step of the change, if the ranks
                         // agree; -1: not known
  bool is_of_all_ranks = true;
};

// The result of a request to close the files with the rows recorded so far.
struct RotateResult {
  enum class Outcome : uint8_t {
    kDone,
    kAsked,          // the running step did not end in time, or its rows are not written yet
    kUnderWay,       // an earlier request is still in progress
    kNotCollecting,  // no plan is in force, so no file is open
    kNoAnswer,       // the loop does not respond
  };
  Outcome outcome = Outcome::kNoAnswer;
  Segment segment{};        // the new one
  std::string directory{};  // of this run and rank; empty: no directory
};

}  // namespace stepwatch::status
