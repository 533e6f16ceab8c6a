#include "src/step/pipeline.h"

#include <algorithm>

namespace stepwatch::step {
namespace {

// Number of steps whose rows may wait for the drain, and room for modules that are called more than once in a
// micro-batch.
constexpr uint64_t kStepsInRing = 2;
constexpr uint64_t kRecordsMin = 1024;
// Tensors measured at once, in one launch if they are in device memory.
constexpr size_t kBatchMax = 1024;

size_t RingRecords(const plan::Plan& plan, int micro_batches, size_t ring_bytes_max) {
  const uint64_t records = plan.RecordsPerStep(micro_batches);
  const uint64_t affordable = RecordRing::RecordsIn(ring_bytes_max / RecordRing::EntryBytes());
  const uint64_t wanted = records == 0 ? 64 : std::max(kRecordsMin, kStepsInRing * records);
  return static_cast<size_t>(std::min(wanted, affordable));
}

}  // namespace

size_t Pipeline::BatchCapacity(const plan::Plan& plan) {
  return std::clamp<size_t>(plan.layout.sites.size(), 1, kBatchMax);
}

size_t Pipeline::PlacesForParameters(const plan::Plan& plan, size_t ring_records) {
  const auto is_of_parameter = [](const PlannedSite& site) { return OwnerOf(site.kind) == SiteOwner::kParameter; };
  const auto count = std::count_if(plan.layout.sites.begin(), plan.layout.sites.end(), is_of_parameter);
  return std::min(static_cast<size_t>(count), ring_records / 2);
}

FrontEndRequests Pipeline::RequestsAfterPause(const plan::Plan& plan) {
  FrontEndRequests requests = plan.requests;
  requests.structure = requests.exit_after_structure = requests.stacks = requests.communication_log_only = false;
  requests.module_names.clear();
  return requests;
}

void Pipeline::CountUnmeasured(StatusCode code) noexcept {
  produced.fetch_add(1, std::memory_order_relaxed);
  auto& dropped = code == StatusCode::kExhausted ? dropped_ring_full : dropped_unsupported;
  dropped.fetch_add(1, std::memory_order_relaxed);
}

uint64_t RingBytesNeeded(const plan::Plan& plan, int micro_batches) {
  return RecordRing::CapacityFor(kStepsInRing * plan.RecordsPerStep(micro_batches)) * RecordRing::EntryBytes();
}

uint64_t RingBytes(const plan::Plan& plan, int micro_batches, size_t ring_bytes_max) {
  return RecordRing::CapacityFor(RingRecords(plan, micro_batches, ring_bytes_max)) * RecordRing::EntryBytes();
}

std::shared_ptr<Pipeline> MakePipeline(std::shared_ptr<const plan::Plan> plan, int micro_batches,
                                       size_t ring_bytes_max) {
  const size_t records = RingRecords(*plan, micro_batches, ring_bytes_max);
  return std::make_shared<Pipeline>(std::move(plan), records);
}

}  // namespace stepwatch::step
