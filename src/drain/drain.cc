#include "src/drain/drain.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/worker_thread.h"
#include "src/drain/merge_repeated_records.h"

namespace stepwatch::drain {
namespace {

// Interval at which the ring is read without a wake-up, while a plan is in force; a wake-up follows every collected
// step.
constexpr std::chrono::milliseconds kLookBusy{200};
constexpr std::chrono::milliseconds kLookIdle{2000};
// Interval while results are pending: short, so that their slots are soon free again.
constexpr std::chrono::milliseconds kLookPending{2};
constexpr std::chrono::milliseconds kLookStopping{20};

}  // namespace

Drain::Drain(StatusBoard* board, stats::Engine* engine, step::WakeUp* wake_up, step::BegunPlans* begun_plans,
             size_t backlog_bytes_max, Clock clock)
    : board_(board),
      engine_(engine),
      wake_up_(wake_up),
      begun_plans_(begun_plans),
      backlog_bytes_max_(backlog_bytes_max),
      clock_(std::move(clock)),
      mailbox_(wake_up) {}

Drain::~Drain() {
  STEPWATCH_CHECK(!thread_.joinable());
  streams_.clear_and_dispose(std::default_delete<PlanStream>());
}

std::unique_ptr<step::BegunPlan> Drain::MakeStream(std::shared_ptr<step::Pipeline> pipeline) const {
  return std::make_unique<PlanStream>(engine_, std::move(pipeline));
}

void Drain::Start() {
  thread_ = base::StartWorkerThread("stepwatch-drain", [this] { Run(); });
  has_begun_ = true;
}

void Drain::SetSinks(std::vector<std::shared_ptr<Sink>> sinks) {
  std::list<SinkQueue> queues;
  const SinkQueue::Credit credit = [this](PlanId plan, uint64_t written, uint64_t discarded) {
    Credit(plan, written, discarded);
  };
  const SinkQueue::OnSegment on_segment = [this](SegmentBegun begun) { board_->Post(std::move(begun)); };
  for (auto& sink : sinks)
    queues.emplace_back(std::move(sink), backlog_bytes_max_,
                        queues.empty() ? SinkQueue::Callbacks{credit, on_segment} : SinkQueue::Callbacks{});
  const base::MutexLock lock(&mutex_);
  new_sinks_ = std::move(queues);
}

StopOutcome Drain::Stop(SteadyTime give_up_at, SteadyTime hangs_at) {
  if (!thread_.joinable()) return StopOutcome::kDrained;
  base::MutexLock lock(&mutex_);
  stopping_ = true;
  give_up_at_ = give_up_at;
  wake_up_->Post();
  while (!finished_ && finish_.WaitUntil(&mutex_, hangs_at)) {
  }
  if (!finished_) return StopOutcome::kHangs;
  const bool gave_up = gave_up_;
  lock.Unlock();
  thread_.join();
  return gave_up ? StopOutcome::kGaveUp : StopOutcome::kDrained;
}

void Drain::Detach() {
  if (thread_.joinable()) thread_.detach();
}

std::vector<LatestValue> Drain::Latest(SiteKind kind, std::chrono::milliseconds timeout, int rank) {
  if (!has_begun_) return {};
  return mailbox_.Latest(kind, rank, std::chrono::steady_clock::now() + timeout);
}

bool Drain::Flush(std::chrono::milliseconds timeout) {
  return !has_begun_ || mailbox_.Flush(std::chrono::steady_clock::now() + timeout);
}

void Drain::Run() noexcept {
  const bool all_out = Rounds();
  Conclude();
  mailbox_.Close();
  const base::MutexLock lock(&mutex_);
  gave_up_ = !all_out;
  finished_ = true;
  finish_.NotifyAll();
}

bool Drain::Rounds() noexcept {
  for (;;) {
    bool stopping = false;
    SteadyTime give_up_at;
    {
      const base::MutexLock lock(&mutex_);
      stopping = stopping_;
      give_up_at = give_up_at_;
    }
    const bool last = stopping && std::chrono::steady_clock::now() >= give_up_at;
    Round(stopping, last);
    if (stopping && !HasBacklog()) return true;
    if (last) return false;
    wake_up_->Wait(stopping ? std::min(kLookStopping, WaitTime()) : WaitTime());
  }
}

void Drain::Conclude() noexcept {
  for (SinkQueue& sink : sinks_) sink.DiscardAll();
  ReportDrained(true);
}

bool Drain::HasBacklog() const {
  return !begun_plans_->empty() ||
         std::any_of(sinks_.begin(), sinks_.end(), [](const SinkQueue& sink) { return !sink.empty(); }) ||
         std::any_of(streams_.begin(), streams_.end(), [](const PlanStream& stream) { return stream.has_backlog(); }) ||
         (alert_manager_ && alert_manager_->unsaved());
}

// Out of memory, or an exception of a user's sink: the next round tries again.
template <class Stage>
void Drain::CatchAndReport(const Stage& stage) noexcept {
  try {
    stage();
  } catch (const std::exception& error) {
    ReportFault(error.what());
  } catch (...) {
    ReportFault("unknown exception");
  }
}

void Drain::ReportFault(const char* what) noexcept {
  fault_in_round_ = true;
  if (failing_) return;
  try {
    board_->Post(SinkFailed{Status(StatusCode::kInternal, std::string("the drain thread caught: ") + what)});
  } catch (const std::bad_alloc&) {
    board_->Post(SinkFailed{Status(StatusCode::kExhausted, "out of memory")});  // short enough to need no allocation
  }
  failing_ = true;
}

void Drain::Round(bool now_or_never, bool last_call) noexcept {
  const SteadyTime now = std::chrono::steady_clock::now();
  fault_in_round_ = false;
  TakeRequests();
  TakeBegunPlans();
  CatchAndReport([&] { EmptyRings(last_call); });
  engine_->TakeDeviceTimes(&device_times_);
  for (PlanStream& stream : streams_) {
    ReportBeginAndFinish(&stream);
    ReportCost(&stream);
    ReportFullRing(&stream);
  }
  CatchAndReport([&] { PassOnFrames(last_call); });
  CatchAndReport([&] { AnswerQuestions(); });
  engine_->Sweep();
  CatchAndReport([&] { board_->PostDiagnostics(engine_->TakeDiagnostics()); });
  for (SinkQueue& sink : sinks_) sink.Advance(now, now_or_never);
  mailbox_.AnswerFlushes(!HasBacklog(), std::chrono::steady_clock::now());
  if (alert_manager_) alert_manager_->Advance(std::chrono::steady_clock::now(), now_or_never);
  ReportDrained(false);
  ReportHealth();
  board_->Remind();
}

void Drain::TakeRequests() noexcept {
  mailbox_.Take();
  if (mailbox_.keeps_latest() && !latest_) latest_.emplace();
  const base::MutexLock lock(&mutex_);
  sinks_.splice(sinks_.end(), new_sinks_);
}

void Drain::TakeBegunPlans() noexcept {
  begun_plans_->TakeAll([this](std::unique_ptr<step::BegunPlan> plan) {
    streams_.push_back(*static_cast<PlanStream*>(plan.release()));  // created by MakeStream
  });
}

void Drain::EmptyRings(bool last_call) {
  for (PlanStream& stream : streams_)
    if (!stream.EmptyRing(backlog_bytes_max_, clock_(), last_call)) return;
}

void Drain::ReportBeginAndFinish(PlanStream* stream) noexcept {
  if (!stream->reported_begin && stream->begun()) {
    stream->reported_begin = true;
    if (alert_manager_) alert_manager_->BeginPlan(*stream->plan());
    board_->Post(PlanBegan{stream->id(), stream->begin().first_step});
  }
  ReportPauses(stream);
  if (!stream->reported_finish && stream->finished()) {
    stream->reported_finish = true;
    const step::PlanEnd& end = stream->end();
    const bool had_steps = end.last_step >= stream->begin().first_step;
    board_->Post(PlanFinished{stream->id(), end.reason, had_steps ? end.last_step : -1, end.collected});
  }
}

void Drain::ReportPauses(PlanStream* stream) noexcept {
  for (const step::PauseMark& mark : stream->TakePauseMarks())
    board_->Post(PlanPaused{stream->id(), mark.step, mark.paused});
}

// Device time arrives when the device has completed the step, so it is added to the cost of a later one.
uint64_t Drain::AddDeviceTimes(std::array<uint64_t, step::kCostCount>* ns) noexcept {
  static_assert(stats::Engine::kNoKind == step::kBoundaryCost && step::kCostCount <= kernels::kDeviceAccounts);
  const kernels::DeviceTimes times = std::exchange(device_times_, {});
  uint64_t total = 0;
  for (size_t place = 0; place < ns->size(); ++place) {
    (*ns)[place] += times[place];
    total += times[place];
  }
  return total;
}

void Drain::ReportCost(PlanStream* stream) noexcept {
  std::optional<step::StepCost> cost = stream->TakeCost();
  if (!cost) return;
  const uint64_t device_ns = AddDeviceTimes(&cost->ns);
  const bool is_first = !std::exchange(stream->reported_cost, true);
  board_->Post(StepsMeasured{stream->id(), is_first, *cost, device_ns}, stream->plan()->config.own.budget.has_value());
}

// Reported while the plan runs, so that the user can change it.
void Drain::ReportFullRing(PlanStream* stream) noexcept {
  if (stream->reported_loss || stream->pipeline()->dropped_ring_full.load(std::memory_order_relaxed) == 0) return;
  stream->reported_loss = true;
  CatchAndReport([&] {
    board_->PostDiagnostics(
        {"plan " + std::to_string(stream->id()) + " drops records (ring_full): they arrive faster than the " +
         std::to_string(stream->pipeline()->ring.capacity()) +
         " places of the ring are emptied. Modules that are called often in a step, also without gradients, fill it; "
         "select fewer targets. The ledger counts the dropped records"});
  });
}

// Frames of a plan wait until those of the previous plan are with the sinks; its results are fetched meanwhile.
void Drain::PassOnFrames(bool last_call) {
  for (PlanStream& stream : streams_) stream.Fetch();
  for (PlanStream& stream : streams_) {
    PassOnFrames(&stream, last_call);
    if (!stream.reported_end) return;
  }
}

void Drain::PassOnFrames(PlanStream* stream, bool last_call) {
  while (const AssembledFrame* frame = stream->Ready(clock_(), last_call)) {
    try {
      PassOn(stream, *frame);
    } catch (const std::bad_alloc&) {
      if (!last_call) throw;
      stream->DiscardReady();
    }
  }
  if (stream->exhausted() && !stream->reported_end) PassOnEnd(stream, last_call);
}

// Fallible work comes before the frame is removed: alarms and sinks must see a frame exactly once.
void Drain::PassOn(PlanStream* stream, const AssembledFrame& frame) {
  if (latest_) latest_->Add(stream->plan(), frame.records);
  MakeRoomInSinks();
  if (alert_manager_ && !frame.has_nothing_to_write()) alert_manager_->Look(*stream->plan(), frame);
  const std::shared_ptr<const AssembledFrame> taken = stream->Take();
  for (SinkQueue& sink : sinks_) sink.AddFrame(stream->plan(), taken);
}

void Drain::PassOnEnd(PlanStream* stream, bool last_call) {
  try {
    MakeRoomInSinks();
    for (SinkQueue& sink : sinks_) sink.AddEnd(stream->plan());
  } catch (const std::bad_alloc&) {
    if (!last_call) throw;  // the sinks end with the run
  }
  stream->reported_end = true;
  if (alert_manager_) alert_manager_->EndPlan();
}

void Drain::MakeRoomInSinks() {
  for (SinkQueue& sink : sinks_) sink.MakeRoom();
}

void Drain::Credit(PlanId plan, uint64_t written, uint64_t discarded) noexcept {
  for (PlanStream& stream : streams_)
    if (stream.id() == plan) stream.Credit(written, discarded);
  if (written > 0 && plan > written_plan_.load(std::memory_order_relaxed))
    written_plan_.store(plan, std::memory_order_relaxed);
}

bool Drain::AnyPending() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const PlanStream& stream) { return stream.pending(); });
}

