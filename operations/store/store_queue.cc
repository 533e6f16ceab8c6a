#include "operations/store/store_queue.h"

#include <utility>

namespace stepwatch::operations {
namespace {

constexpr double kPruneSeconds = 60;
constexpr std::chrono::seconds kStopTime{2};

}  // namespace

StoreQueue::StoreQueue(boost::asio::io_context& loop, std::unique_ptr<Store> store, StoreLimits limits,
                       Callbacks callbacks)
    : mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      store_(std::move(store)),
      callbacks_(std::move(callbacks)),
      limits_(limits) {}

StoreQueue::~StoreQueue() {
  mailbox_->Close();
  if (!next_.empty())
    (void)thread_.Post(
        [store = store_, batch = std::make_shared<Batch>(std::move(next_))] { (void)store->Write(*batch); });
  (void)thread_.Stop(base::IoThread::Clock::now() + kStopTime);
}

void StoreQueue::Flush(Then then) {
  if (then) then_.push_back(std::move(then));
  if (is_writing_)
    writes_again_ = true;
  else
    Write();
}

void StoreQueue::Write() {
  writes_again_ = false;
  in_flight_ = std::move(then_);
  then_.clear();
  is_writing_ = true;
  auto batch = std::make_shared<Batch>(std::exchange(next_, {}));
  const auto write = [this, store = store_, mailbox = mailbox_, alive = std::weak_ptr<bool>(alive_), batch] {
    auto written = std::make_shared<Written>();
    written->status = store->Write(*batch);
    if (!written->status.ok()) written->batch = std::move(*batch);
    written->bytes = store->Bytes().ok() ? store->Bytes().value() : 0;
    mailbox->Post([this, alive, written] {
      if (!alive.expired()) OnWritten(std::move(*written));
    });
  };
  if (thread_.Post(write)) return;
  OnWritten({Status(StatusCode::kExhausted, "the store's thread hangs"), std::move(*batch), counts_.bytes});
}

void StoreQueue::OnWritten(Written written) {
  is_writing_ = false;
  counts_.bytes = written.bytes;
  const bool was_in_trouble = std::exchange(counts_.in_trouble, !written.status.ok());
  if (!written.status.ok()) {
    written.batch.Append(std::exchange(next_, {}));
    next_ = std::move(written.batch);
    // They are made again from what the observer holds.
    next_.series.clear();
    Bound();
    if (!was_in_trouble) callbacks_.on_trouble(written.status.message());
  } else if (was_in_trouble) {
    callbacks_.on_recovery();
  }
  for (const Then& then : std::exchange(in_flight_, {})) then();
  if (writes_again_ && !is_writing_) Write();
}

void StoreQueue::Bound() {
  counts_.lines_dropped += next_.DropLines(kLineBytesMax);
  (void)next_.FoldChanges(kChangesMax);
}

void StoreQueue::Tick(double t) {
  Bound();
  if (!next_.empty() && !is_writing_) Write();
  if (t - pruned_t_ < kPruneSeconds && t >= pruned_t_) return;
  pruned_t_ = t;
  // A disk that is full has room again most likely because of this.
  (void)thread_.Post([store = store_, limits = limits_, t] { (void)store->Prune(limits, t); });
}

StoreQueue::Counts StoreQueue::counts() const {
  Counts counts = counts_;
  counts.waiting_bytes = next_.line_bytes();
  return counts;
}

bool StoreQueue::Ask(std::function<Answer(Store&)> ask) {
  return thread_.Post([store = store_, mailbox = mailbox_, ask = std::move(ask)] {
    auto answer = std::make_shared<Answer>(ask(*store));
    mailbox->Post([answer] { (*answer)(); });
  });
}

}  // namespace stepwatch::operations
