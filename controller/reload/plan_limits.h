// Checks a plan against the limits of the run (Options::limits). Pure except for the used bytes of the disk.
#pragma once

#include <string>

#include "src/output/run_storage.h"
#include "src/plan/plan.h"
#include "stepwatch/options.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

class PlanLimits {
 public:
  // `options` must be normalised. The storage must outlive the limits; null: no storage.
  PlanLimits(const Options& options, output::RunStorage* storage)
      : limits_(options.limits), micro_batches_(options.grad_acc_steps), storage_(storage) {}

  // Ok, or the limit that rejects the plan, the plan's need, and the accepted values.
  Status Check(const plan::Plan& plan) const;
  // "this run has written 9.1 GiB of the 10.0 GiB that it may (…)"
  std::string DiskText() const;
  static bool WritesFiles(const plan::Plan& plan);

  // The memory between the step thread and the files that a plan needs.
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

// Limits the memory of one ring, and of rows that wait for one sink, so that the sum stays within
// Limits::queue_bytes_max. Keeps lower limits of the options.
void BoundQueues(Options* options);

}  // namespace stepwatch::reload
