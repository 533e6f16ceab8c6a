// An edit that somebody orders through the control socket instead of saving the file: the file is changed all the same,
// and what it holds then is taken up like every edit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "controller/reload/edit_pipeline.h"
#include "controller/writeback/config_edit.h"
#include "src/base/file_system.h"
#include "src/output/history.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

struct EditOrder {
  enum class Kind : uint8_t {
    kReplace,  // by `text`
    kStart,    // "dynamic_on" becomes true
    kStop,     // or false
  };

  Kind kind = Kind::kReplace;
  std::string text;
  std::string if_match_sha256;  // empty: whatever the file holds
  output::EditPeer peer;        // who orders it
  bool is_volatile = false;     // kReplace: the text runs until the file changes, and the file is left alone
  int64_t at_step = 0;          // kReplace: its plan begins then; not later than the running step: at the next
  // Loop thread: the text with this hash is in the file, or is given, and nobody has looked yet. May be empty.
  std::function<void(const std::string& sha256)> on_written;
};

// What this process makes of the text that the file holds after an order.
struct Verdict {
  enum class Kind : uint8_t {
    kPending,     // not known in time: the ranks still decide, or the file could not be looked at
    kArmed,       // its plan waits for its step
    kRunning,     // its plan is in force, and was before
    kStopping,    // what is in force ends at the next boundary
    kOff,         // it asks for nothing, and nothing runs
    kRefused,     // by this model, or by a rank
    kSuperseded,  // somebody has saved something newer
  };

  Kind kind = Kind::kPending;
  PlanId plan_id = 0;  // 0: none
  int64_t at_step = -1;
  Status refusal;
};

struct OrderOutcome {
  enum class Kind : uint8_t {
    kDone,        // the file holds the text
    kGiven,       // the text runs, or is about to, and the file holds another
    kConflict,    // it holds something else than it should; nothing was changed
    kEdited,      // somebody saved at the same moment; theirs stands
    kInvalid,     // no plan could be made of the text; nothing was changed
    kUnwritable,  // nothing was changed
    kNotReader,   // another process of the job reads the file, and nothing was changed
    kNotNow,      // nor was anything changed; `message` says why
  };

  Kind kind = Kind::kUnwritable;
  bool is_written = false;   // kDone: false if it held the text before
  bool is_begun = false;     // kDone, not written: what it asks for was over, or not begun, and is begun again
  std::string method;        // see WriteBackResult
  std::string message;       // unless kDone, kGiven or kNotReader
  TextPlace place;           // kInvalid: as far as it is known
  std::string found_sha256;  // of what the file held; empty: nothing, or it was not read
  std::string sha256;        // of the text
  Verdict verdict;           // kDone, kGiven
};

// Ok: a text of this intent may wait for the step. What ends a collection does not.
Status WhyNoStep(EditIntent intent, int64_t at_step);

// Checks the text as this process would, which compiles `plan_id` of it, then changes the file. Blocking, on the
// executor of the config. `result`: what was done to the file, if anything was tried.
OrderOutcome MakeOrderedEdit(const std::string& path, const EditOrder& order, EditPipeline* pipeline, PlanId plan_id,
                             base::FileSystem& files, writeback::WriteBackResult* result);

}  // namespace stepwatch::reload
