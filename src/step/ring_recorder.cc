#include "src/step/ring_recorder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "src/records/pending_result.h"
#include "src/records/record_values.h"

namespace stepwatch::step {
namespace {

// Number of wake-ups of the drain while a device processes the maximum of pending results.
constexpr uint64_t kWakesPerRound = 8;

using Clock = std::chrono::steady_clock;

// Adds its lifetime to a plan's cost account, under one kind.
class BusyTime {
 public:
  BusyTime(Pipeline* pipeline, SiteId site)
      : pipeline_(pipeline), place_(CostPlace(*pipeline, site)), start_(Clock::now()) {}
  ~BusyTime() { pipeline_->cost.Add(place_, Clock::now() - start_); }
  BusyTime(const BusyTime&) = delete;
  BusyTime& operator=(const BusyTime&) = delete;

  // A site that this plan lacks is that of a late record of the previous plan.
  static size_t CostPlace(const Pipeline& pipeline, SiteId site) {
    const std::vector<PlannedSite>& sites = pipeline.plan->layout.sites;
    return site < sites.size() ? static_cast<size_t>(sites[site].kind) : kBoundaryCost;
  }

 private:
  Pipeline* const pipeline_;
  const size_t place_;
  const Clock::time_point start_;
};

// Fixed cost of measuring a tensor, in bytes that could be read in that time.
constexpr uint64_t kBytesOfCall = 4096;

uint64_t WeightOf(const TensorView& tensor) {
  if (tensor.device.kind != DeviceKind::kCpu) return kBytesOfCall;
  return kBytesOfCall + static_cast<uint64_t>(tensor.numel) * static_cast<uint64_t>(ElementSize(tensor.dtype));
}

// Splits the time of a batch among the kinds of its measured tensors, in proportion to their cost.
void AddBatchTime(Pipeline* pipeline, const RunningStep& running, const Observation* at, const TensorView* tensors,
                  size_t count, Clock::duration time) noexcept {
  std::array<uint64_t, kCostCount> weights{};
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!running.Collects(pipeline->plan->layout, at[i].site)) continue;
    const uint64_t weight = WeightOf(tensors[i]);
    weights[BusyTime::CostPlace(*pipeline, at[i].site)] += weight;
    total += weight;
  }
  if (total == 0) return pipeline->cost.Add(kBoundaryCost, time);
  const double each = std::chrono::duration<double, std::nano>(time).count() / static_cast<double>(total);
  for (size_t place = 0; place < weights.size(); ++place)
    if (weights[place] > 0)
      pipeline->cost.Add(place, std::chrono::nanoseconds(std::llround(each * static_cast<double>(weights[place]))));
}

size_t PlacesKept(const Pipeline& pipeline, SiteId site) {
  const bool is_of_parameter = OwnerOf(pipeline.plan->layout.sites[site].kind) == SiteOwner::kParameter;
  return is_of_parameter ? 0 : pipeline.kept_for_parameters;
}

}  // namespace

RingRecorder::RingRecorder(RunningStep* running, stats::Engine* engine, WakeUp* drain_wake_up, PulseWriter* pulse)
    : Recorder(&running->collecting(), &running->due_groups()),
      running_(running),
      engine_(engine),
      drain_wake_up_(drain_wake_up),
      pulse_(pulse),
      wake_after_results_(std::max<size_t>(1, engine->device_results_max() / kWakesPerRound)) {}

Pipeline* RingRecorder::PipelineFor(SiteId site) const noexcept {
  Pipeline* pipeline = running_->CollectingPipeline();
  return pipeline != nullptr && running_->Collects(pipeline->plan->layout, site) ? pipeline : nullptr;
}

void RingRecorder::FillKey(const Pipeline& pipeline, const Observation& at, Record* record) noexcept {
  record->step = running_->number();
  running_->NoteObserved();
  record->plan_id = pipeline.plan->layout.plan_id;
  record->site = at.site;
  record->micro_step = at.micro_step;
  record->element = at.element;
  record->call = at.call;
  record->flags = running_->record_flags();
}

