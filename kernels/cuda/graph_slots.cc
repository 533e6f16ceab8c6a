#include "kernels/cuda/graph_slots.h"

#include <algorithm>
#include <atomic>

#include "kernels/cuda/answers.h"
#include "kernels/cuda/packer.h"

namespace stepwatch::kernels::cuda {

Result<std::unique_ptr<GraphSlots>> GraphSlots::Create(Driver* driver, const GraphSlotsOptions& options) {
  if (options.depth < 3 || options.slots == 0)
    return Status(StatusCode::kInvalid, "graph slots need at least one slot and a depth of at least 3");
  std::unique_ptr<GraphSlots> slots(new GraphSlots(driver, options));
  if (!slots->Allocate())
    return Status(StatusCode::kExhausted, "the CUDA device has no room for the results of captured graphs");
  return slots;
}

GraphSlots::GraphSlots(Driver* driver, const GraphSlotsOptions& options)
    : driver_(driver), options_(options), notes_(options.slots) {}

bool GraphSlots::Allocate() {
  results_ = driver_->AllocateMapped(sizeof(ResultSlot) * options_.slots * options_.depth);
  words_ = driver_->AllocateMapped(2 * sizeof(uint32_t));
  enabled_ = static_cast<uint32_t*>(driver_->AllocateDevice(sizeof(uint32_t)));
  step_ = static_cast<uint64_t*>(driver_->AllocateDevice(sizeof(uint64_t)));
  scratch_ = static_cast<char*>(driver_->AllocateDevice(options_.scratch_bytes));
  if (results_.host == nullptr || words_.host == nullptr || enabled_ == nullptr || step_ == nullptr ||
      scratch_ == nullptr)
    return false;
  static_cast<uint32_t*>(words_.host)[1] = 1;
  return true;
}

// Never given back: a graph may be replayed at any time. Fresh counters are zero.
bool GraphSlots::LendScratch(uint32_t tiles, uint32_t groups, Launch* launch) {
  const size_t partials = sizeof(Partial) * (tiles + groups);
  const size_t bytes = (partials + sizeof(uint32_t) * groups + 15) / 16 * 16;
  if (bytes > options_.scratch_bytes - scratch_used_) return false;
  char* memory = scratch_ + scratch_used_;
  scratch_used_ += bytes;
  launch->tile_partials = reinterpret_cast<Partial*>(memory);
  launch->group_partials = launch->tile_partials + tiles;
  launch->counters = reinterpret_cast<uint32_t*>(memory + partials);
  return true;
}

StatusCode GraphSlots::Capture(uint32_t slot, const TensorView& tensor, const MeasureOptions& options) {
  if (slot >= options_.slots || notes_[slot].dtype != DType::kOther) return StatusCode::kInvalid;
  if (tensor.device.kind != DeviceKind::kCuda || tensor.device.index != options_.device ||
      ElementSize(tensor.dtype) == 0)
    return StatusCode::kUnsupported;
  TensorView data = tensor;
  data.device = Device{};  // the layout of the data, whatever the device
  Layout layout;
  if (const StatusCode code = CanonicalLayout(data, &layout).code(); code != StatusCode::kOk) return code;
  if (layout.count == 0) return StatusCode::kUnsupported;
  Launch launch{};
  Packer packer(launch.inline_entries, kInlineEntries, launch.inline_shapes, kInlineShapes);
  const KernelId kernel = KernelFor(tensor.dtype, driver_->slow_fp64());
  if (!Packer::CanHold(layout, tensor.dtype) || !packer.Add(layout, tensor.dtype, kernel, slot))
    return StatusCode::kUnsupported;
  const Segment& segment = *packer.begin();
  if (packer.end() - packer.begin() != 1) return StatusCode::kUnsupported;  // larger than one launch
  if (segment.group_count > 0 && !LendScratch(segment.tile_count, segment.group_count, &launch))
    return StatusCode::kExhausted;
  launch.entry_count = segment.entry_count;
  launch.tile_count = segment.tile_count;
  launch.zero = ZeroRuleFor(tensor.dtype, options);
  launch.results = static_cast<ResultSlot*>(results_.device);
  launch.step = step_;
  launch.enabled = enabled_;
  launch.depth = options_.depth;
  launch.row_results = options_.slots;
  if (!driver_->Run(kernel, launch, GridFor(*driver_, segment.tile_count), tensor.stream))
    return StatusCode::kUnavailable;
  notes_[slot] = Note{layout.count, layout.repeat, tensor.dtype};
  return StatusCode::kOk;
}

StatusCode GraphSlots::Flush(Stream stream) {
  return driver_->Advance(step_, stream) ? StatusCode::kOk : StatusCode::kUnavailable;
}

StatusCode GraphSlots::Enable(bool enabled, Stream stream) {
  const uint32_t* word = static_cast<const uint32_t*>(words_.host) + (enabled ? 1 : 0);
  return driver_->Upload(enabled_, word, sizeof *word, stream) ? StatusCode::kOk : StatusCode::kUnavailable;
}

bool GraphSlots::Read(uint32_t slot, uint64_t step, Statistics* statistics) const {
  if (slot >= options_.slots || notes_[slot].dtype == DType::kOther) return false;
  auto* results = static_cast<ResultSlot*>(results_.host);
  ResultSlot& result = results[step % options_.depth * options_.slots + slot];
  // The device withdraws the sequence number before it writes: unchanged around the copy, the copy is whole.
  std::atomic_ref sequence(result.sequence);
  if (sequence.load(std::memory_order_acquire) != step + 1) return false;
  const volatile Partial& source = result.totals;
  const Partial totals = {source.sum,   source.sum_of_squares, source.low, source.high,
                          source.zeros, source.nans,           source.infs};
  std::atomic_thread_fence(std::memory_order_acquire);
  if (sequence.load(std::memory_order_relaxed) != step + 1) return false;
  const Note& note = notes_[slot];
  Layout layout;
  layout.count = note.count;
  layout.repeat = note.repeat;
  *statistics = Finish(TotalsOf(totals, note.dtype), layout, note.dtype);
  return true;
}

}  // namespace stepwatch::kernels::cuda
