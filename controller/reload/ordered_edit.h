// An edit that a client orders through the control socket instead of saving the file. The file is changed too, and its
// new content is applied like every edit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "controller/reload/edit_pipeline.h"
#include "controller/status/requests.h"
#include "controller/writeback/config_edit.h"
#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

struct EditOrder {
  status::ConfigChange change;  // no rollback
  // Loop thread: the text with this hash is in the file, or overrides it, and no look has found it yet. May be empty.
  std::function<void(const std::string& sha256)> on_written;
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
status::ChangeReport MakeOrderedEdit(const std::string& path, const status::ConfigChange& change,
                                     EditPipeline* pipeline, PlanId plan_id, base::FileSystem& files,
                                     writeback::WriteBackResult* result);

}  // namespace stepwatch::reload
