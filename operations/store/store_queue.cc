#include "operations/store/store_queue.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <utility>

namespace stepwatch::operations {
namespace {

// Interval of prunes; each continues, once a second, until all data beyond the limits is deleted.
constexpr double kPruneSeconds = 60;
constexpr std::chrono::milliseconds kPruneTime{200};
// Interval of checks of the files of a store without writes.
constexpr double kLookSeconds = 2;
constexpr int kHangTicks = 3;
constexpr std::chrono::seconds kStopTime{2};

}  // namespace

StoreQueue::StoreQueue(boost::asio::io_context& loop, StoreOptions options, StoreLimits limits, Callbacks callbacks)
    : loop_(loop),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      store_(std::make_shared<KeptStore>(std::move(options))),
      callbacks_(std::move(callbacks)),
      limits_(limits) {
  Write();
}

StoreQueue::~StoreQueue() {
  mailbox_->Close();
  if (!next_.empty())
    (void)thread_.Post(
        [store = store_, batch = std::make_shared<Batch>(std::move(next_))] { (void)store->Write(*batch); });
  (void)thread_.Stop(base::IoThread::Clock::now() + kStopTime);
}

Status StoreQueue::AwaitOpen(std::chrono::milliseconds at_most) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  {
    const auto work = boost::asio::make_work_guard(loop_);
    while (is_writing_ && loop_.run_one_until(deadline) > 0) {
    }
  }
  loop_.restart();  // a loop that has run out of work stays stopped
  if (is_writing_) BeginHang();
  return is_taken_ ? status_ : Status();
}

void StoreQueue::Flush(Then then) {
  if (then) then_.push_back(std::move(then));
  if (is_writing_)
    writes_again_ = true;
  else
    Write();
  if (hangs_) DoThen();
}

void StoreQueue::Write() {
  writes_again_ = false;
  in_flight_ = std::move(then_);
  then_.clear();
  is_writing_ = true;
  writing_ticks_ = 0;
  auto batch = std::make_shared<Batch>(std::exchange(next_, {}));
  const auto write = [this, store = store_, mailbox = mailbox_, alive = std::weak_ptr<bool>(alive_), batch] {
    auto written = std::make_shared<Written>();
    written->status = store->Write(*batch);
    written->batch = std::move(*batch);
    written->report = store->TakeReport();
    mailbox->Post([this, alive, written] {
      if (!alive.expired()) OnWritten(std::move(*written));
    });
  };
  if (thread_.Post(write)) return;
  OnWritten({Status(StatusCode::kExhausted, "the store's thread hangs"), std::move(*batch), {}});
}

void StoreQueue::OnWritten(Written written) {
  is_writing_ = false;
  hangs_ = false;
  TakeReport(std::move(written.report), written.batch);
  if (!written.status.ok()) {
    written.batch.Append(std::exchange(next_, {}));
    next_ = std::move(written.batch);
    // They are made again from the observer's data.
    next_.series.clear();
    Bound();
  }
  OnStatus(written.status);
  for (const Then& then : std::exchange(in_flight_, {})) then();
  if (writes_again_ && !is_writing_) Write();
}

void StoreQueue::TakeReport(StoreReport report, const Batch& written) {
  counts_.bytes = report.bytes;
  counts_.set_aside = report.set_aside;
  counts_.changes_lost = report.changes_lost;
  is_taken_ = report.is_taken;
  for (const std::string& note : report.notes) callbacks_.on_note(note);
  if (report.restored) {
    report.restored->Append(written);
    report.restored->Append(next_);
    callbacks_.on_restored(std::move(*report.restored));
  }
  if (report.is_renewed) callbacks_.on_renewal();
}

void StoreQueue::OnStatus(const Status& status) {
  status_ = status;
  const bool was_in_trouble = std::exchange(counts_.in_trouble, !status.ok());
  if (!status.ok() && !was_in_trouble) callbacks_.on_trouble(status.message());
  if (status.ok() && was_in_trouble) callbacks_.on_recovery();
}

void StoreQueue::DoThen() {
  for (const Then& then : std::exchange(in_flight_, {})) then();
  for (const Then& then : std::exchange(then_, {})) then();
}

void StoreQueue::BeginHang() {
  hangs_ = true;
  OnStatus(Status(StatusCode::kTimedOut, "the store does not respond: its disk hangs or is slow"));
}

void StoreQueue::NoticeHang() {
  if (is_writing_ && ++writing_ticks_ >= kHangTicks) BeginHang();
  if (hangs_) DoThen();
  for (const auto& question : questions_)
    if (++question->age >= kHangTicks && !std::exchange(question->is_answered, true)) question->otherwise();
  std::erase_if(questions_, [](const auto& question) { return question->is_answered; });
}

void StoreQueue::Bound() {
  counts_.lines_dropped += next_.DropLines(kLineBytesMax);
  (void)next_.FoldChanges(kChangesMax);
  counts_.changes_dropped += next_.DropChanges(2 * kChangesMax);
  if (counts_.in_trouble) next_.DropDeliveries(kDeliveriesMax);
}

void StoreQueue::Tick(double t) {
  NoticeHang();
  Bound();
  const bool looks = counts_.in_trouble || t - looked_t_ >= kLookSeconds || t < looked_t_;
  if ((looks || !next_.empty()) && !is_writing_) {
    looked_t_ = t;
    Write();
  }
  const bool is_due = has_more_to_prune_ || t - pruned_t_ >= kPruneSeconds || t < pruned_t_;
  if (hangs_ || is_pruning_ || !is_due) return;
  pruned_t_ = t;
  // A full disk most likely has room again because of this.
  is_pruning_ = thread_.Post(
      [this, store = store_, mailbox = mailbox_, alive = std::weak_ptr<bool>(alive_), limits = limits_, t] {
        const Result<bool> pruned = store->Prune(limits, t, kPruneTime);
        mailbox->Post([this, alive, has_more = pruned.ok() && !pruned.value()] {
          if (alive.expired()) return;
          is_pruning_ = false;
          has_more_to_prune_ = has_more;
        });
      });
}

StoreQueue::Counts StoreQueue::counts() const {
  Counts counts = counts_;
  counts.waiting_bytes = next_.line_bytes();
  return counts;
}

void StoreQueue::Ask(std::function<Answer(Store&)> ask, Answer otherwise) {
  if (hangs_) return otherwise();
  const auto question = std::make_shared<Question>(Question{std::move(otherwise)});
  const bool is_posted = thread_.Post([store = store_, mailbox = mailbox_, question, ask = std::move(ask)] {
    // A request that was answered meanwhile belongs to the loop.
    auto answer = std::make_shared<Answer>(store->store() == nullptr ? Answer() : ask(*store->store()));
    mailbox->Post([question, answer] {
      if (std::exchange(question->is_answered, true)) return;
      if (*answer)
        (*answer)();
      else
        question->otherwise();
    });
  });
  if (!is_posted) return question->otherwise();
  questions_.push_back(question);
}

}  // namespace stepwatch::operations
