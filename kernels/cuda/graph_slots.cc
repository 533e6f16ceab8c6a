#include "kernels/cuda/graph_slots.h"

#include <algorithm>

namespace stepwatch::kernels::cuda {
namespace {

template <class T>
T LoadRelaxed(T* from) {
  return std::atomic_ref(*from).load(std::memory_order_relaxed);
}

// Copies word by word, because the device may be writing; the caller detects a torn copy.
Partial CopyOf(Partial* totals) {
  return {LoadRelaxed(&totals->sum),  LoadRelaxed(&totals->sum_of_squares), LoadRelaxed(&totals->low),
          LoadRelaxed(&totals->high), LoadRelaxed(&totals->zeros),          LoadRelaxed(&totals->nans),
          LoadRelaxed(&totals->infs)};
}

}  // namespace

Result<std::unique_ptr<GraphSlots>> GraphSlots::Create(Driver* driver, const GraphSlotsOptions& options) {
  if (options.depth < 3 || options.slots == 0)
    return Status(StatusCode::kInvalid, "graph slots need at least one slot and a depth of at least 3");
  std::unique_ptr<GraphSlots> slots(new GraphSlots(driver, options));
  if (!slots->Allocate())
    return Status(StatusCode::kExhausted, "the CUDA device has no memory left for the results of captured graphs");
  return slots;
}

GraphSlots::GraphSlots(Driver* driver, const GraphSlotsOptions& options)
    : driver_(driver), options_(options), notes_(options.slots) {}

bool GraphSlots::Allocate() {
  results_ = driver_->AllocateMapped(sizeof(ResultSlot) * options_.slots * options_.depth);
  done_ = driver_->AllocateMapped(sizeof(uint64_t));
  words_ = driver_->AllocateMapped(2 * sizeof(uint32_t));
  off_ = static_cast<uint32_t*>(driver_->AllocateDevice(sizeof(uint32_t)));
  step_ = static_cast<uint64_t*>(driver_->AllocateDevice(sizeof(uint64_t)));
  scratch_ = static_cast<char*>(driver_->AllocateDevice(options_.scratch_bytes));
  if (results_.host == nullptr || done_.host == nullptr || words_.host == nullptr || off_ == nullptr ||
      step_ == nullptr || scratch_ == nullptr)
    return false;
  static_cast<uint32_t*>(words_.host)[1] = 1;
  return true;
}

// Scratch is never returned. Fresh counters are zero.
bool GraphSlots::LendScratch(uint32_t tiles, uint32_t groups, Launch* launch) noexcept {
  const size_t partials = sizeof(Partial) * (size_t{tiles} + groups);
  const size_t bytes = (partials + sizeof(uint32_t) * groups + 15) / 16 * 16;
  if (bytes > options_.scratch_bytes - scratch_used_) return false;
  char* memory = scratch_ + scratch_used_;
  scratch_used_ += bytes;
  launch->tile_partials = reinterpret_cast<Partial*>(memory);
  launch->group_partials = launch->tile_partials + tiles;
  launch->counters = reinterpret_cast<uint32_t*>(memory + partials);
  return true;
}

// Uses up a slot even if its launch then fails.
bool GraphSlots::TakeSlot(const Note& note, DeviceItem* item) noexcept {
  if (slots_used_ == options_.slots) {
    item->code = StatusCode::kExhausted;
    return false;
  }
  notes_[slots_used_] = note;
  item->ticket = slots_used_++;
  item->code = StatusCode::kOk;
  return true;
}

// Stands in for an empty tensor: a replay is detected only by a result that it writes.
GraphSlots::Source GraphSlots::Witness() const noexcept {
  Source source;
  source.dtype = DType::kInt8;
  source.layout.data = reinterpret_cast<const std::byte*>(step_);
  source.layout.count = source.layout.sizes[0] = source.layout.strides[0] = 1;
  return source;
}

StatusCode GraphSlots::SourceOf(const TensorView& tensor, Source* source) const noexcept {
  if (tensor.device.kind != DeviceKind::kCuda || tensor.device.index != options_.device ||
      ElementSize(tensor.dtype) == 0)
    return StatusCode::kUnsupported;
  TensorView data = tensor;
  data.device = Device{};  // layout of the data, independent of the device
  source->dtype = tensor.dtype;
  if (const StatusCode code = CanonicalLayout(data, &source->layout).code(); code != StatusCode::kOk) return code;
  const int64_t one_launch = int64_t{kTilesMax} * (kTileBytes / ElementSize(tensor.dtype));
  return source->layout.count <= one_launch ? StatusCode::kOk : StatusCode::kUnsupported;
}

// Launches the tensors in groups that fit into the launch argument, one kernel after the other.
void GraphSlots::Capture(DeviceItem* items, size_t count, const MeasureOptions& options, Stream stream) noexcept {
  driver_->KeepMemory();
  Packer packer(launch_.inline_entries, kInlineEntries, launch_.inline_shapes, kInlineShapes);
  for (int kernel = 0; kernel < kKernelCount; ++kernel) {
    for (size_t i = 0; i < count; ++i) {
      DeviceItem& item = items[i];
      if (KernelFor(item.tensor.dtype, driver_->slow_fp64()) != static_cast<KernelId>(kernel)) continue;
      item.captured = true;
      Source source;
      item.code = SourceOf(item.tensor, &source);
      if (item.code != StatusCode::kOk || !TakeSlot(NoteOf(source.layout, source.dtype), &item)) continue;
      Pack(&packer, source.layout.count == 0 ? Witness() : source, &item, items, count, options, stream);
    }
    RunAll(packer, items, count, options, stream);
    packer.Clear();
  }
}

void GraphSlots::Pack(Packer* packer, const Source& source, DeviceItem* item, DeviceItem* items, size_t count,
                      const MeasureOptions& options, Stream stream) noexcept {
  const KernelId kernel = KernelFor(source.dtype, driver_->slow_fp64());
  const auto slot = static_cast<uint32_t>(item->ticket);
  if (packer->Add(source.layout, source.dtype, kernel, slot)) return;
  RunAll(*packer, items, count, options, stream);
  packer->Clear();
  if (!packer->Add(source.layout, source.dtype, kernel, slot)) item->code = StatusCode::kUnsupported;
}

void GraphSlots::RunAll(const Packer& packer, DeviceItem* items, size_t count, const MeasureOptions& options,
                        Stream stream) noexcept {
  for (const Segment& segment : packer) {
    const StatusCode code = Run(segment, options, stream);
    if (code == StatusCode::kOk) continue;
    const Entry* first = launch_.inline_entries + segment.first_entry;
    for (const Entry* entry = first; entry != first + segment.entry_count; ++entry)
      for (size_t i = 0; i < count; ++i)
        if (items[i].captured && items[i].code == StatusCode::kOk && items[i].ticket == entry->result)
          items[i].code = code;
  }
}

StatusCode GraphSlots::Run(const Segment& segment, const MeasureOptions& options, Stream stream) noexcept {
  launch_.entries = nullptr;
  launch_.shapes = nullptr;
  if (segment.group_count > 0 && !LendScratch(segment.tile_count, segment.group_count, &launch_))
    return StatusCode::kExhausted;
  launch_.first_entry = segment.first_entry;
  launch_.entry_count = segment.entry_count;
  launch_.tile_count = segment.tile_count;
  launch_.zero = ZeroRuleFor(segment.dtype, options);
  launch_.results = static_cast<ResultSlot*>(results_.device);
  launch_.step = step_;
  launch_.off = off_;
  launch_.depth = options_.depth;
  launch_.row_results = options_.slots;
  const uint32_t grid = GridFor(*driver_, segment.tile_count);
  return driver_->Run(segment.kernel, launch_, grid, stream) ? StatusCode::kOk : StatusCode::kUnavailable;
}

void GraphSlots::CaptureAgreement(const Pair& pair, Stream stream, DeviceItem* item) noexcept {
  driver_->KeepMemory();
  item->captured = true;
  if (!TakeSlot(Note{pair.a.numel, pair.alike ? 1 : 0, pair.a.dtype, true}, item)) return;
  const auto slot = static_cast<uint32_t>(item->ticket);
  if (pair.anything_to_read()) {
    const std::optional<Segment> segment = DescribePair(pair, slot, &launch_);
    item->code = segment ? Run(*segment, MeasureOptions{}, stream) : StatusCode::kUnsupported;
    return;
  }
  const Source witness = Witness();
  Packer packer(launch_.inline_entries, kInlineEntries, launch_.inline_shapes, kInlineShapes);
  packer.Add(witness.layout, witness.dtype, KernelFor(witness.dtype, driver_->slow_fp64()), slot);
  item->code = Run(*packer.begin(), MeasureOptions{}, stream);
}

StatusCode GraphSlots::EndStep(Stream stream, uint64_t* ended) noexcept {
  if (driver_->CaptureStateOf(stream) != Capturing::kNo) return StatusCode::kUnsupported;
  if (!driver_->Advance(step_, static_cast<uint64_t*>(done_.device), stream)) return StatusCode::kUnavailable;
  *ended = steps_ended_++;
  return StatusCode::kOk;
}

StatusCode GraphSlots::Switch(bool on, Stream stream) noexcept {
  if (driver_->CaptureStateOf(stream) != Capturing::kNo) return StatusCode::kUnsupported;
  const uint32_t* word = static_cast<const uint32_t*>(words_.host) + (on ? 0 : 1);
  return driver_->Upload(off_, word, sizeof *word, stream) ? StatusCode::kOk : StatusCode::kUnavailable;
}

GraphAnswer GraphSlots::Read(uint32_t slot, uint64_t step, Statistics* statistics) const noexcept {
  const std::atomic_ref done(*static_cast<uint64_t*>(done_.host));
  if (done.load(std::memory_order_acquire) <= step) return GraphAnswer::kNotYet;
  ResultSlot& result = static_cast<ResultSlot*>(results_.host)[step % options_.depth * options_.slots + slot];
  // The device withdraws the sequence number before it writes: unchanged around the copy, the copy is whole.
  const std::atomic_ref sequence(result.sequence);
  const uint64_t before = sequence.load(std::memory_order_acquire);
  if (before == step + 1) {
    const Partial totals = CopyOf(&result.totals);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (sequence.load(std::memory_order_relaxed) != step + 1) return GraphAnswer::kLost;
    const Note& note = notes_[slot];
    *statistics = StatisticsOf(note, note.count == 0 ? EmptyTotals() : totals);
    return GraphAnswer::kThere;
  }
  // Zero: no result was ever written, or one is being overwritten, which cannot have begun before the step that has the
  // same row.
  const bool overwritten =
      before > step || (before == 0 && done.load(std::memory_order_acquire) >= step + options_.depth);
  return overwritten ? GraphAnswer::kLost : GraphAnswer::kNone;
}

}  // namespace stepwatch::kernels::cuda
