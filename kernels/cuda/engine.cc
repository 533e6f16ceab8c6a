#include "kernels/cuda/engine.h"

#include <algorithm>
#include <bit>

#include "kernels/cuda/answers.h"

namespace stepwatch::kernels::cuda {
namespace {

constexpr size_t kTables = 8;  // weights, gradients and two moments, twice

size_t SlotsFor(size_t wanted) {
  return std::bit_ceil(std::clamp<size_t>(wanted, 2, size_t{1} << 24));
}

uint32_t GraphSlotsFor(const DeviceEngineOptions& options) {
  return static_cast<uint32_t>(std::min<size_t>(options.graph_slots, size_t{1} << 20));
}

size_t MegabytesFor(const DeviceEngineOptions& options) {
  return 50 + (GraphSlotsFor(options) * kGraphScratchPerSlot >> 20);
}

}  // namespace

Result<std::unique_ptr<DeviceEngine>> Engine::Create(std::unique_ptr<Driver> driver, const DeviceEngineOptions& options,
                                                     uint64_t first_ticket) {
  const Mapped results = driver->AllocateMapped(SlotsFor(options.slots) * sizeof(ResultSlot));
  if (results.host != nullptr) {
    std::unique_ptr<Engine> engine(new Engine(std::move(driver), options, results, first_ticket));
    if (engine->Allocate()) return std::unique_ptr<DeviceEngine>(std::move(engine));
  }
  return Status(StatusCode::kExhausted, "the CUDA device has no memory left for the monitor's buffers (about " +
                                            std::to_string(MegabytesFor(options)) + " MB, and pinned host memory for " +
                                            std::to_string(SlotsFor(options.slots)) + " results and " +
                                            std::to_string(options.graph_slots) +
                                            " captured ones); CUDA tensors are not measured");
}

Engine::Engine(std::unique_ptr<Driver> driver, const DeviceEngineOptions& options, Mapped results,
               uint64_t first_ticket)
    : driver_(std::move(driver)),
      options_(options),
      device_results_(static_cast<ResultSlot*>(results.device)),
      ring_(static_cast<ResultSlot*>(results.host), SlotsFor(options.slots), first_ticket),
      notes_(SlotsFor(options.slots)) {}

bool Engine::Allocate() {
  const base::MutexLock lock(&mutex_);  // satisfies the thread-safety analysis: the engine is not shared yet
  for (size_t i = 0; i < kTables; ++i) {
    tables_.push_back(std::make_unique<BatchTable>());
    if (!BatchTable::Allocate(driver_.get(), tables_.back().get())) return false;
  }
  if (!scratch_.Allocate(driver_.get())) return false;
  const uint32_t graph_slots = GraphSlotsFor(options_);
  if (graph_slots == 0) return true;
  // Created now, because allocation is forbidden during a graph capture.
  auto graphs = GraphSlots::Create(
      driver_.get(), {options_.device, graph_slots, options_.graph_depth, graph_slots * kGraphScratchPerSlot});
  if (graphs.ok()) graphs_ = std::move(graphs).value();
  return graphs_ != nullptr;
}

StatusCode Engine::Prepare(const TensorView& tensor, Layout* layout) const noexcept {
  if (tensor.device.kind != DeviceKind::kCuda || tensor.device.index != options_.device ||
      ElementSize(tensor.dtype) == 0)
    return StatusCode::kUnsupported;
  const StatusCode code = CanonicalLayout(OnCpu(tensor), layout).code();
  if (code != StatusCode::kOk) return code;
  return Packer::CanHold(*layout, tensor.dtype) ? code : StatusCode::kUnsupported;
}

// Splits the items into runs of one stream, at most a table each.
void Engine::Enqueue(DeviceItem* items, size_t count, const MeasureOptions& options) noexcept {
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    const size_t limit = std::min(count, begin + std::min(BatchTable::kEntriesMax, ring_.slots()));
    while (end < limit && items[end].tensor.stream == items[begin].tensor.stream) ++end;
    EnqueueRun(items + begin, end - begin, options);
  }
}