// All entries pushed before a request are out of the rings by now. The records of the open frame that have arrived
// count.
void Drain::AnswerQuestions() {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (!mailbox_.HasDueQuestion(AnyPending(), now)) return;
  for (PlanStream& stream : streams_)
    stream.ForEach([&](const AssembledFrame& frame) {
      latest_->Add(stream.plan(), MergedRecords(stream.plan()->layout, frame.records));
    });
  mailbox_.AnswerLatest(AnyPending(), now, [this](SiteKind kind, int rank) { return latest_->Of(kind, rank); });
}

// A plan is drained when its ring has ended and the first sink holds no frame of it: then every produced record is
// accounted for, and every heat-map column, which is not a record, was delivered.
void Drain::ReportDrained(bool last_call) noexcept {
  while (!streams_.empty() && streams_.front().reported_end) {
    const PlanStream& stream = streams_.front();
    const Ledger ledger = stream.account();
    const bool waits = !sinks_.empty() && sinks_.front().HoldsFrameOf(stream.id());
    if ((waits || !ledger.balanced()) && !last_call) return;
    ReportLoss(stream, ledger);
    const step::PlanEnd& end = stream.end();
    board_->Post(PlanDrained{stream.id(), end.reason, end.collected, ledger, stream.pipeline()->cost.seconds()});
    streams_.pop_front_and_dispose(std::default_delete<PlanStream>());
  }
}

