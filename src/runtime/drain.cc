#include "src/runtime/drain.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/base/quiet_thread.h"

namespace stepwatch::runtime {
namespace {

// With a plan in force the ring is looked at this often even if no wake-up comes; a wake-up follows every collected
// step.
constexpr std::chrono::milliseconds kLookBusy{200};
constexpr std::chrono::milliseconds kLookIdle{2000};

// What a round may take beyond the deadline of Stop before its sink counts as hung.
constexpr std::chrono::milliseconds kGrace{1000};

}  // namespace

Drain::Drain(StatusBoard* board, WakeUp* wake_up, size_t backlog_bytes_max)
    : board_(board), wake_up_(wake_up), backlog_bytes_max_(backlog_bytes_max) {}

Drain::~Drain() {
  STEPWATCH_CHECK(!thread_.joinable());
}

void Drain::Start() {
  thread_ = base::StartQuietThread("stepwatch-drain", [this] { Run(); });
}

void Drain::SetSinks(std::vector<std::shared_ptr<Sink>> sinks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  new_sinks_ = std::move(sinks);
}

void Drain::Adopt(std::shared_ptr<Pipeline> pipeline) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    adopted_.push_back(std::move(pipeline));
  }
  wake_up_->Post();
}

void Drain::Forget(const Pipeline* pipeline) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    forgotten_.push_back(pipeline);
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

void Drain::Run() {
  Rounds();
  const std::lock_guard<std::mutex> lock(mutex_);
  finished_ = true;
  finish_.notify_all();
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
      Round(stopping);
    } catch (const std::exception& error) {
      ReportFault(
          error.what());  // out of memory, or a sink of the user's: the thread lives on, the next round tries again
    } catch (...) {
      ReportFault("unknown exception");
    }
    const bool backlog = std::any_of(sinks_.begin(), sinks_.end(), [](const SinkQueue& sink) { return !sink.empty(); });
    if (stopping && (last || !backlog)) break;
    wake_up_->Wait(stopping ? std::chrono::milliseconds(20) : WaitTime());
  }
  bool first = true;
  for (SinkQueue& sink : sinks_) {
    const auto outcomes = sink.GiveUp();
    if (std::exchange(first, false)) Credit(outcomes);
  }
  ReportDrained(true);
}

void Drain::ReportFault(const char* what) {
  if (!std::exchange(failing_, true))
    board_->Post(SinkFailed{Status(StatusCode::kInternal, std::string("the drain thread caught: ") + what)});
}

void Drain::Round(bool now_or_never) {
  TakeOrders();
  EmptyRings();
  AdvanceSinks(now_or_never);
  ReportDrained(false);
  ReportHealth();
}

void Drain::TakeOrders() {
  std::vector<std::shared_ptr<Pipeline>> adopted;
  std::vector<const Pipeline*> forgotten;
  std::vector<std::shared_ptr<Sink>> sinks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    adopted = std::exchange(adopted_, {});
    forgotten = std::exchange(forgotten_, {});
    sinks = std::exchange(new_sinks_, {});
  }
  for (auto& sink : sinks) sinks_.emplace_back(std::move(sink), backlog_bytes_max_);
  for (auto& pipeline : adopted) {
    streams_.emplace_back();
    streams_.back().pipeline = std::move(pipeline);
  }
  for (const Pipeline* pipeline : forgotten)
    streams_.remove_if([pipeline](const Stream& stream) { return stream.pipeline.get() == pipeline; });
}

// Once the begin of a plan can be seen, all entries of the plans before it can be seen as well: what is still empty
// among those was superseded. Plans behind it are left to the next round.
void Drain::EmptyRings() {
  const auto behind = std::find_if(streams_.rbegin(), streams_.rend(), [](const Stream& stream) {
                        return stream.begun || !stream.pipeline->ring.Empty();
                      }).base();
  for (auto stream = streams_.begin(); stream != behind;) {
    EmptyRing(&*stream);
    stream = stream->begun ? std::next(stream) : streams_.erase(stream);
  }
}

void Drain::EmptyRing(Stream* stream) {
  Pipeline& pipeline = *stream->pipeline;
  records::RingEntry entry;
  while (pipeline.ring.Pop(&entry)) {
    if (auto frame = stream->assembler.Add(entry))
      for (SinkQueue& sink : sinks_) sink.AddFrame(pipeline.plan, *frame);
    const PlanId id = pipeline.plan->layout.plan_id;
    if (!stream->begun && stream->assembler.begin()) {
      stream->begun = true;
      board_->Post(PlanBegan{id, stream->assembler.begin()->first_step});
    }
    if (!stream->ended && stream->assembler.end()) {
      const records::PlanEnd& end = *stream->assembler.end();
      stream->ended = true;
      for (SinkQueue& sink : sinks_) sink.AddEnd(pipeline.plan);
      board_->Post(PlanFinished{id, end.reason, end.last_step, end.collected});
    }
  }
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
// accounted for.
void Drain::ReportDrained(bool last_call) {
  while (!streams_.empty() && streams_.front().ended) {
    Stream& stream = streams_.front();
    const Pipeline& pipeline = *stream.pipeline;
    Ledger ledger = stream.ledger;
    ledger.produced = pipeline.produced.load(std::memory_order_relaxed);
    ledger.dropped[static_cast<size_t>(DropReason::kRingFull)] =
        pipeline.dropped_ring_full.load(std::memory_order_relaxed);
    ledger.dropped[static_cast<size_t>(DropReason::kUnsupported)] =
        pipeline.dropped_unsupported.load(std::memory_order_relaxed);
    ledger.dropped[static_cast<size_t>(DropReason::kLate)] =
        stream.assembler.late() + pipeline.dropped_late.load(std::memory_order_relaxed);
    if (!ledger.balanced() && !last_call) return;  // frames still wait in the first sink's queue
    const records::PlanEnd& end = *stream.assembler.end();
    const double busy_seconds = static_cast<double>(pipeline.busy_ns.load(std::memory_order_relaxed)) * 1e-9;
    board_->Post(PlanDrained{pipeline.plan->layout.plan_id, end.reason, end.collected, ledger, busy_seconds});
    streams_.pop_front();
  }
}

void Drain::ReportHealth() {
  const auto failing = std::find_if(sinks_.begin(), sinks_.end(), [](const SinkQueue& sink) { return sink.failure(); });
  const bool now_failing = failing != sinks_.end();
  if (now_failing && !failing_) board_->Post(SinkFailed{*failing->failure()});
  if (!now_failing && failing_) board_->Post(SinkRecovered{});
  failing_ = now_failing;
}

std::chrono::milliseconds Drain::WaitTime() const {
  std::chrono::milliseconds wait = streams_.empty() ? kLookIdle : kLookBusy;
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const SinkQueue& sink : sinks_)
    if (const auto at = sink.retry_at())
      wait = std::min(wait, std::max(std::chrono::milliseconds(1),
                                     std::chrono::duration_cast<std::chrono::milliseconds>(*at - now)));
  return wait;
}

}  // namespace stepwatch::runtime
