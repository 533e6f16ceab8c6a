#include "src/step/data_plane.h"

#include <algorithm>
#include <utility>

#include "src/records/pending_result.h"
#include "src/records/record_values.h"
#include "stepwatch/tag.h"

namespace stepwatch::step {
namespace {

// The drain is woken so often while a device works through all the results that may be under way.
constexpr uint64_t kWakesPerRound = 8;

const FrontEndRequests kNoOrders;

}  // namespace

DataPlane::DataPlane(int64_t first_step, stats::Engine* engine, WakeUp* drain_wake_up,
                     std::chrono::milliseconds decision_wait)
    : engine_(engine),
      wake_after_results_(std::max<size_t>(1, engine->device_results_max() / kWakesPerRound)),
      gate_(first_step, decision_wait),
      drain_wake_up_(drain_wake_up),
      step_(first_step) {}

DataPlane::~DataPlane() {
  boundaries_.fetch_add(2, std::memory_order_relaxed);
  Reclaim();
}

// The pipeline of the running step, if it is collected.
Pipeline* DataPlane::Collecting() noexcept {
  return guard_.flag().load(std::memory_order_relaxed) ? active_.load(std::memory_order_acquire) : nullptr;
}

// Something is seen in the running step.
void DataPlane::NoteObserved() noexcept {
  if (!in_step()) observed_step_.store(step(), std::memory_order_relaxed);
}

void DataPlane::FillKey(const Pipeline& pipeline, const Observation& at, Record* record) noexcept {
  record->step = step();
  NoteObserved();
  record->plan_id = pipeline.plan->layout.plan_id;
  record->site = at.site;
  record->micro_step = at.micro_step;
  record->element = at.element;
  record->call = at.call;
  record->flags = FlagsOfStep();
}

namespace {

// Adds its lifetime to a plan's account: two clock reads, some 50 ns, beside a measurement of a tensor.
class BusyTime {
 public:
  explicit BusyTime(Pipeline* pipeline) : pipeline_(pipeline), start_(std::chrono::steady_clock::now()) {}
  ~BusyTime() {
    const auto busy = std::chrono::steady_clock::now() - start_;
    pipeline_->busy_ns.fetch_add(
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(busy).count()),
        std::memory_order_relaxed);
  }
  BusyTime(const BusyTime&) = delete;
  BusyTime& operator=(const BusyTime&) = delete;