void Drain::ReportLoss(const PlanStream& stream, const Ledger& ledger) noexcept {
  if (stream.misses_records(ledger)) ReportFault("records that a step announced are missing from the ring");
  const uint64_t lost = stream.pipeline()->heatmaps.lost();
  if (lost == 0) return;
  try {
    board_->PostDiagnostics({"ur_distribution: the images lack " + std::to_string(lost) + " steps of plan " +
                             std::to_string(stream.id()) + ", which arrived while the drain thread was far behind"});
  } catch (const std::bad_alloc&) {  // out of memory for the message
  }
}

void Drain::ReportHealth() noexcept {
  const auto failing = std::find_if(sinks_.begin(), sinks_.end(), [](const SinkQueue& sink) { return sink.failure(); });
  const bool sink_fails = failing != sinks_.end();
  if (sink_fails && !failing_) {
    const std::string& why = failing->failure()->message();
    try {
      board_->Post(SinkFailed{Status(failing->failure()->code(), why)});
    } catch (const std::bad_alloc&) {
      board_->Post(SinkFailed{Status(StatusCode::kExhausted, "out of memory")});  // short enough to need no allocation
    }
    failing_ = true;
  }
  if (sink_fails || fault_in_round_ || !failing_) return;
  board_->Post(SinkRecovered{});
  failing_ = false;
}

std::chrono::milliseconds Drain::WaitTime() const {
  if (AnyPending()) return kLookPending;
  std::chrono::milliseconds wait = streams_.empty() ? kLookIdle : kLookBusy;
  const SteadyTime now = std::chrono::steady_clock::now();
  const auto wait_until = [&](const std::optional<SteadyTime>& at) {
    if (!at) return;
    const SteadyTime due = std::max(*at, now + std::chrono::milliseconds(1));
    wait = std::min(wait, std::chrono::duration_cast<std::chrono::milliseconds>(due - now));
  };
  for (const SinkQueue& sink : sinks_) wait_until(sink.retry_at());
  if (alert_manager_) wait_until(alert_manager_->due_at());
  return wait;
}

}  // namespace stepwatch::drain
