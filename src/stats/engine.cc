#include "src/stats/engine.h"

#include <algorithm>
#include <utility>

#include "src/records/pending_result.h"
#include "src/records/record_values.h"

namespace stepwatch::stats {
namespace {

bool OnCpu(const TensorView& tensor) {
  return tensor.device.kind == DeviceKind::kCpu;
}

// Tensors of other dtypes need no kernel call, which would build an error text.
bool Known(const TensorView& tensor) {
  return tensor.dtype != DType::kOther;
}

// Placeholder in a batch for a tensor that is not measured.
TensorView Placeholder() {
  const int64_t none = 0;
  return DenseView(nullptr, DType::kFloat32, &none, 1);
}

bool SameDevice(const TensorView& a, const TensorView& b) {
  return a.device.kind == b.device.kind && a.device.index == b.device.index;
}

uint8_t AccountOf(const RecordLayout& layout, SiteId site) {
  return static_cast<uint8_t>(site < layout.sites.size() ? static_cast<size_t>(layout.sites[site].kind)
                                                         : Engine::kNoKind);
}

TensorView Scalar(const float* value) {
  return DenseView(value, DType::kFloat32, nullptr, 0);
}

}  // namespace

Engine::Engine(EngineOptions options)
    : parallel_for_(options.parallel_for), devices_(std::move(options.make_device_engine), options.device_results_max) {
  (void)kernels::MeasurePathName();  // detects the processor, and allocates, now rather than in the first observation
}

void Engine::SetLateResults(std::shared_ptr<LateResults> results) noexcept {
  late_results_ = std::move(results);
  devices_.OthersMeasure();
}

// A front end reports tensors of unknown dtype itself.
StatusCode Engine::Refuse(const TensorView& tensor, StatusCode code) noexcept {
  if (Known(tensor)) devices_.Note(tensor.device, code);
  return code;
}

StatusCode Engine::TakeMeasured(const RecordLayout& layout, const kernels::BatchItem& item, const TensorView& tensor,
                                Record* record) noexcept {
  if (!Known(tensor)) return StatusCode::kUnsupported;
  if (item.code != StatusCode::kOk) return Refuse(tensor, item.code);
  if (!records::Fits(layout, record->site)) return StatusCode::kInternal;
  records::Describe(tensor, record);
  records::FillValues(layout, item.statistics, record);
  return StatusCode::kOk;
}

StatusCode Engine::TakeTicket(const RecordLayout& layout, const kernels::DeviceItem& item, const TensorView& tensor,
                              Record* record) noexcept {
  if (item.code != StatusCode::kOk) return Refuse(item);
  if (!records::Fits(layout, record->site)) {
    if (!item.captured) devices_.Retire(tensor.device.index, item.ticket);
    return StatusCode::kInternal;
  }
  records::Describe(tensor, record);
  records::SetPendingResult({item.ticket, tensor.device.index, false, item.captured}, record);
  return StatusCode::kOk;
}

StatusCode Engine::Refuse(const kernels::DeviceItem& item) noexcept {
  if (!item.captured || item.code != StatusCode::kExhausted) return Refuse(item.tensor, item.code);
  devices_.NoteNoSlot(item.tensor.device.index);
  return StatusCode::kUnsupported;
}

// All items are on the device of the first.
void Engine::EnqueueOnDevice(kernels::DeviceItem* items, size_t count,
                             const kernels::MeasureOptions& options) noexcept {
  kernels::DeviceEngine* engine = devices_.Get(items[0].tensor.device);
  if (engine != nullptr) return engine->Enqueue(items, count, options);
  for (size_t i = 0; i < count; ++i) items[i].code = StatusCode::kUnsupported;
}

StatusCode Engine::Enqueue(const RecordLayout& layout, const kernels::MeasureOptions& options, const TensorView& tensor,
                           Record* record) noexcept {
  if (!Known(tensor)) return StatusCode::kUnsupported;
  if (OnCpu(tensor)) {
    kernels::BatchItem item;
    item.tensor = tensor;
    kernels::MeasureBatch(&item, 1, options, parallel_for_);
    return TakeMeasured(layout, item, tensor, record);
  }
  kernels::DeviceItem item;
  item.tensor = tensor;
  item.account = AccountOf(layout, record->site);
  EnqueueOnDevice(&item, 1, options);
  return TakeTicket(layout, item, tensor, record);
}

size_t Engine::EnqueueBatch(const RecordLayout& layout, const kernels::MeasureOptions& options, const Observation* at,
                            const TensorView* tensors, size_t count, BatchRoom* room) noexcept {
  const size_t most = std::min(count, room->capacity());
  size_t taken = 0;
  while (taken < most && SameDevice(tensors[taken], tensors[0])) ++taken;
  if (OnCpu(tensors[0])) {
    for (size_t i = 0; i < taken; ++i) room->cpu_[i].tensor = Known(tensors[i]) ? tensors[i] : Placeholder();
    kernels::MeasureBatch(room->cpu_.data(), taken, options, parallel_for_);
  } else {
    for (size_t i = 0; i < taken; ++i)
      room->device_[i] = {tensors[i], 0, StatusCode::kOk, false, AccountOf(layout, at[i].site)};
    EnqueueOnDevice(room->device_.data(), taken, options);
  }
  return taken;
}

StatusCode Engine::Take(const RecordLayout& layout, const BatchRoom& room, size_t i, const TensorView& tensor,
                        Record* record) noexcept {
  return OnCpu(tensor) ? TakeMeasured(layout, room.cpu_[i], tensor, record)
                       : TakeTicket(layout, room.device_[i], tensor, record);
}

StatusCode Engine::EnqueueAgreement(const RecordLayout& layout, const kernels::MeasureOptions& options,
                                    const TensorView& gradient, const TensorView& momentum, Record* record) noexcept {
  if (!Known(gradient) || !Known(momentum)) return StatusCode::kUnsupported;
  if (!records::Fits(layout, record->site)) return StatusCode::kInternal;
  if (!OnCpu(gradient) || !OnCpu(momentum)) return EnqueueAgreementOnDevice(layout, gradient, momentum, record);
  double agreement = 0;
  const StatusCode code = kernels::SignAgreement(gradient, momentum, &agreement).code();
  if (code != StatusCode::kOk) return Refuse(gradient, code);
  records::FillAgreement(layout, options, agreement, record);
  return StatusCode::kOk;
}

StatusCode Engine::EnqueueAgreementOnDevice(const RecordLayout& layout, const TensorView& gradient,
                                            const TensorView& momentum, Record* record) noexcept {
  if (!SameDevice(gradient, momentum)) return Refuse(gradient, StatusCode::kUnsupported);
  kernels::DeviceEngine* engine = devices_.Get(gradient.device);
  if (engine == nullptr) return StatusCode::kUnsupported;
  const kernels::DeviceItem item = engine->EnqueueAgreement(gradient, momentum, AccountOf(layout, record->site));
  if (item.code != StatusCode::kOk) return Refuse(item);
  records::Describe(Scalar(nullptr), record);
  records::SetPendingResult({item.ticket, gradient.device.index, true, item.captured}, record);
  return StatusCode::kOk;
}

StatusCode Engine::TakeLate(const RecordLayout& layout, const TensorView& tensor, const LateTicket& ticket,
                            Record* record) noexcept {
  if (late_results_ == nullptr) return StatusCode::kUnsupported;
  if (tensor.dtype == DType::kOther || !records::Fits(layout, record->site)) {
    DiscardLate(ticket.number);
    return tensor.dtype == DType::kOther ? StatusCode::kUnsupported : StatusCode::kInternal;
  }
  records::Describe(ticket.is_agreement ? Scalar(nullptr) : tensor, record);
  records::SetPendingResult({ticket.number, records::kFrontEnd, ticket.is_agreement, false}, record);
  return StatusCode::kOk;
}

void Engine::DiscardLate(uint64_t ticket) noexcept {
  if (late_results_ != nullptr) late_results_->Discard(ticket);
}

void Engine::Discard(const Record& record) noexcept {
  if (!record.pending()) return;
  const records::PendingResult claim = records::PendingResultOf(record);
  if (claim.device == records::kFrontEnd) return DiscardLate(claim.ticket);
  if (!claim.captured) devices_.Retire(claim.device, claim.ticket);
}

void Engine::Keep(const PlannedSite& site, const kernels::MeasureOptions& options, const Record& captured) noexcept {
  const records::PendingResult claim = records::PendingResultOf(captured);
  devices_.Keep(claim.device, claim.ticket,
                {device::KeyOf(site), captured.micro_step, captured.element, captured.call, captured.dtype,
                 captured.ndim, captured.dims, claim.agreement, options});
}

bool Engine::IsCapturing(const TensorView& tensor) noexcept {
  if (OnCpu(tensor)) return false;
  kernels::DeviceEngine* engine = devices_.Get(tensor.device);
  return engine != nullptr && engine->IsCapturing(tensor.stream);
}

bool Engine::Measures(Device device) noexcept {
  return device.kind == DeviceKind::kCpu || devices_.Get(device) != nullptr;
}

void Engine::Prepare(Device device) noexcept {
  if (device.kind != DeviceKind::kCpu) (void)devices_.Get(device);
}

bool Engine::Harvest(const RecordLayout& layout, const kernels::MeasureOptions& options, Record* record) noexcept {
  const records::PendingResult claim = records::PendingResultOf(*record);
  Statistics statistics;
  const bool is_there = claim.device == records::kFrontEnd
                            ? late_results_->Harvest(claim.ticket, &statistics)
                            : devices_.Made(claim.device)->Harvest(claim.ticket, &statistics);
  if (!is_there) return false;
  record->flags &= static_cast<uint8_t>(~Record::kPending);
  record->values = {};
  if (claim.agreement)
    records::FillAgreement(layout, options, statistics.mean, record);
  else
    records::FillValues(layout, statistics, record);
  return true;
}

}  // namespace stepwatch::stats