void Engine::EnqueueRun(DeviceItem* items, size_t count, const MeasureOptions& options) noexcept {
  const base::MutexLock lock(&mutex_);
  const Stream producer = items->tensor.stream;
  if (CapturedOrRefused(items, count, options, producer, nullptr)) return;
  const TicketRing::Range tickets = ring_.Reserve(count);
  for (size_t i = 0; i < count; ++i) {
    items[i].code = i < tickets.count ? StatusCode::kOk : StatusCode::kExhausted;
    items[i].ticket = tickets.first + i;
  }
  if (tickets.count == 0) return;
  const Stream stream = options_.side_stream ? driver_->side_stream() : producer;
  if (options_.side_stream && !driver_->Order(producer, stream)) {
    for (size_t i = 0; i < tickets.count; ++i) Refuse(tickets.first + i, StatusCode::kUnavailable, &items[i]);
    return;
  }
  const size_t timed = clock_.Begin(driver_.get(), items, tickets.count, stream);
  BatchTable* table = nullptr;
  if (tickets.count == count && count > kInlineEntries) table = TableFor(items, count, stream);
  if (table != nullptr)
    MeasureTable(table, items, tickets, options, stream);
  else
    MeasureInline(items, tickets, options, stream);
  clock_.End(driver_.get(), timed, stream);
  if (options_.side_stream) driver_->Order(stream, producer);
}

// Replays would overwrite a captured ticket, so captures use graph slots. A graph does not need the side stream: the
// graph orders its launches.
bool Engine::CapturedOrRefused(DeviceItem* items, size_t count, const MeasureOptions& options, Stream stream,
                               const Pair* pair) noexcept {
  const Capturing capturing = driver_->CaptureStateOf(stream);
  for (size_t i = 0; i < count; ++i) items[i].captured = capturing == Capturing::kYes;
  if (capturing == Capturing::kNo) return false;
  if (capturing == Capturing::kYes && graphs_ != nullptr) {
    if (pair != nullptr)
      graphs_->CaptureAgreement(*pair, stream, items);
    else
      graphs_->Capture(items, count, options, stream);
    return true;
  }
  const StatusCode code = capturing == Capturing::kYes ? StatusCode::kExhausted : StatusCode::kUnavailable;
  for (size_t i = 0; i < count; ++i) items[i].code = code;
  return true;
}

bool Engine::IsCapturing(void* stream) noexcept {
  return driver_->CaptureStateOf(stream) == Capturing::kYes;
}

size_t Engine::graph_slots() const noexcept {
  return graphs_ == nullptr ? 0 : graphs_->slots();
}

StatusCode Engine::EndGraphStep(void* stream, uint64_t* ended) noexcept {
  const base::MutexLock lock(&mutex_);
  return graphs_ == nullptr ? StatusCode::kUnsupported : graphs_->EndStep(stream, ended);
}

StatusCode Engine::SwitchGraphs(void* stream, bool on) noexcept {
  const base::MutexLock lock(&mutex_);
  return graphs_ == nullptr ? StatusCode::kUnsupported : graphs_->Switch(on, stream);
}

GraphAnswer Engine::HarvestGraph(uint32_t slot, uint64_t step, Statistics* statistics) noexcept {
  return graphs_->Read(slot, step, statistics);
}

void Engine::NoteItem(uint64_t ticket, const Layout& layout, DType dtype, DeviceItem* item) noexcept {
  NoteFor(ticket) = NoteOf(layout, dtype);
  if (layout.count == 0) ring_.Answer(ticket, EmptyTotals());
  item->code = StatusCode::kOk;
}

void Engine::Refuse(uint64_t ticket, StatusCode code, DeviceItem* item) noexcept {
  item->code = code;
  ring_.Cancel(ticket);
}

bool Engine::RunSegment(const Segment& segment, const MeasureOptions& options, const TicketRing::Range& tickets,
                        Stream stream, Launch* launch) noexcept {
  if (segment.group_count > 0 && !scratch_.Lend(stream, ring_, tickets, launch)) return false;
  launch->first_entry = segment.first_entry;
  launch->entry_count = segment.entry_count;
  launch->tile_count = segment.tile_count;
  launch->zero = ZeroRuleFor(segment.dtype, options);
  launch->results = device_results_;
  launch->base_ticket = tickets.first;
  launch->result_mask = ring_.mask();
  return driver_->Run(segment.kernel, *launch, GridFor(*driver_, segment.tile_count), stream);
}