bool RingRecorder::MeasureFor(Pipeline* pipeline, const Observation& at, const TensorView& tensor,
                              Record* record) noexcept {
  FillKey(*pipeline, at, record);
  const StatusCode code = engine_->Enqueue(pipeline->plan->layout, pipeline->measure, tensor, record);
  if (code != StatusCode::kOk) pipeline->CountUnmeasured(code);
  return code == StatusCode::kOk;
}

bool RingRecorder::Measure(const Observation& at, const TensorView& tensor, Record* record) noexcept {
  Pipeline* pipeline = PipelineFor(at.site);
  if (pipeline == nullptr) return false;
  const BusyTime busy(pipeline, at.site);
  return MeasureFor(pipeline, at, tensor, record);
}

void RingRecorder::SetLateResults(std::shared_ptr<LateResults> results) noexcept {
  engine_->SetLateResults(std::move(results));
}

ZerosRule RingRecorder::zeros_rule() const noexcept {
  const Pipeline* pipeline = running_->CollectingPipeline();
  return pipeline == nullptr ? ZerosRule() : ZerosRule{pipeline->measure.eps, pipeline->measure.eps_mode};
}

bool RingRecorder::MeasureLate(const Observation& at, const TensorView& tensor, const LateTicket& ticket,
                               Record* record) noexcept {
  Pipeline* pipeline = PipelineFor(at.site);
  if (pipeline == nullptr) {
    engine_->DiscardLate(ticket.number);
    return false;
  }
  pipeline->cost.Add(BusyTime::CostPlace(*pipeline, at.site), ticket.spent);
  FillKey(*pipeline, at, record);
  const StatusCode code = engine_->TakeLate(pipeline->plan->layout, tensor, ticket, record);
  if (code != StatusCode::kOk) pipeline->CountUnmeasured(code);
  return code == StatusCode::kOk;
}

void RingRecorder::AddTime(std::chrono::nanoseconds spent) noexcept {
  if (Pipeline* pipeline = running_->CollectingPipeline()) pipeline->cost.Add(kBoundaryCost, spent);
}

void RingRecorder::Enqueue(const Record& record) noexcept {
  Pipeline* pipeline = running_->CollectingPipeline();
  if (pipeline == nullptr) return Discard(record);
  Push(pipeline, record);
}

void RingRecorder::Push(Pipeline* pipeline, const Record& record) noexcept {
  const RecordLayout& layout = pipeline->plan->layout;
  const bool known = record.plan_id == layout.plan_id && record.site < layout.sites.size();
  if (known && records::IsCaptured(record)) {
    engine_->Keep(layout.sites[record.site], pipeline->measure, record);
    return;
  }
  pipeline->produced.fetch_add(1, std::memory_order_relaxed);
  // Otherwise it was measured for an earlier plan, or with a site ID of one.
  if (!known) {
    pipeline->dropped_late.fetch_add(1, std::memory_order_relaxed);
    Discard(record);
  } else if (!pipeline->ring.TryPush(record, PlacesKept(*pipeline, record.site))) {
    pipeline->dropped_ring_full.fetch_add(1, std::memory_order_relaxed);
    Discard(record);
  } else if (record.pending()) {
    WakeForResults();
  }
}

void RingRecorder::PushIfMeasured(Pipeline* pipeline, StatusCode code, const Record& record) noexcept {
  if (code == StatusCode::kOk)
    Push(pipeline, record);
  else
    pipeline->CountUnmeasured(code);
}

// The drain fetches results only while it is awake; a long step must not exhaust the result slots.
void RingRecorder::WakeForResults() noexcept {
  if ((results_requested_.fetch_add(1, std::memory_order_relaxed) + 1) % wake_after_results_ == 0)
    drain_wake_up_->Post();
}

void RingRecorder::ObserveBatch(const Observation* at, const TensorView* tensors, size_t count) noexcept {
  Pipeline* pipeline = running_->CollectingPipeline();
  if (pipeline == nullptr) return;
  const Clock::time_point start = Clock::now();
  MeasureBatch(pipeline, at, tensors, count);
  AddBatchTime(pipeline, *running_, at, tensors, count, Clock::now() - start);
}

