#include "src/drain/drain.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/worker_thread.h"
#include "src/drain/merge_repeated_records.h"

namespace stepwatch::drain {
namespace {

// With a plan in force the ring is looked at this often even if no wake-up comes; a wake-up follows every collected
// step.
constexpr std::chrono::milliseconds kLookBusy{200};
constexpr std::chrono::milliseconds kLookIdle{2000};
// While results are under way: often enough that their places are soon free again.
constexpr std::chrono::milliseconds kLookPending{2};
constexpr std::chrono::milliseconds kLookStopping{20};

// What a round may take beyond the deadline of Stop before its sink counts as hung.
constexpr std::chrono::milliseconds kGrace{1000};

}  // namespace

Drain::Drain(StatusBoard* board, stats::Engine* engine, step::WakeUp* wake_up, size_t backlog_bytes_max, Clock clock)
    : board_(board),
      engine_(engine),
      wake_up_(wake_up),
      backlog_bytes_max_(backlog_bytes_max),
      clock_(std::move(clock)) {}

Drain::~Drain() {
  STEPWATCH_CHECK(!thread_.joinable());
}

void Drain::Start() {
  thread_ = base::StartWorkerThread("stepwatch-drain", [this] { Run(); });
}

void Drain::SetSinks(std::vector<std::shared_ptr<Sink>> sinks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  new_sinks_ = std::move(sinks);
}

void Drain::Adopt(std::shared_ptr<step::Pipeline> pipeline) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    adopted_.push_back(std::move(pipeline));
  }
  wake_up_->Post();
}

void Drain::Forget(std::shared_ptr<const step::Pipeline> pipeline) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    forgotten_.push_back(std::move(pipeline));
  }
  wake_up_->Post();
}

bool Drain::Stop(std::chrono::milliseconds deadline) {
  if (!thread_.joinable()) return true;
  std::unique_lock<std::mutex> lock(mutex_);
  stopping_ = true;
  deadline_ = std::chrono::steady_clock::now() + deadline;
  wake_up_->Post();
  if (!finish_.wait_until(lock, deadline_ + kGrace, [this] { return finished_; })) return false;
  lock.unlock();
  thread_.join();
  return true;
}

void Drain::Abandon() {
  if (thread_.joinable()) thread_.detach();
}

void Drain::KeepLatest() {
  const std::lock_guard<std::mutex> lock(mutex_);
  keep_latest_ = true;
}

std::vector<LatestValue> Drain::Latest(SiteKind kind, std::chrono::milliseconds timeout, int rank) {
  const auto question = std::make_shared<Question>();
  question->kind = kind;
  question->rank = rank;
  question->deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock<std::mutex> lock(mutex_);
  if (finished_ || !thread_.joinable()) return {};
  keep_latest_ = true;
  asked_.push_back(question);
  wake_up_->Post();
  answer_.wait_until(lock, question->deadline + kGrace, [&] { return question->answered || finished_; });
  return std::move(question->answer);
}

void Drain::Run() {
  Rounds();
  const std::lock_guard<std::mutex> lock(mutex_);
  finished_ = true;
  finish_.notify_all();
  answer_.notify_all();
}

void Drain::Rounds() {
  for (;;) {
    bool stopping = false;
    SteadyTime deadline;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping = stopping_;
      deadline = deadline_;
    }
    const bool last = stopping && std::chrono::steady_clock::now() >= deadline;
    try {
      Round(stopping, last);
    } catch (const std::exception& error) {
      ReportFault(
          error.what());  // out of memory, or a sink of the user's: the thread lives on, the next round tries again
    } catch (...) {
      ReportFault("unknown exception");
    }
    if (stopping && (last || !HasBacklog())) break;
    wake_up_->Wait(stopping ? std::min(kLookStopping, WaitTime()) : WaitTime());
  }
  bool first = true;
  for (SinkQueue& sink : sinks_) {
    const auto outcomes = sink.GiveUp();
    if (std::exchange(first, false)) Credit(outcomes);
  }
  ReportDrained(true);
}

bool Drain::HasBacklog() const {
  return std::any_of(sinks_.begin(), sinks_.end(), [](const SinkQueue& sink) { return !sink.empty(); }) ||
         std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return !stream.waiting.empty() || !stream.pipeline->ring.Empty(); }) ||
         (alert_manager_ && alert_manager_->unsaved());
}

void Drain::ReportFault(const char* what) {
  if (!std::exchange(failing_, true))
    board_->Post(SinkFailed{Status(StatusCode::kInternal, std::string("the drain thread caught: ") + what)});
}

void Drain::Round(bool now_or_never, bool last_call) {
  TakeOrders();
  EmptyRings(last_call);
  PassOnFrames(last_call);
  AnswerQuestions();
  engine_->Sweep();
  board_->PostTroubles(engine_->TakeDiagnostics());
  AdvanceSinks(now_or_never);
  AnswerFlushes();
  if (alert_manager_) alert_manager_->Advance(std::chrono::steady_clock::now(), now_or_never);
  ReportDrained(false);
  ReportHealth();
}

