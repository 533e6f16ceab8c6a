#include "operations/delivery/deliverer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "operations/delivery/message_queue.h"

namespace stepwatch::operations::delivery {
namespace {

std::unique_ptr<Outbox> MakeOutbox(const ReceiverSettings& settings, const std::function<double()>& dice, Rows* rows) {
  if (settings.type == ReceiverType::kAlertmanager) return std::make_unique<AlertBoard>(settings, dice, rows);
  return std::make_unique<MessageQueue>(settings, dice, rows);
}

}  // namespace

void Deliverer::Apply(const DeliverySettings& settings) {
  settings_ = settings;
  std::map<std::string, std::unique_ptr<Outbox>, std::less<>> kept;
  for (const ReceiverSettings& each : settings.receivers) {
    const auto found = outboxes_.find(each.name);
    const bool is_same = found != outboxes_.end() && found->second->settings().type == each.type;
    if (is_same) {
      found->second->Apply(each);
      kept[each.name] = std::move(found->second);
      outboxes_.erase(found);
    } else {
      if (found != outboxes_.end()) found->second->Forget();
      kept[each.name] = MakeOutbox(each, dice_, &rows_);
    }
  }
  for (auto& [name, outbox] : outboxes_) {
    if (outbox) outbox->Forget();
    if (!kept.contains(name) || outbox)
      std::erase_if(sendings_, [&](const auto& sending) { return sending.second == name; });
  }
  outboxes_ = std::move(kept);
}

void Deliverer::Take(const Notice& notice, Moment now) {
  for (const size_t i : ReceiversOf(settings_, notice)) (void)TakeFor(settings_.receivers[i].name, notice, now);
}

bool Deliverer::TakeFor(std::string_view receiver, const Notice& notice, Moment now) {
  const auto found = outboxes_.find(receiver);
  if (found == outboxes_.end()) return false;
  if (notice.t >= doubtful_until_) return found->second->Take(notice, now);
  Notice doubtful = notice;
  doubtful.is_repeated = true;
  return found->second->Take(doubtful, now);
}

void Deliverer::Reconcile(const std::vector<Notice>& open, const std::vector<std::string>& silenced, Moment now) {
  const std::set<std::string> quiet(silenced.begin(), silenced.end());
  for (size_t i = 0; i < settings_.receivers.size(); ++i) {
    auto* board = dynamic_cast<AlertBoard*>(outboxes_.at(settings_.receivers[i].name).get());
    if (board == nullptr) continue;
    std::set<std::string> keys;
    for (const Notice& notice : open) {
      const std::vector<size_t> receivers = ReceiversOf(settings_, notice);
      if (std::find(receivers.begin(), receivers.end(), i) == receivers.end()) continue;
      keys.insert(notice.key);
      (void)board->Take(notice, now);
      board->SetSilenced(notice.key, quiet.contains(notice.key));
    }
    for (Notice notice : board->Open()) {
      if (keys.contains(notice.key)) continue;
      notice.state = NoticeState::kResolved;
      notice.change = notice.key + " resolved";
      notice.t = now.wall;
      (void)board->Take(notice, now);
    }
  }
}

std::vector<Sending> Deliverer::Begin(Moment now) {
  std::vector<Sending> begun;
  for (const auto& [name, outbox] : outboxes_) {
    std::optional<Load> load = outbox->Begin(now);
    if (!load) continue;
    sendings_[++number_] = name;
    begun.push_back({number_, outbox->settings(), std::move(*load)});
  }
  return begun;
}

void Deliverer::End(int64_t number, const Judgement& judgement, Moment now) {
  const auto sending = sendings_.find(number);
  if (sending == sendings_.end()) return;
  const std::string receiver = sending->second;
  sendings_.erase(sending);
  outboxes_.at(receiver)->End(judgement, now);
}

void Deliverer::Restore(const std::map<std::string, std::string>& rows, bool lacks_some, Moment now) {
  if (lacks_some) doubtful_until_ = now.wall;
  for (const auto& [key, text] : rows) {
    const auto outbox = outboxes_.find(key.substr(0, key.find('\t')));
    Result<Message> message = MessageOfRow(text);
    if (lacks_some && message.ok() && message.value().state == MessageState::kWaiting) {
      message.value().notice.is_repeated = true;
      // Another kill before it is sent must not lose the mark.
      rows_.insert_or_assign(key, RowOf(message.value()));
    }
    if (outbox != outboxes_.end() && message.ok())
      outbox->second->Restore(std::move(message).value());
    else
      rows_.insert_or_assign(key, std::nullopt);
  }
}

Rows Deliverer::TakeRows() {
  return std::exchange(rows_, {});
}

void Deliverer::StoreAgain() {
  rows_.clear();
  for (const auto& [name, outbox] : outboxes_) outbox->StoreAgain();
}

std::vector<Deliverer::View> Deliverer::Views(bool with_messages) const {
  std::vector<View> views;
  for (const auto& [name, outbox] : outboxes_) {
    View view{name, outbox->settings().type, outbox->counts(), {}, {}};
    if (with_messages) {
      view.waiting = outbox->Waiting();
      view.finished = outbox->Finished();
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace stepwatch::operations::delivery