void RingRecorder::MeasureBatch(Pipeline* pipeline, const Observation* at, const TensorView* tensors,
                                size_t count) noexcept {
  if (pipeline->batch_room_taken.test_and_set(std::memory_order_acquire)) {
    for (size_t i = 0; i < count; ++i) {
      Record record;
      if (!running_->Collects(pipeline->plan->layout, at[i].site)) continue;
      if (MeasureFor(pipeline, at[i], tensors[i], &record)) Push(pipeline, record);
    }
    return;
  }
  if (running_->due() == kAllGroups)
    ObserveWithRoom(pipeline, at, tensors, count);
  else
    ObserveDue(pipeline, at, tensors, count);
  pipeline->batch_room_taken.clear(std::memory_order_release);
}

void RingRecorder::ObserveWithRoom(Pipeline* pipeline, const Observation* at, const TensorView* tensors,
                                   size_t count) noexcept {
  const RecordLayout& layout = pipeline->plan->layout;
  stats::BatchRoom& room = pipeline->batch_room;
  while (count > 0) {
    const size_t taken = engine_->EnqueueBatch(layout, pipeline->measure, at, tensors, count, &room);
    for (size_t i = 0; i < taken; ++i) {
      Record record;
      FillKey(*pipeline, at[i], &record);
      PushIfMeasured(pipeline, engine_->Take(layout, room, i, tensors[i], &record), record);
    }
    at += taken;
    tensors += taken;
    count -= taken;
  }
}

// Gathers the tensors due in the step, as many at a time as fit into the buffer.
void RingRecorder::ObserveDue(Pipeline* pipeline, const Observation* at, const TensorView* tensors,
                              size_t count) noexcept {
  Pipeline::DueRoom& room = pipeline->due_room;
  size_t taken = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!running_->Collects(pipeline->plan->layout, at[i].site)) continue;
    room.at[taken] = at[i];
    room.tensors[taken] = tensors[i];
    if (++taken == room.at.size()) ObserveWithRoom(pipeline, room.at.data(), room.tensors.data(), taken);
    taken %= room.at.size();
  }
  if (taken > 0) ObserveWithRoom(pipeline, room.at.data(), room.tensors.data(), taken);
}

void RingRecorder::ObserveMissing(const Observation& at) noexcept {
  Pipeline* pipeline = PipelineFor(at.site);
  if (pipeline == nullptr) return;
  Record record;
  FillKey(*pipeline, at, &record);
  record.flags |= Record::kMissing;
  Push(pipeline, record);
}

void RingRecorder::ObserveValues(const Observation& at, const double* values, size_t count) noexcept {
  Pipeline* pipeline = PipelineFor(at.site);
  if (pipeline == nullptr) return;
  Record record;
  FillKey(*pipeline, at, &record);
  const RecordLayout& layout = pipeline->plan->layout;
  const bool known = at.site < layout.sites.size();
  if (known && !records::FillFeature(layout, layout.sites[at.site].kind, values, count, &record))
    return pipeline->CountUnmeasured(StatusCode::kUnsupported);
  Push(pipeline, record);
}

void RingRecorder::ObserveAgreement(const Observation& at, const TensorView& gradient,
                                    const TensorView& momentum) noexcept {
  Pipeline* pipeline = PipelineFor(at.site);
  if (pipeline == nullptr) return;
  const BusyTime busy(pipeline, at.site);
  Record record;
  FillKey(*pipeline, at, &record);
  const StatusCode code =
      engine_->EnqueueAgreement(pipeline->plan->layout, pipeline->measure, gradient, momentum, &record);
  PushIfMeasured(pipeline, code, record);
}

void RingRecorder::ObserveHeatmaps(std::vector<HeatmapColumn> columns) noexcept {
  Pipeline* pipeline = running_->CollectingPipeline();
  if (pipeline == nullptr) return;
  const std::vector<PlannedSite>& sites = pipeline->plan->layout.sites;
  std::erase_if(columns, [&](const HeatmapColumn& column) {
    return column.site >= sites.size() || !HasHeatmap(sites[column.site].kind);
  });
  if (columns.empty()) return;
  running_->NoteObserved();
  pipeline->heatmaps.Put({running_->number(), std::move(columns)});
}

}  // namespace stepwatch::step