void Engine::RunSegments(const Packer& packer, const Entry* entries, DeviceItem* items,
                         const TicketRing::Range& tickets, const MeasureOptions& options, Stream stream) noexcept {
  for (const Segment& segment : packer) {
    if (RunSegment(segment, options, tickets, stream, &inline_launch_)) continue;
    for (uint32_t i = 0; i < segment.entry_count; ++i) {
      const Entry& entry = entries[segment.first_entry + i];
      if (entry.tile_offset > 0) scratch_.Retire(inline_launch_);
      if (items[entry.result].code == StatusCode::kOk)
        Refuse(tickets.first + entry.result, StatusCode::kUnavailable, &items[entry.result]);
    }
  }
}

// Launches the tensors in groups that fit into the launch argument, one kernel after the other.
void Engine::MeasureInline(DeviceItem* items, const TicketRing::Range& tickets, const MeasureOptions& options,
                           Stream stream) noexcept {
  Launch& launch = inline_launch_;
  Packer packer(launch.inline_entries, kInlineEntries, launch.inline_shapes, kInlineShapes);
  launch.entries = nullptr;
  launch.shapes = nullptr;
  const auto run = [&]() STEPWATCH_REQUIRES(mutex_) {
    RunSegments(packer, launch.inline_entries, items, tickets, options, stream);
    packer.Clear();
  };
  uint32_t kernels = 0;
  for (size_t i = 0; i < tickets.count; ++i) kernels |= KernelBit(items[i].tensor.dtype);
  for (; kernels != 0; kernels &= kernels - 1) {
    for (size_t i = 0; i < tickets.count; ++i) {
      if (KernelBit(items[i].tensor.dtype) != (kernels & -kernels)) continue;
      Layout layout;
      if (!PrepareItem(tickets.first + i, &items[i], &layout)) continue;
      const DType dtype = items[i].tensor.dtype;
      const KernelId kernel = KernelFor(dtype, driver_->slow_fp64());
      if (packer.Add(layout, dtype, kernel, static_cast<uint32_t>(i))) continue;
      run();
      if (!packer.Add(layout, dtype, kernel, static_cast<uint32_t>(i)))
        Refuse(tickets.first + i, StatusCode::kUnsupported, &items[i]);
    }
  }
  run();
}

uint32_t Engine::KernelBit(DType dtype) const noexcept {
  return 1u << static_cast<int>(KernelFor(dtype, driver_->slow_fp64()));
}

// Returns false if the item needs no launch.
bool Engine::PrepareItem(uint64_t ticket, DeviceItem* item, Layout* layout) noexcept {
  const StatusCode code = Prepare(item->tensor, layout);
  if (code != StatusCode::kOk) return Refuse(ticket, code, item), false;
  NoteItem(ticket, *layout, item->tensor.dtype, item);
  return layout->count > 0;
}

BatchTable* Engine::TableFor(const DeviceItem* items, size_t count, Stream stream) noexcept {
  BatchTable* oldest = nullptr;
  for (const auto& table : tables_) {
    // An upload on another stream may still be in flight.
    if (table->Holds(items, count) && (table->stream == stream || ring_.AllWritten(table->tickets))) {
      table->last_use = ++uses_;
      return table.get();
    }
    if (!ring_.AllWritten(table->tickets)) continue;
    if (oldest == nullptr || table->last_use < oldest->last_use) oldest = table.get();
  }
  if (oldest == nullptr || !FillTable(oldest, items, count) || !oldest->Upload(driver_.get(), stream)) {
    if (oldest != nullptr) oldest->count = 0;
    return nullptr;
  }
  oldest->last_use = ++uses_;
  return oldest;
}

