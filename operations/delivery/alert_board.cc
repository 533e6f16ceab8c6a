#include "operations/delivery/alert_board.h"

#include <algorithm>
#include <utility>

namespace stepwatch::operations::delivery {
namespace {

constexpr double kIntervalSeconds = 60;

}  // namespace

double AlertBoard::Interval() const {
  return std::min(kIntervalSeconds, settings_.lasts_seconds / 3);
}

bool AlertBoard::Take(const Notice& notice, Moment now) {
  const auto found = alerts_.find(notice.key);
  const bool is_new = found == alerts_.end();
  if (is_new && notice.state == NoticeState::kResolved) return false;
  if (is_new && alerts_.size() >= kAlertsMax) {
    ++dropped_;
    return false;
  }
  Alert& alert = is_new ? alerts_[notice.key] : found->second;
  const bool is_change = is_new || alert.message.notice.change != notice.change;
  // An alert that has ended stays so: a late change of it says nothing new.
  if (!is_new && alert.message.notice.state == NoticeState::kResolved && notice.state != NoticeState::kResolved)
    return false;
  Notice taken = notice;
  if (!is_new) {
    // They are labels, and an alert with other labels is another one.
    taken.host = alert.message.notice.host;
    taken.owner = alert.message.notice.owner;
  }
  alert.message.notice = std::move(taken);
  if (!is_change) return false;
  Know(notice.change);
  alert.message.state = MessageState::kWaiting;
  alert.message.queued_t = alert.message.changed_t = now.wall;
  alert.is_dirty = has_dirty_ = true;
  Write(notice.key, alert.message);
  return true;
}

std::optional<Load> AlertBoard::Begin(Moment now) {
  if (!has_dirty_ && now.running < due_) return std::nullopt;
  if (pace_.Room(now.running) < 1) return std::nullopt;
  const size_t most = batch_max_ == 0 ? NoticesMax(settings_.type) : batch_max_;
  Load load;
  has_dirty_ = false;
  due_ = now.running + 1;
  const auto add = [&](const std::string& key, const Alert& alert) {
    sending_.emplace_back(key, alert.message.notice.change);
    load.notices.push_back(alert.message.notice);
  };
  for (const auto& [key, alert] : alerts_)
    if (alert.is_dirty && !alert.is_silenced) {
      if (load.notices.size() == most) {
        has_dirty_ = true;
        break;
      }
      add(key, alert);
    }
  for (const auto& [key, alert] : alerts_) {
    if (load.notices.size() == most) break;
    if (!alert.is_dirty && !alert.is_silenced && now.running - alert.posted >= Interval()) add(key, alert);
  }
  if (load.notices.empty()) return std::nullopt;
  pace_.Begin();
  return load;
}

void AlertBoard::End(const Judgement& judgement, Moment now) {
  if (!pace_.is_sending()) return;
  pace_.End(judgement, now.running);
  Count(judgement);
  const size_t count = sending_.size();
  const bool is_rejected = judgement.verdict == Verdict::kRejected;
  // One alert that is not accepted must not hold up the others: a request that is rejected is divided.
  if (is_rejected && count > 1) {
    batch_max_ = std::max<size_t>(1, count / 2);
    sending_.clear();
    has_dirty_ = true;
    return;
  }
  if (judgement.verdict == Verdict::kSent && batch_max_ > 0)
    batch_max_ = 2 * batch_max_ >= NoticesMax(settings_.type) ? 0 : 2 * batch_max_;
  for (const auto& [key, change] : std::exchange(sending_, {})) Settle(key, change, judgement, now);
}

void AlertBoard::Settle(const std::string& key, const std::string& change, const Judgement& judgement, Moment now) {
  const auto found = alerts_.find(key);
  if (found == alerts_.end()) return;
  Alert& alert = found->second;
  alert.message.reason = judgement.reason;
  const bool is_same = alert.message.notice.change == change;
  const bool is_over = alert.message.notice.state == NoticeState::kResolved;
  if (judgement.verdict != Verdict::kSent && judgement.verdict != Verdict::kRejected) {
    ++alert.message.attempts;
    has_dirty_ = has_dirty_ || alert.is_dirty;
    return;
  }
  alert.posted = now.running;
  if (!is_same) {
    has_dirty_ = true;
    return;
  }
  if (!std::exchange(alert.is_dirty, false)) return;
  const bool is_sent = judgement.verdict == Verdict::kSent;
  if (!is_sent) ++counts_.dead;
  Message done = alert.message;
  Finish(std::move(done), is_sent ? MessageState::kSent : MessageState::kDead, now);
  if (is_over) {
    Remove(key);
    alerts_.erase(found);
    return;
  }
  // A rejected one is tried again at the next turn of the open ones.
  alert.message.state = MessageState::kOpen;
  alert.message.changed_t = now.wall;
  Write(key, alert.message);
}

void AlertBoard::Restore(Message message) {
  if (message.state == MessageState::kSent || message.state == MessageState::kDead) {
    if (!IsKnown(message.notice.change)) RestoreFinished(std::move(message));
    return;
  }
  if (alerts_.contains(message.notice.key) || alerts_.size() >= kAlertsMax) return;
  Know(message.notice.change);
  Alert alert;
  alert.is_dirty = message.state != MessageState::kOpen;
  has_dirty_ = has_dirty_ || alert.is_dirty;
  alert.message = std::move(message);
  alerts_.insert_or_assign(alert.message.notice.key, std::move(alert));
}

void AlertBoard::StoreAgain() {
  StoreFinishedAgain();
  for (const auto& [key, alert] : alerts_) Write(key, alert.message);
}

void AlertBoard::Forget() {
  ForgetFinished();
  for (const auto& [key, alert] : alerts_) Remove(key);
}

std::vector<Message> AlertBoard::Waiting() const {
  std::vector<Message> all;
  for (const auto& [key, alert] : alerts_) all.push_back(alert.message);
  return all;
}

OutboxCounts AlertBoard::counts() const {
  OutboxCounts counts = counts_;
  counts.dead += dropped_;
  for (const auto& [key, alert] : alerts_) counts.waiting += alert.is_dirty ? 1 : 0;
  return counts;
}

std::vector<Notice> AlertBoard::Open() const {
  std::vector<Notice> open;
  for (const auto& [key, alert] : alerts_)
    if (alert.message.notice.state != NoticeState::kResolved) open.push_back(alert.message.notice);
  return open;
}

void AlertBoard::SetSilenced(const std::string& key, bool is_silenced) {
  const auto found = alerts_.find(key);
  if (found == alerts_.end()) return;
  has_dirty_ = has_dirty_ || (found->second.is_silenced && !is_silenced && found->second.is_dirty);
  found->second.is_silenced = is_silenced;
}

}  // namespace stepwatch::operations::delivery
