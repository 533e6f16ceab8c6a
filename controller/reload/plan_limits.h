// What the limits of the run (Options::limits) say of a plan. Pure but for what is used of the disk.
#pragma once

#include <string>

#include "src/output/run_storage.h"
#include "src/plan/plan.h"
#include "stepwatch/options.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

class PlanLimits {
 public:
  // `options` normalised. The storage outlives the limits; null: it has none.
  PlanLimits(const Options& options, output::RunStorage* storage)
      : limits_(options.limits), micro_batches_(options.grad_acc_steps), storage_(storage) {}

  // Ok, or which limit keeps the plan from running, what it asks for, and what would be accepted.
  Status Check(const plan::Plan& plan) const;
  // "this run has written 9.1 GiB of the 10.0 GiB that it may (…)"
  std::string DiskText() const;
  static bool WritesFiles(const plan::Plan& plan);

  // What the memory between the step thread and the files must be allowed to be for a plan to run.
  static uint64_t QueueBytesNeeded(const plan::Plan& plan, int micro_batches);

 private:
  Status CheckFormat(const plan::Plan& plan) const;
  Status CheckDisk(const plan::Plan& plan) const;
  Status CheckRows(const plan::Plan& plan) const;
  Status CheckQueue(const plan::Plan& plan) const;

  const Limits limits_;
  const int micro_batches_;
  output::RunStorage* const storage_;
};

// The memory of one ring, and of what waits for one of its receivers, so that all of it together stays within
// Limits::queue_bytes_max; no more than the options give already.
void BoundQueues(Options* options);

}  // namespace stepwatch::reload
