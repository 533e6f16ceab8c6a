#include "operations/delivery/outbox.h"

#include <algorithm>
#include <utility>

namespace stepwatch::operations::delivery {
namespace {

double PerMinute(const ReceiverSettings& settings) {
  return settings.per_minute.value_or(PerMinuteOf(settings.type));
}

}  // namespace

double Pace::Room(double running) {
  if (is_sending_ || running < due_) return 0;
  return bucket_.Tokens(running);
}

void Pace::Begin() {
  is_sending_ = true;
  bucket_.Use();
}

void Pace::End(const Judgement& judgement, double running) {
  is_sending_ = false;
  if (judgement.verdict == Verdict::kSent || judgement.verdict == Verdict::kRejected) return retry_.Reset();
  // From half the pause to one and a half, so that many senders do not come back together.
  const double pause = retry_.Next() * (0.5 + dice_());
  due_ = running + std::max(pause, judgement.retry_after.value_or(0));
}

Outbox::Outbox(const ReceiverSettings& settings, std::function<double()> dice, Rows* rows)
    : settings_(settings), pace_(PerMinute(settings), std::move(dice)), rows_(rows) {}

void Outbox::Apply(const ReceiverSettings& settings) {
  if (PerMinute(settings) != PerMinute(settings_)) pace_.SetPerMinute(PerMinute(settings));
  settings_ = settings;
}

std::vector<Message> Outbox::Finished() const {
  std::vector<Message> all(dead_.begin(), dead_.end());
  all.insert(all.end(), sent_.begin(), sent_.end());
  return all;
}

void Outbox::Write(const std::string& id, const Message& message) {
  rows_->insert_or_assign(KeyOf(id), RowOf(message));
}

void Outbox::Know(const std::string& change) {
  const size_t hash = std::hash<std::string>()(change);
  if (!known_.insert(hash).second) return;
  known_order_.push_back(hash);
  if (known_order_.size() <= kKnownMax) return;
  known_.erase(known_order_.front());
  known_order_.pop_front();
}

void Outbox::Finish(Message message, MessageState state, Moment now) {
  message.state = state;
  message.changed_t = now.wall;
  Write(message.notice.change, message);
  // They are no longer sent, and only shown.
  message.notice.evidence.clear();
  message.notice.labels.clear();
  message.notice.advice.clear();
  message.notice.advice_zh.clear();
  message.notice.title_zh.clear();
  Keep(std::move(message));
}

void Outbox::Keep(Message message) {
  const bool is_dead = message.state == MessageState::kDead;
  std::deque<Message>& list = is_dead ? dead_ : sent_;
  list.push_back(std::move(message));
  if (list.size() <= (is_dead ? kDeadMax : kSentMax)) return;
  Remove(list.front().notice.change);
  list.pop_front();
}

void Outbox::Count(const Judgement& judgement) {
  if (judgement.verdict == Verdict::kSent)
    ++counts_.sent;
  else
    ++counts_.failed;
  counts_.trouble = judgement.reason;
}

void Outbox::RestoreFinished(Message message) {
  Know(message.notice.change);
  if (message.state == MessageState::kDead) ++counts_.dead;
  Keep(std::move(message));
}

void Outbox::StoreFinishedAgain() {
  for (const auto* list : {&sent_, &dead_})
    for (const Message& each : *list) Write(each.notice.change, each);
}

void Outbox::ForgetFinished() {
  for (const auto* list : {&sent_, &dead_})
    for (const Message& each : *list) Remove(each.notice.change);
}

}  // namespace stepwatch::operations::delivery
