// An edit that a client orders through the control socket instead of saving the file. The file is changed too, and its
// new content is applied like every edit.
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
  std::string if_match_sha256;  // empty: any content
  output::EditPeer peer;        // its sender
  bool is_override = false;     // kReplace: the text runs until the file changes, and the file is not changed
  int64_t at_step = 0;          // kReplace: first step of its plan; not later than the running step: the next
  // Loop thread: the text with this hash is in the file, or overrides it, and no look has found it yet. May be empty.
  std::function<void(const std::string& sha256)> on_written;
};

// The verdict of this process on the text that the file holds after an order.
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
  PlanId plan_id = 0;  // 0: none
  int64_t at_step = -1;
  Status refusal;
};

struct OrderOutcome {
  enum class Kind : uint8_t {
    kDone,        // the file holds the text
    kOverridden,  // the text runs, or is about to; the file holds another one
    kConflict,    // the file holds another text than expected; it was not changed
    kEdited,      // another program saved at the same moment; its text stays
    kInvalid,     // no plan could be built from the text; the file was not changed
    kUnwritable,  // the file cannot be changed
    kNotReader,   // another process of the job reads the file, which was not changed
    kNotNow,      // the file was not changed; `message` has the reason
  };

  Kind kind = Kind::kUnwritable;
  bool is_written = false;   // kDone: false if it held the text before
  bool is_begun = false;     // kDone, not written: its window was over, or not begun, and begins again
  std::string method;        // see WriteBackResult
  std::string message;       // unless kDone, kOverridden or kNotReader
  TextPlace place;           // kInvalid: as far as it is known
  std::string found_sha256;  // of the content of the file; empty: no file, or it was not read
  std::string sha256;        // of the text
  Verdict verdict;           // kDone, kOverridden
};

// The step of ordered bytes, from the order until a look has found them in the file.
class OrderedStep {
 public:
  void Expect(const std::string& sha256, int64_t at_step) { expected_ = {sha256, at_step, false}; }
  void Clear() { expected_ = {}; }
  // A look has found these bytes. Returns the step that was ordered for them; 0: none. A look may still find earlier
  // bytes first.
  int64_t Take(const std::string& sha256);
  // The look after the order is over; `seen`: the bytes seen last.
  void OnLooked(const std::string& seen);

 private:
  struct {
    std::string sha256;  // empty: no bytes are expected
    int64_t at_step = 0;
    bool is_looked_at = false;  // the file was looked at since they were put there
  } expected_;
};

// Ok: a text of this intent may wait for the step. A text that ends a collection may not.
Status WhyNoStep(EditIntent intent, int64_t at_step);

// Checks the text as this process would, compiling it as `plan_id`, then changes the file. Blocking, on the executor of
// the config. `result`: the change of the file, if one was tried.
OrderOutcome MakeOrderedEdit(const std::string& path, const EditOrder& order, EditPipeline* pipeline, PlanId plan_id,
                             base::FileSystem& files, writeback::WriteBackResult* result);

}  // namespace stepwatch::reload