bool Engine::FillTable(BatchTable* table, const DeviceItem* items, size_t count) noexcept {
  table->Begin(items, count);
  uint32_t kernels = 0;
  for (size_t i = 0; i < count; ++i) {
    BatchTable::Member& member = table->members[i];
    member.code = Prepare(member.view, &member.layout);
    kernels |= KernelBit(member.view.dtype);
  }
  for (; kernels != 0; kernels &= kernels - 1) {
    for (size_t i = 0; i < count; ++i) {
      const BatchTable::Member& member = table->members[i];
      const DType dtype = member.view.dtype;
      if (member.code != StatusCode::kOk || member.layout.count == 0 || KernelBit(dtype) != (kernels & -kernels))
        continue;
      const KernelId kernel = KernelFor(dtype, driver_->slow_fp64());
      if (!table->packer.Add(member.layout, dtype, kernel, static_cast<uint32_t>(i))) return false;
    }
  }
  return true;
}

void Engine::MeasureTable(BatchTable* table, DeviceItem* items, const TicketRing::Range& tickets,
                          const MeasureOptions& options, Stream stream) noexcept {
  table->tickets = tickets;
  for (size_t i = 0; i < tickets.count; ++i) {
    const BatchTable::Member& member = table->members[i];
    if (member.code == StatusCode::kOk)
      NoteItem(tickets.first + i, member.layout, member.view.dtype, &items[i]);
    else
      Refuse(tickets.first + i, member.code, &items[i]);
  }
  inline_launch_.entries = table->device_entries;
  inline_launch_.shapes = table->device_shapes;
  RunSegments(table->packer, table->entries, items, tickets, options, stream);
}

DeviceItem Engine::EnqueueAgreement(const TensorView& a, const TensorView& b, uint8_t account) noexcept {
  const base::MutexLock lock(&mutex_);
  DeviceItem item{a};
  item.account = account;
  Layout layout;
  Pair pair;
  item.code = Prepare(a, &layout);
  if (item.code == StatusCode::kOk) item.code = Prepare(b, &layout);
  if (item.code == StatusCode::kOk) item.code = MakePair(a, b, &pair);
  if (item.code != StatusCode::kOk || CapturedOrRefused(&item, 1, {}, a.stream, &pair)) return item;
  const TicketRing::Range tickets = ring_.Reserve(1);
  item.ticket = tickets.first;
  if (tickets.count == 0) {
    item.code = StatusCode::kExhausted;
    return item;
  }
  NoteFor(tickets.first) = Note{a.numel, pair.alike ? 1 : 0, a.dtype, true};
  if (!pair.anything_to_read())
    ring_.Answer(tickets.first, EmptyTotals());
  else if (!RunAgreement(pair, item, tickets))
    Refuse(tickets.first, StatusCode::kUnavailable, &item);
  return item;
}

bool Engine::RunAgreement(const Pair& pair, const DeviceItem& item, const TicketRing::Range& tickets) noexcept {
  const std::optional<Segment> segment = DescribePair(pair, 0, &inline_launch_);
  if (!segment) return false;
  const Stream producer = pair.a.stream, stream = options_.side_stream ? driver_->side_stream() : producer;
  if (options_.side_stream && !driver_->Order(producer, stream)) return false;
  const size_t timed = clock_.Begin(driver_.get(), &item, 1, stream);
  const bool queued = RunSegment(*segment, MeasureOptions{}, tickets, stream, &inline_launch_);
  clock_.End(driver_.get(), timed, stream);
  if (options_.side_stream) driver_->Order(stream, producer);
  return queued;
}

bool Engine::Harvest(uint64_t ticket, Statistics* statistics) noexcept {
  if (!ring_.IsReady(ticket)) return false;
  const Note note = NoteFor(ticket);  // copied before the slot can be reused
  Partial totals;
  ring_.Take(ticket, &totals);
  *statistics = StatisticsOf(note, totals);
  return true;
}

void Engine::Discard(uint64_t ticket) noexcept {
  ring_.Discard(ticket);
}

void Engine::TakeTimes(DeviceTimes* ns) noexcept {
  clock_.TakeTimes(driver_.get(), ns);
}

}  // namespace stepwatch::kernels::cuda
