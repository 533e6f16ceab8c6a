#include "controller/reload/plan_limits.h"

#include <algorithm>

#include "src/base/byte_count.h"
#include "src/step/pipeline.h"
#include "src/step/record_ring.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::reload {
namespace {

// Two rings share the memory, as an old and a new plan have them at a swap, with incomplete frames and frames that wait
// for a sink.
constexpr uint64_t kQueueShares = 4;

std::string NamesOf(const std::vector<OutputFormat>& formats) {
  std::string names;
  for (size_t i = 0; i < formats.size(); ++i) {
    if (i > 0) names += i + 1 < formats.size() ? ", " : " and ";
    names += std::string("\"") + kOutputFormats[static_cast<size_t>(formats[i])].name + "\"";
  }
  return names;
}

Status Refusal(std::string message, const char* key = "") {
  return Status(StatusCode::kExhausted, std::move(message), {key, 0, 0});
}

}  // namespace

void BoundQueues(Options* options) {
  if (options->limits.queue_bytes_max == 0) return;
  const auto share = static_cast<size_t>(options->limits.queue_bytes_max / kQueueShares);
  options->ring_bytes_max = std::min(options->ring_bytes_max, share);
  options->backlog_bytes_max = std::min(options->backlog_bytes_max, share);
}

bool PlanLimits::WritesFiles(const plan::Plan& plan) {
  return plan.rank_writes && plan.layout.format != OutputFormat::kApi;
}

uint64_t PlanLimits::QueueBytesNeeded(const plan::Plan& plan, int micro_batches) {
  const uint64_t of_ring = step::RingBytesNeeded(plan, micro_batches);
  const uint64_t of_frame = plan.RecordsPerStep(micro_batches) * sizeof(Record);
  return kQueueShares * std::max(of_ring, of_frame);
}

Status PlanLimits::Check(const plan::Plan& plan) const {
  for (const auto check :
       {&PlanLimits::CheckFormat, &PlanLimits::CheckDisk, &PlanLimits::CheckRows, &PlanLimits::CheckQueue})
    if (Status refusal = (this->*check)(plan); !refusal.ok()) return refusal;
  return Status();
}

Status PlanLimits::CheckFormat(const plan::Plan& plan) const {
  if (!limits_.formats) return Status();
  const std::vector<OutputFormat>& allowed = *limits_.formats;
  if (std::find(allowed.begin(), allowed.end(), plan.layout.format) != allowed.end()) return Status();
  return Refusal(
      std::string("\"") + kOutputFormats[static_cast<size_t>(plan.layout.format)].name +
          "\" is not among the formats that the limits of this run allow (STEPWATCH_FORMATS): " + NamesOf(allowed),
      "format");
}

Status PlanLimits::CheckDisk(const plan::Plan& plan) const {
  if (storage_ == nullptr || !WritesFiles(plan)) return Status();
  if (!storage_->refusal().ok())
    return Refusal(storage_->refusal().message() +
                   " (STEPWATCH_OUTPUT_ROOT); put the output below the root and start the job again");
  if (storage_->meter() == nullptr || storage_->meter()->level() != base::DiskMeter::Level::kUsedUp) return Status();
  return Refusal(DiskText() + ": it writes no more rows until it is started again; the format \"api\" needs no disk");
}

std::string PlanLimits::DiskText() const {
  const base::DiskMeter& meter = *storage_->meter();
  return "this run has written " + base::ByteCountText(meter.used()) + " of the allowed " +
         base::ByteCountText(meter.bytes_max()) + " (STEPWATCH_BYTES_MAX)";
}

Status PlanLimits::CheckRows(const plan::Plan& plan) const {
  if (limits_.rows_per_step_max <= 0) return Status();
  const uint64_t rows = plan.RowsPerStep(micro_batches_);
  if (rows <= static_cast<uint64_t>(limits_.rows_per_step_max)) return Status();
  return Refusal("a collected step would have " + std::to_string(rows) + " rows, and the limits of this run allow " +
                 std::to_string(limits_.rows_per_step_max) +
                 " (STEPWATCH_ROWS_PER_STEP_MAX); select fewer modules, parameters or kinds");
}

Status PlanLimits::CheckQueue(const plan::Plan& plan) const {
  if (limits_.queue_bytes_max == 0) return Status();
  const uint64_t needed = QueueBytesNeeded(plan, micro_batches_);
  if (needed <= limits_.queue_bytes_max) return Status();
  return Refusal("the rows on their way to the files need " + base::ByteCountText(needed) +
                 " of memory, and the limits of this run allow " + base::ByteCountText(limits_.queue_bytes_max) +
                 " (STEPWATCH_QUEUE_BYTES_MAX); select fewer modules, parameters or kinds");
}

}  // namespace stepwatch::reload
