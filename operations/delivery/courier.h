// Delivers messages: connects the deliverer with the store, the files of secrets, the transport and the requests at the
// intake.
//
// A request to a receiver begins once its rows are safe in the store, or the store cannot be written: a store in
// trouble costs persistence, never delivery. A reply is stored at once. So a kill between the two loses no message, and
// repeats one request of each receiver, marked as repeated; a kill while the store cannot be written may repeat more,
// and marks them. On the loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "operations/delivery/acknowledge_link.h"
#include "operations/delivery/deliverer.h"
#include "operations/delivery/transport.h"
#include "operations/delivery/watchdog.h"
#include "operations/intake/deliveries.h"
#include "operations/intake/service.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations::delivery {

struct CourierOptions {
  std::string state_directory;  // with the key of the links
  std::function<Moment()> now;
  std::function<double()> dice;  // from 0 to 1
  std::function<std::unique_ptr<Transport>()> make_transport = MakeCurlTransport;
  // Adds rows to the next batch of the store.
  std::function<void(Rows rows)> store;
  // Writes the batch; `then` is called when it is written, or cannot be written.
  std::function<void(std::function<void()> then)> flush;
  std::function<void(bool is_trouble, const std::string& text)> log;
};

class Courier final : public Deliveries {
 public:
  // `service` and the loop must outlive it.
  Courier(boost::asio::io_context& loop, CourierOptions options, Service* service);
  ~Courier() override;
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // `public_url`: see ListenSettings.
  void Apply(const DeliverySettings& settings, const std::string& public_url);
  // See Deliverer.
  void Restore(const std::map<std::string, std::string>& rows, bool lacks_some);
  // Adds all rows to the next batch of the store, which may lack them.
  void StoreAgain();
  // Queues the messages of a change. The caller flushes the store.
  void Take(const StoredChange& change);
  // Some times a second: begins the requests that are due.
  void Tick();
  // Before the end: begins no more requests, and runs the loop until the ones in progress end, for this time at most.
  void Finish(std::chrono::milliseconds at_most);
  std::map<std::string, OutboxCounts> Counts() const;

  http::Answer List(size_t limit) const override;
  void Notify(const std::string& receiver, const std::string& body_untrusted, http::OnAnswer then) override;
  bool HasLinks() const override { return links_.has_value(); }
  void AnswerLink(const LinkCall& call, http::OnAnswer then) override;

 private:
  // Alerts of one request, which are queued in pieces.
  struct Webhook {
    std::string receiver;
    http::OnAnswer then;
    std::vector<Notice> notices = {};
    size_t done = 0;
    int64_t taken = 0;
  };

  void Reconcile();
  // Sends an incident that outlasts its silence, unless somebody handles it or it was sent before.
  void EndSilences(const std::set<std::string>& silenced);
  void StoreRows();
  void SendDue();
  void Send(const Sending& sending);
  void SendWith(const Sending& sending, const Result<Secrets>& secrets);
  void End(const Sending& sending, const Judgement& judgement);
  // Asks an address of the watchdog for anything.
  void Ping(const ReceiverSettings& target, Watchdog::Then then);
  void OpenLinks();
  base::IoThread& ThreadFor(const std::string& name);
  // Host and owner, as far as its run reports them.
  void AddRunTo(Notice* notice) const;
  Notice NoticeNow(const StoredIncident& incident) const;
  void TakeSome(const std::shared_ptr<Webhook>& webhook);

  boost::asio::io_context& loop_;
  const CourierOptions options_;
  Service& service_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  DeliverySettings settings_;
  std::string public_url_;
  Deliverer deliverer_;
  std::optional<AcknowledgeLinks> links_;
  std::unique_ptr<Transport> transport_;  // with the first request
  // One for each receiver: a mount that hangs holds up only the receivers whose secrets are there.
  std::map<std::string, std::unique_ptr<base::IoThread>> threads_;
  std::set<std::string> in_trouble_;
  std::set<std::string> silenced_;  // open incidents, by id, as of the last look
  double reconciled_ = 0;
  Watchdog watchdog_;
  bool is_finishing_ = false;
};

}  // namespace stepwatch::operations::delivery
