#include "operations/delivery/message_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stepwatch::operations::delivery {
namespace {

// The row with the number of folded messages; no change of an incident has this name.
constexpr const char* kFolded = "\tfolded";
// A digest names so many messages.
constexpr size_t kNamedMax = 10;

}  // namespace

bool MessageQueue::Take(const Notice& notice, Moment now) {
  if (IsKnown(notice.change)) return false;
  Know(notice.change);
  if (waiting_.size() >= (SendsEach() ? kWaitingMaxOfWebhook : kWaitingMax)) FoldOne();
  Message message;
  message.notice = notice;
  message.queued_t = message.changed_t = now.wall;
  Write(notice.change, message);
  waiting_.push_back(std::move(message));
  return true;
}

void MessageQueue::FoldOne() {
  const auto least = std::min_element(waiting_.begin(), waiting_.end(), [](const Message& a, const Message& b) {
    return a.notice.severity < b.notice.severity;
  });
  Remove(least->notice.change);
  waiting_.erase(least);
  SetFolded(folded_ + 1);
}

void MessageQueue::SetFolded(int64_t folded) {
  folded_ = folded;
  if (folded_ == 0 && folded_sending_ == 0) return Remove(kFolded);
  Message row;
  row.notice.key = row.notice.change = kFolded;
  row.attempts = folded_ + folded_sending_;
  Write(kFolded, row);
}

std::optional<Load> MessageQueue::Begin(Moment now) {
  if (waiting_.empty()) return std::nullopt;
  const double room = pace_.Room(now.running);
  if (room < 1) return std::nullopt;
  pace_.Begin();
  const bool is_little = static_cast<double>(waiting_.size()) <= room && folded_ == 0;
  Load load = SendsEach() ? TakeBatch() : is_little ? TakeOne() : TakeDigest();
  for (Message& each : sending_) {
    each.state = MessageState::kSending;
    each.changed_t = now.wall;
    Write(each.notice.change, each);
  }
  return load;
}

Load MessageQueue::TakeOne() {
  sending_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return {{sending_.front().notice}, 0};
}

Load MessageQueue::TakeBatch() {
  Load load;
  const auto count = static_cast<std::ptrdiff_t>(std::min(NoticesMax(settings_.type), waiting_.size()));
  std::move(waiting_.begin(), waiting_.begin() + count, std::back_inserter(sending_));
  waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  for (const Message& each : sending_) load.notices.push_back(each.notice);
  load.more = static_cast<size_t>(folded_);
  folded_sending_ = std::exchange(folded_, 0);
  return load;
}

// It names the most severe ones.
Load MessageQueue::TakeDigest() {
  sending_.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  std::vector<Message*> by_severity;
  for (Message& each : sending_) by_severity.push_back(&each);
  std::stable_sort(by_severity.begin(), by_severity.end(),
                   [](const Message* a, const Message* b) { return a->notice.severity > b->notice.severity; });
  const size_t named = std::min(kNamedMax, by_severity.size());
  for (size_t i = 0; i < by_severity.size(); ++i) by_severity[i]->is_counted = i >= named;
  Load load;
  for (const Message& each : sending_)
    if (!each.is_counted) load.notices.push_back(each.notice);
  load.more = sending_.size() - named + static_cast<size_t>(folded_);
  folded_sending_ = std::exchange(folded_, 0);
  return load;
}

void MessageQueue::End(const Judgement& judgement, Moment now) {
  if (!pace_.is_sending()) return;
  pace_.End(judgement, now.running);
  Count(judgement);
  const int64_t folded = std::exchange(folded_sending_, 0);
  const bool is_sent = judgement.verdict == Verdict::kSent, is_rejected = judgement.verdict == Verdict::kRejected;
  if (is_sent) counts_.digested += folded;
  if (is_rejected) counts_.dead += folded;
  if (folded > 0) SetFolded(is_sent || is_rejected ? folded_ : folded_ + folded);
  std::vector<Message> again;
  for (Message& each : std::exchange(sending_, {})) {
    each.reason = judgement.reason;
    if (is_sent) {
      counts_.digested += each.is_counted ? 1 : 0;
      Finish(std::move(each), MessageState::kSent, now);
      continue;
    }
    ++each.attempts;
    each.is_counted = false;
    // The wall clock may have been set: a message gets some attempts in any case.
    constexpr int64_t kAttemptsMin = 10;
    const bool is_too_old = now.wall - each.queued_t > kAgeSecondsMax && each.attempts >= kAttemptsMin;
    if (is_rejected || is_too_old) {
      ++counts_.dead;
      Finish(std::move(each), MessageState::kDead, now);
      continue;
    }
    each.state = MessageState::kWaiting;
    Write(each.notice.change, each);
    again.push_back(std::move(each));
  }
  waiting_.insert(waiting_.begin(), std::make_move_iterator(again.begin()), std::make_move_iterator(again.end()));
  while (waiting_.size() > (SendsEach() ? kWaitingMaxOfWebhook : kWaitingMax)) FoldOne();
}

void MessageQueue::Restore(Message message) {
  if (message.notice.change == kFolded) return SetFolded(folded_ + std::max(int64_t{0}, message.attempts));
  if (IsKnown(message.notice.change)) return;
  if (message.state == MessageState::kSent || message.state == MessageState::kDead)
    return RestoreFinished(std::move(message));
  Know(message.notice.change);
  if (message.state == MessageState::kSending) message.notice.is_repeated = true;
  message.state = MessageState::kWaiting;
  message.is_counted = false;
  const auto later = std::upper_bound(waiting_.begin(), waiting_.end(), message.queued_t,
                                      [](double t, const Message& each) { return t < each.queued_t; });
  waiting_.insert(later, std::move(message));
}

void MessageQueue::StoreAgain() {
  StoreFinishedAgain();
  for (const Message& each : waiting_) Write(each.notice.change, each);
  for (const Message& each : sending_) Write(each.notice.change, each);
  if (folded_ + folded_sending_ > 0) SetFolded(folded_);
}

void MessageQueue::Forget() {
  ForgetFinished();
  for (const Message& each : waiting_) Remove(each.notice.change);
  for (const Message& each : sending_) Remove(each.notice.change);
  Remove(kFolded);
}

std::vector<Message> MessageQueue::Waiting() const {
  std::vector<Message> all = sending_;
  all.insert(all.end(), waiting_.begin(), waiting_.end());
  return all;
}

OutboxCounts MessageQueue::counts() const {
  OutboxCounts counts = counts_;
  counts.waiting = static_cast<int64_t>(waiting_.size() + sending_.size()) + folded_ + folded_sending_;
  return counts;
}

}  // namespace stepwatch::operations::delivery
