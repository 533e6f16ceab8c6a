// Decides which message goes to which receiver, and when: routes, rates, digests, retries, dead letters. Pure: time and
// dice are given, and rows of the store come out.
//
// Memory is bounded by the limits of Outbox, MessageQueue and AlertBoard for each of kReceiversMax receivers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "operations/delivery/alert_board.h"
#include "operations/delivery/delivery_settings.h"
#include "operations/delivery/outbox.h"

namespace stepwatch::operations::delivery {

// A request that begins. `number` names it to End.
struct Sending {
  int64_t number = 0;
  ReceiverSettings receiver;
  Load load;
};

class Deliverer {
 public:
  // `dice`: numbers from 0 to 1.
  explicit Deliverer(std::function<double()> dice) : dice_(std::move(dice)) {}

  // Messages for receivers that are no longer there are forgotten.
  void Apply(const DeliverySettings& settings);
  // Queues a notice for the receivers of its route.
  void Take(const Notice& notice, Moment now);
  // Queues a notice for one receiver, which must exist. False: this change is known already.
  bool TakeFor(std::string_view receiver, const Notice& notice, Moment now);
  // The present incidents: alerts that an Alertmanager lacks are posted, those of incidents that are over end. Notices
  // of `silenced` are known by their keys.
  void Reconcile(const std::vector<Notice>& open, const std::vector<std::string>& silenced, Moment now);

  // Requests that are due. The rows must be safe before each is sent.
  std::vector<Sending> Begin(Moment now);
  // A number that is unknown, as after a receiver was removed, changes nothing.
  void End(int64_t number, const Judgement& judgement, Moment now);

  // Rows of the previous process. `lacks_some`: it may have sent more than they show, so messages of changes before
  // `now` are marked as repeated.
  void Restore(const std::map<std::string, std::string>& rows, bool lacks_some, Moment now);
  // The rows that changed since the last call.
  Rows TakeRows();
  // All rows, as of now.
  void StoreAgain();

  struct View {
    std::string receiver;
    ReceiverType type;
    OutboxCounts counts;
    std::vector<Message> waiting;
    std::vector<Message> finished;
  };
  std::vector<View> Views(bool with_messages) const;
  bool is_sending() const { return !sendings_.empty(); }
  bool Has(std::string_view receiver) const { return outboxes_.contains(receiver); }

 private:
  std::function<double()> dice_;
  DeliverySettings settings_;
  Rows rows_;
  std::map<std::string, std::unique_ptr<Outbox>, std::less<>> outboxes_;
  std::map<int64_t, std::string> sendings_;
  int64_t number_ = 0;
  double doubtful_until_ = 0;  // earlier changes may have been sent by the previous process
};

}  // namespace stepwatch::operations::delivery