 private:
  Pipeline* const pipeline_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace

// Something was produced that is no record.
void DataPlane::CountUnmeasured(Pipeline* pipeline, StatusCode code) noexcept {
  pipeline->produced.fetch_add(1, std::memory_order_relaxed);
  auto& dropped = code == StatusCode::kExhausted ? pipeline->dropped_ring_full : pipeline->dropped_unsupported;
  dropped.fetch_add(1, std::memory_order_relaxed);
}

bool DataPlane::Measure(const Observation& at, const TensorView& tensor, Record* record) noexcept {
  Pipeline* pipeline = Collecting();
  if (pipeline == nullptr) return false;
  const BusyTime busy(pipeline);
  FillKey(*pipeline, at, record);
  const StatusCode code = engine_->Enqueue(pipeline->plan->layout, pipeline->measure, tensor, record);
  if (code != StatusCode::kOk) CountUnmeasured(pipeline, code);
  return code == StatusCode::kOk;
}

void DataPlane::Enqueue(const Record& record) noexcept {
  Pipeline* pipeline = Collecting();
  if (pipeline == nullptr) return Discard(record);
  Push(pipeline, record);
}

void DataPlane::Push(Pipeline* pipeline, const Record& record) noexcept {
  const RecordLayout& layout = pipeline->plan->layout;
  const bool known = record.plan_id == layout.plan_id && record.site < layout.sites.size();
  if (known && records::IsCaptured(record)) {
    engine_->Keep(layout.sites[record.site], pipeline->measure, record);
    return;
  }
  pipeline->produced.fetch_add(1, std::memory_order_relaxed);
  // Otherwise measured for an earlier plan, or with a site id of one.
  if (!known) {
    pipeline->dropped_late.fetch_add(1, std::memory_order_relaxed);
    Discard(record);
  } else if (!pipeline->ring.TryPush(record)) {
    pipeline->dropped_ring_full.fetch_add(1, std::memory_order_relaxed);
    Discard(record);
  } else if (record.pending()) {
    WakeForResults();
  }
}

// The drain fetches results only while it is awake; a long step must not run out of places for them.
void DataPlane::WakeForResults() noexcept {
  if ((results_asked_.fetch_add(1, std::memory_order_relaxed) + 1) % wake_after_results_ == 0) drain_wake_up_->Post();
}

void DataPlane::ObserveBatch(const Observation* at, const TensorView* tensors, size_t count) noexcept {
  Pipeline* pipeline = Collecting();
  if (pipeline == nullptr) return;
  const BusyTime busy(pipeline);
  if (pipeline->batch_room_taken.test_and_set(std::memory_order_acquire)) {
    for (size_t i = 0; i < count; ++i) ObserveOne(pipeline, at[i], tensors[i]);
    return;
  }
  ObserveWithRoom(pipeline, at, tensors, count);
  pipeline->batch_room_taken.clear(std::memory_order_release);
}

void DataPlane::ObserveWithRoom(Pipeline* pipeline, const Observation* at, const TensorView* tensors,
                                size_t count) noexcept {
  const RecordLayout& layout = pipeline->plan->layout;
  stats::BatchRoom& room = pipeline->batch_room;
  while (count > 0) {
    const size_t taken = engine_->EnqueueBatch(pipeline->measure, tensors, count, &room);
    for (size_t i = 0; i < taken; ++i) {
      Record record;
      FillKey(*pipeline, at[i], &record);
      const StatusCode code = engine_->Take(layout, room, i, tensors[i], &record);
      if (code == StatusCode::kOk)
        Push(pipeline, record);
      else
        CountUnmeasured(pipeline, code);
    }
    at += taken;
    tensors += taken;
    count -= taken;
  }
}

void DataPlane::ObserveOne(Pipeline* pipeline, const Observation& at, const TensorView& tensor) noexcept {
  Record record;
  FillKey(*pipeline, at, &record);
  const StatusCode code = engine_->Enqueue(pipeline->plan->layout, pipeline->measure, tensor, &record);
  if (code == StatusCode::kOk)
    Push(pipeline, record);
  else
    CountUnmeasured(pipeline, code);
}

void DataPlane::ObserveMissing(const Observation& at) noexcept {
  Pipeline* pipeline = Collecting();
  if (pipeline == nullptr) return;
  Record record;
  FillKey(*pipeline, at, &record);
  record.flags |= Record::kMissing;
  Push(pipeline, record);
}

void DataPlane::ObserveValues(const Observation& at, const double* values, size_t count) noexcept {
  Pipeline* pipeline = Collecting();
  if (pipeline == nullptr) return;
  Record record;
  FillKey(*pipeline, at, &record);
  const RecordLayout& layout = pipeline->plan->layout;
  const bool known = at.site < layout.sites.size();
  if (known && !records::FillFeature(layout, layout.sites[at.site].kind, values, count, &record))
    return CountUnmeasured(pipeline, StatusCode::kUnsupported);
  Push(pipeline, record);
}

void DataPlane::ObserveAgreement(const Observation& at, const TensorView& gradient,
                                 const TensorView& momentum) noexcept {
  Pipeline* pipeline = Collecting();
  if (pipeline == nullptr) return;
  const BusyTime busy(pipeline);
  Record record;
  FillKey(*pipeline, at, &record);
  const StatusCode code =
      engine_->EnqueueAgreement(pipeline->plan->layout, pipeline->measure, gradient, momentum, &record);
  if (code == StatusCode::kOk)
    Push(pipeline, record);
  else
    CountUnmeasured(pipeline, code);
}

void DataPlane::ObserveHeatmaps(std::vector<HeatmapColumn> columns) noexcept {
  Pipeline* pipeline = Collecting();
  if (pipeline == nullptr) return;
  const std::vector<PlannedSite>& sites = pipeline->plan->layout.sites;
  std::erase_if(columns, [&](const HeatmapColumn& column) {
    return column.site >= sites.size() || !HasHeatmap(sites[column.site].kind);
  });
  if (columns.empty()) return;
  NoteObserved();
  pipeline->heatmaps.Put({step(), std::move(columns)});
}

// What captured graphs did in this step is known to the device alone, and is looked up by the drain.
void DataPlane::EndGraphStep() noexcept {
  Pipeline* pipeline = Collecting();
  engine_->graphs().EndStep([&](const kernels::DeviceStep& on) {
    if (pipeline == nullptr || pipeline->ring.TryPush(GraphStep{step(), on, FlagsOfStep()})) return;
    pipeline->produced.fetch_add(on.end, std::memory_order_relaxed);
    pipeline->dropped_ring_full.fetch_add(on.end, std::memory_order_relaxed);
  });
}

void DataPlane::Capture(const PlannedSite& site, const Observation& at, const TensorView& tensor) noexcept {
  if (!guard_.InOwner() || !engine_->IsCapturing(tensor)) return;
  Pipeline* pipeline = active_.load(std::memory_order_acquire);
  const kernels::MeasureOptions measure = pipeline == nullptr ? kernels::MeasureOptions{} : pipeline->measure;
  Record record;
  record.micro_step = at.micro_step;
  record.element = at.element;
  record.call = at.call;
  const StatusCode code = engine_->Enqueue(RecordLayout{}, measure, tensor, &record);
  if (code != StatusCode::kOk) {
    if (Collecting() != nullptr) CountUnmeasured(pipeline, code);
  } else if (records::IsCaptured(record)) {
    engine_->Keep(site, measure, record);
  } else {
    Discard(record);  // the capture was over in the meantime
  }
}

void DataPlane::CloseFrame() noexcept {
  Pipeline& pipeline = *current_->pipeline;
  const uint64_t produced = pipeline.produced.load(std::memory_order_relaxed);
  // Refused only when the drain is stuck; it then closes the frame at the next record that gets through.
  (void)pipeline.ring.TryPush(FrameEnd{step(), produced - produced_before_frame_});
  produced_before_frame_ = produced;
  const int64_t collected = collected_.load(std::memory_order_relaxed) + 1;
  collected_.store(collected, std::memory_order_relaxed);
  if (collected >= rule_.times) EndWindow(EndReason::kTimes, step());
  drain_wake_up_->Post();
}

void DataPlane::EndStep() noexcept {
  if (!guard_.InOwner() || closed_) return;
  EndGraphStep();
  if (guard_.flag().load(std::memory_order_relaxed)) CloseFrame();
  const int64_t next = step() + 1;
  boundaries_.fetch_add(1, std::memory_order_release);
  gate_.Arrive(next);
  TakePlans(next);
  step_.store(next, std::memory_order_release);
  SetCollecting();
}

void DataPlane::ApplyBetweenSteps() noexcept {
  if (!guard_.InOwner() || closed_ || in_step()) return;
  TakePlans(step());
  SetCollecting();
}

void DataPlane::ContinueWith(std::unique_ptr<PendingPlan> plan) noexcept {
  if (!guard_.InOwner() || closed_) return;
  if (continuation_ != nullptr) Retire(std::move(continuation_));
  continuation_ = std::move(plan);
  ApplyBetweenSteps();
}

void DataPlane::MoveHooks(std::unique_ptr<const MovedHooks> moved) noexcept {
  const bool is_in_force = current_ != nullptr && current_->plan().layout.plan_id == moved->layout.plan_id;
  if (!guard_.InOwner() || !is_in_force || !in_step() || hooks_ == nullptr) return;
  hooks_->Swap(&moved->layout, moved->orders);
  moved_hooks_ = std::move(moved);
}

void DataPlane::Close() noexcept {
  if (!guard_.InOwner() || closed_) return;
  if (current_ != nullptr) EndWindow(EndReason::kClosed, in_step() ? step() : step() - 1);
  closed_ = true;
  guard_.flag().store(false, std::memory_order_relaxed);
  engine_->graphs().Switch(false);
  boundaries_.fetch_add(2, std::memory_order_release);
  drain_wake_up_->Post();
}

// The window goes on before it may end: an edit, or a stop, then meets it as it is to be.
void DataPlane::TakePlans(int64_t next_step) noexcept {
  if (continuation_ != nullptr) Apply(std::move(continuation_), next_step);
  if (slot_.waiting()) Apply(slot_.AtStep(next_step), next_step);
}

void DataPlane::Apply(std::unique_ptr<PendingPlan> plan, int64_t next_step) noexcept {
  if (plan == nullptr) return;
  const auto* window = std::get_if<NewWindow>(&plan->effect);
  const bool continues = std::holds_alternative<Continue>(plan->effect);
  if (window == nullptr && (!continues || current_ == nullptr)) {
    if (current_ != nullptr) EndWindow(EndReason::kStopped, next_step - 1);
    return Retire(std::move(plan));
  }
  if (current_ != nullptr) EndWindow(EndReason::kReplaced, next_step - 1);
  if (window != nullptr) SetRule(plan->plan().rule, *window, plan->at_step, next_step);
  Begin(std::move(plan), next_step);
}

void DataPlane::SetRule(plan::StepRule rule, const NewWindow& window, int64_t at_step, int64_t first_step) noexcept {
  rule_ = rule;
  if (window.start == StartRule::kWhenApplied) rule_.start = first_step;
  if (window.start == StartRule::kAtStep) rule_.start = at_step;
  collected_.store(window.start == StartRule::kAtStep ? rule_.CollectedBefore(first_step) : 0,
                   std::memory_order_relaxed);
}

void DataPlane::Begin(std::unique_ptr<PendingPlan> plan, int64_t first_step) noexcept {
  collected_before_plan_ = std::holds_alternative<Continue>(plan->effect) ? collected() : 0;
  produced_before_frame_ = 0;
  current_ = std::move(plan);
  const plan::Plan& begun = current_->plan();
  plan_id_.store(begun.layout.plan_id, std::memory_order_relaxed);
  newest_begun_.store(begun.layout.plan_id, std::memory_order_release);
  current_->pipeline->ring.Push(PlanBegin{first_step});
  begun_plans_.Push(std::move(current_->for_drain));
  active_.store(current_->pipeline.get(), std::memory_order_release);
  if (hooks_ != nullptr) hooks_->Swap(&begun.layout, begun.orders);
  // A plan that may collect nothing ends where it began.
  if (rule_.times <= collected()) EndWindow(EndReason::kTimes, first_step - 1);
  drain_wake_up_->Post();
}

void DataPlane::EndWindow(EndReason reason, int64_t last_step) noexcept {
  guard_.flag().store(false, std::memory_order_relaxed);
  active_.store(nullptr, std::memory_order_release);
  current_->pipeline->ring.Push(PlanEnd{reason, last_step, collected() - collected_before_plan_});
  plan_id_.store(0, std::memory_order_relaxed);
  if (hooks_ != nullptr && reason != EndReason::kReplaced) hooks_->Swap(nullptr, kNoOrders);
  Retire(std::move(current_));
  drain_wake_up_->Post();
}

void DataPlane::SetCollecting() noexcept {
  const bool collects = current_ != nullptr && rule_.Collects(step(), collected_.load(std::memory_order_relaxed));
  guard_.flag().store(collects, std::memory_order_release);
  engine_->graphs().Switch(collects);
}

void DataPlane::Retire(std::unique_ptr<PendingPlan> plan) noexcept {
  plan->retired_at_boundary = boundaries_.load(std::memory_order_relaxed);
  PutBack(plan.release());
}

void DataPlane::PutBack(PendingPlan* plan) noexcept {
  plan->next = retired_.load(std::memory_order_relaxed);
  while (!retired_.compare_exchange_weak(plan->next, plan, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void DataPlane::Reclaim() noexcept {
  PendingPlan* plan = retired_.exchange(nullptr, std::memory_order_acquire);
  const uint64_t now = boundaries_.load(std::memory_order_acquire);
  while (plan != nullptr) {
    PendingPlan* const retired = std::exchange(plan, plan->next);
    if (now > retired->retired_at_boundary + 1)
      delete retired;
    else
      PutBack(retired);
  }
}

}  // namespace stepwatch::step