void Drain::TakeOrders() {
  std::vector<std::shared_ptr<step::Pipeline>> adopted;
  std::vector<std::shared_ptr<const step::Pipeline>> forgotten;
  std::vector<std::shared_ptr<Sink>> sinks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    adopted = std::exchange(adopted_, {});
    forgotten = std::exchange(forgotten_, {});
    sinks = std::exchange(new_sinks_, {});
    questions_.insert(questions_.end(), asked_.begin(), asked_.end());
    asked_.clear();
    flushes_.insert(flushes_.end(), flush_orders_.begin(), flush_orders_.end());
    flush_orders_.clear();
    if (keep_latest_ && !latest_) latest_.emplace();
  }
  for (auto& sink : sinks) sinks_.emplace_back(std::move(sink), backlog_bytes_max_);
  for (auto& pipeline : adopted) streams_.emplace_back(engine_, std::move(pipeline));
  for (const auto& pipeline : forgotten)
    streams_.remove_if([&](const Stream& stream) { return stream.pipeline == pipeline; });
}

// Once the begin of a plan can be seen, all entries of the plans before it can be seen as well: what is still empty
// among those was superseded. Plans behind it are left to the next round.
void Drain::EmptyRings(bool last_call) {
  const auto behind = std::find_if(streams_.rbegin(), streams_.rend(), [](const Stream& stream) {
                        return stream.begun || !stream.pipeline->ring.Empty();
                      }).base();
  for (auto stream = streams_.begin(); stream != behind;) {
    if (!EmptyRing(&*stream, last_call)) return;
    stream = stream->begun ? std::next(stream) : streams_.erase(stream);
  }
}

// False: as much waits for results of a device as may wait; the ring, and then its producers, feel it.
bool Drain::EmptyRing(Stream* stream, bool last_call) {
  step::RingEntry entry;
  for (;;) {
    const bool full = stream->waiting.pending() && stream->waiting.records() * sizeof(Record) > backlog_bytes_max_;
    if (full && !last_call) return false;
    if (!stream->pipeline->ring.Pop(&entry)) return true;
    Take(stream, entry);
    TellBeginAndFinish(stream);
  }
}

void Drain::Take(Stream* stream, const step::RingEntry& entry) {
  if (const auto* end = std::get_if<step::FrameEnd>(&entry)) TakeColumns(stream, end->step);
  const uint64_t late_before = stream->assembler.late();
  if (auto frame = stream->assembler.Add(entry)) stream->waiting.Add(*std::move(frame), clock_());
  if (stream->assembler.late() == late_before) return;
  if (const auto* record = std::get_if<Record>(&entry); record != nullptr && record->pending())
    engine_->Abandon(*record);
}

// They were put down before the step's frame was closed.
void Drain::TakeColumns(Stream* stream, int64_t step) {
  std::optional<step::HeatmapStep> columns = stream->pipeline->heatmaps.Take(step);
  if (!columns) return;
  if (auto frame = stream->assembler.Add(*std::move(columns))) stream->waiting.Add(*std::move(frame), clock_());
}

void Drain::TellBeginAndFinish(Stream* stream) {
  const PlanId id = stream->pipeline->plan->layout.plan_id;
  if (!stream->begun && stream->assembler.begin()) {
    stream->begun = true;
    if (alert_manager_) alert_manager_->BeginPlan(*stream->pipeline->plan);
    board_->Post(PlanBegan{id, stream->assembler.begin()->first_step});
  }
  if (!stream->finished && stream->assembler.end()) {
    const step::PlanEnd& end = *stream->assembler.end();
    stream->finished = true;
    const bool had_steps = end.last_step >= stream->assembler.begin()->first_step;
    board_->Post(PlanFinished{id, end.reason, had_steps ? end.last_step : -1, end.collected});
  }
}

// Frames of a plan wait until those of the plan before it are with the sinks; its results are fetched all the same.
void Drain::PassOnFrames(bool last_call) {
  bool first_in_line = true;
  for (Stream& stream : streams_) {
    stream.waiting.Fetch(&stream.assembler.open());
    if (first_in_line) PassOnFrames(&stream, last_call);
    first_in_line = first_in_line && stream.ended;
  }
}

void Drain::PassOnFrames(Stream* stream, bool last_call) {
  const std::shared_ptr<const plan::Plan>& plan = stream->pipeline->plan;
  while (auto frame = stream->waiting.Next(clock_(), last_call)) {
    stream->joined += MergeRepeatedRecords(plan->layout, &frame->records);
    if (alert_manager_) alert_manager_->Look(*plan, *frame);
    if (latest_) latest_->Add(plan, frame->records);
    for (SinkQueue& sink : sinks_) sink.AddFrame(plan, *frame);
  }
  if (!stream->finished || stream->ended || !stream->waiting.empty()) return;
  stream->ended = true;
  if (alert_manager_) alert_manager_->EndPlan();
  for (SinkQueue& sink : sinks_) sink.AddEnd(plan);
}

// A frame that still grows: what has arrived of it counts.
void Drain::AddLatest(const Stream& stream, const AssembledFrame& frame) {
  const std::shared_ptr<const plan::Plan>& plan = stream.pipeline->plan;
  latest_->Add(plan, MergedRecords(plan->layout, frame.records));
}

// All that was pushed before a question came is out of the rings by now.
void Drain::AnswerQuestions() {
  if (questions_.empty()) return;
  const bool pending =
      std::any_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.waiting.pending(); });
  const SteadyTime now = std::chrono::steady_clock::now();
  const auto due = [&](const std::shared_ptr<Question>& question) { return !pending || now >= question->deadline; };
  if (std::none_of(questions_.begin(), questions_.end(), due)) return;
  for (Stream& stream : streams_) {
    stream.waiting.ForEach([&](const AssembledFrame& frame) { AddLatest(stream, frame); });
    AddLatest(stream, stream.assembler.open());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(questions_, [&](const std::shared_ptr<Question>& question) {
    if (!due(question)) return false;
    question->answer = latest_->Of(question->kind, question->rank);
    return question->answered = true;
  });
  answer_.notify_all();
}

void Drain::Credit(const std::vector<SinkQueue::Outcome>& outcomes) {
  for (const SinkQueue::Outcome& outcome : outcomes)
    for (Stream& stream : streams_) {
      if (stream.pipeline->plan->layout.plan_id != outcome.plan_id) continue;
      stream.ledger.written += outcome.written;
      stream.ledger.dropped[static_cast<size_t>(DropReason::kSinkFailed)] += outcome.given_up;
    }
}

void Drain::AdvanceSinks(bool now_or_never) {
  const SteadyTime now = std::chrono::steady_clock::now();
  bool first = true;
  for (SinkQueue& sink : sinks_) {
    const auto outcomes = sink.Advance(now, now_or_never);
    if (std::exchange(first, false)) Credit(outcomes);
  }
}

// A plan is drained when its ring has ended and the first sink has nothing of it left: then every produced record is
// accounted for, and every column of a heat map, which is none, is where it belongs.
void Drain::ReportDrained(bool last_call) {
  while (!streams_.empty() && streams_.front().ended) {
    Stream& stream = streams_.front();
    const step::Pipeline& pipeline = *stream.pipeline;
    Ledger ledger = stream.ledger;
    ledger.produced = pipeline.produced.load(std::memory_order_relaxed) + stream.waiting.replayed() - stream.joined;
    ledger.dropped[static_cast<size_t>(DropReason::kRingFull)] =
        pipeline.dropped_ring_full.load(std::memory_order_relaxed);
    ledger.dropped[static_cast<size_t>(DropReason::kUnsupported)] =
        pipeline.dropped_unsupported.load(std::memory_order_relaxed);
    ledger.dropped[static_cast<size_t>(DropReason::kLate)] =
        stream.assembler.late() + stream.waiting.late() + pipeline.dropped_late.load(std::memory_order_relaxed);
    const bool waits = !sinks_.empty() && sinks_.front().HoldsFrameOf(pipeline.plan->layout.plan_id);
    if ((waits || !ledger.balanced()) && !last_call) return;
    CheckMissing(stream, ledger);
    TellLostColumns(pipeline);
    const step::PlanEnd& end = *stream.assembler.end();
    const double busy_seconds = static_cast<double>(pipeline.busy_ns.load(std::memory_order_relaxed)) * 1e-9;
    board_->Post(PlanDrained{pipeline.plan->layout.plan_id, end.reason, end.collected, ledger, busy_seconds});
    streams_.pop_front();
  }
}

// What the steps announced and did not deliver was dropped before the ring or was late behind it.
void Drain::CheckMissing(const Stream& stream, const Ledger& ledger) {
  const uint64_t known = ledger.dropped[static_cast<size_t>(DropReason::kRingFull)] +
                         ledger.dropped[static_cast<size_t>(DropReason::kUnsupported)] +
                         ledger.dropped[static_cast<size_t>(DropReason::kLate)];
  if (stream.assembler.missing() > known) ReportFault("records that a step had announced never came out of the ring");
}

void Drain::TellLostColumns(const step::Pipeline& pipeline) {
  if (const uint64_t lost = pipeline.heatmaps.lost(); lost > 0)
    board_->PostTroubles({"ur_distribution: the images lack " + std::to_string(lost) + " steps of plan " +
                          std::to_string(pipeline.plan->layout.plan_id) +
                          ", which came while the drain thread was far behind"});
}

void Drain::ReportHealth() {
  const auto failing = std::find_if(sinks_.begin(), sinks_.end(), [](const SinkQueue& sink) { return sink.failure(); });
  const bool now_failing = failing != sinks_.end();
  if (now_failing && !failing_) board_->Post(SinkFailed{*failing->failure()});
  if (!now_failing && failing_) board_->Post(SinkRecovered{});
  failing_ = now_failing;
}

std::chrono::milliseconds Drain::WaitTime() const {
  if (std::any_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.waiting.pending(); }))
    return kLookPending;
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
