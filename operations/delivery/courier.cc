#include "operations/delivery/courier.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "operations/delivery/secrets.h"
#include "operations/delivery/translate.h"
#include "operations/intake/json_answers.h"
#include "src/base/text.h"

namespace stepwatch::operations::delivery {
namespace {

// An Alertmanager forgets an open alert after some minutes; new and ended silences are noticed as late as this.
constexpr double kReconcileSeconds = 30;
// Names of threads beside those of receivers, whose names have no space.
constexpr const char* kWatchdogName = "the watchdog";
constexpr const char* kLinksName = "the links";
constexpr const char* kWebhooksName = "the webhooks";

Json MessageJson(const std::string& receiver, const Message& message) {
  const Notice& notice = message.notice;
  return {{"receiver", receiver},
          {"state", NameOf(message.state)},
          {"incident", notice.key},
          {"change", NameOf(notice.state)},
          {"kind", notice.kind},
          {"severity", operations::NameOf(notice.severity)},
          {"run", notice.run},
          {"title", notice.title},
          {"t", notice.t},
          {"queued_t", message.queued_t},
          {"changed_t", message.changed_t},
          {"attempts", message.attempts},
          {"only_counted", message.is_counted},
          {"repeated", notice.is_repeated},
          {"reason", json::OrNull(message.reason)}};
}

http::Answer Page(int status, std::string body) {
  http::Answer answer;
  answer.status = status;
  answer.content_type = "text/html; charset=utf-8";
  answer.body = std::move(body);
  return answer;
}

http::Answer NoSuchLink() {
  return Page(404, PlainPage("Not found", "The link is not valid, or it has expired: links are valid for a day."));
}

// The incident of a message may be acknowledged by its link.
bool IsOpenIncident(const StoredIncident* incident) {
  return incident != nullptr && incident->incident.state != IncidentState::kResolved && !incident->acknowledgement;
}

}  // namespace

Courier::Courier(boost::asio::io_context& loop, CourierOptions options, Service* service)
    : loop_(loop),
      options_(std::move(options)),
      service_(*service),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      deliverer_(options_.dice),
      watchdog_({[this](const ReceiverSettings& target, Watchdog::Then then) { Ping(target, std::move(then)); },
                 [this](const Notice& notice) {
                   for (const size_t i : ReceiversOf(settings_, notice))
                     if (settings_.receivers[i].type != ReceiverType::kAlertmanager)
                       (void)deliverer_.TakeFor(settings_.receivers[i].name, notice, options_.now());
                   StoreRows();
                 },
                 options_.log}) {}

Courier::~Courier() {
  mailbox_->Close();
}

void Courier::Apply(const DeliverySettings& settings, const std::string& public_url) {
  settings_ = settings;
  public_url_ = public_url;
  deliverer_.Apply(settings);
  std::erase_if(threads_, [&](const auto& each) {
    return each.first.find(' ') == std::string::npos && !deliverer_.Has(each.first);
  });
  OpenLinks();
  reconciled_ = -kReconcileSeconds;
  StoreRows();
}

void Courier::OpenLinks() {
  if (public_url_.empty()) return links_.reset();
  if (links_) return;
  const auto take = [this](const Result<AcknowledgeLinks>& opened) {
    if (!opened.ok())
      options_.log(true, "messages have no link to acknowledge incidents: " + opened.status().message());
    else if (!public_url_.empty())
      links_ = opened.value();
  };
  (void)ThreadFor(kLinksName).Post([take, mailbox = mailbox_, directory = options_.state_directory] {
    const auto opened = std::make_shared<Result<AcknowledgeLinks>>(AcknowledgeLinks::Open(directory));
    mailbox->Post([take, opened] { take(*opened); });
  });
}

base::IoThread& Courier::ThreadFor(const std::string& name) {
  std::unique_ptr<base::IoThread>& thread = threads_[name];
  if (!thread) thread = std::make_unique<base::IoThread>("stepwatch-keys");
  return *thread;
}

void Courier::Finish(std::chrono::milliseconds at_most) {
  is_finishing_ = true;
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  while (deliverer_.is_sending() && loop_.run_one_until(deadline) > 0) {
  }
}

void Courier::Restore(const std::map<std::string, std::string>& rows, bool lacks_some) {
  deliverer_.Restore(rows, lacks_some, options_.now());
  // A silence may have ended while no stepwatchd ran.
  for (const StoredIncident& each : service_.incidents().Open())
    if (service_.incidents().SilenceOf(each.incident, each.incident.opened_t) != nullptr)
      silenced_.insert(each.incident.id);
  reconciled_ = -kReconcileSeconds;
  StoreRows();
}

void Courier::StoreAgain() {
  deliverer_.StoreAgain();
  StoreRows();
}

void Courier::StoreRows() {
  Rows rows = deliverer_.TakeRows();
  if (!rows.empty()) options_.store(std::move(rows));
}

void Courier::AddRunTo(Notice* notice) const {
  const std::optional<RunSnapshot> run = service_.Run(notice->run);
  if (!run) return;
  if (notice->host.empty() && run->hosts.size() == 1)
    notice->host = base::Printable(run->hosts.front(), Notice::kNameBytesMax);
  notice->owner = base::Printable(run->owner, Notice::kNameBytesMax);
}

Notice Courier::NoticeNow(const StoredIncident& incident) const {
  StoredChange change{incident.number, std::string(NameOf(incident.incident.state)), incident.incident,
                      incident.acknowledgement};
  if (incident.acknowledgement && incident.incident.state != IncidentState::kResolved) change.what = "acknowledged";
  Notice notice = NoticeOf(change, {settings_.link, {}});
  AddRunTo(&notice);
  return notice;
}

void Courier::Take(const StoredChange& change) {
  if (settings_.receivers.empty() || change.what == "updated") return;
  if (service_.incidents().SilenceOf(change.incident, service_.t()) != nullptr) {
    silenced_.insert(change.incident.id);
    return;
  }
  Notice notice = NoticeOf(change, {settings_.link, {}});
  AddRunTo(&notice);
  deliverer_.Take(notice, options_.now());
  StoreRows();
}

void Courier::Reconcile() {
  const Moment now = options_.now();
  if (now.running - reconciled_ < kReconcileSeconds) return;
  reconciled_ = now.running;
  std::set<std::string> silenced;
  for (const StoredIncident& each : service_.incidents().Open())
    if (service_.incidents().SilenceOf(each.incident, service_.t()) != nullptr) silenced.insert(each.incident.id);
  EndSilences(silenced);
  if (std::none_of(settings_.receivers.begin(), settings_.receivers.end(),
                   [](const ReceiverSettings& each) { return each.type == ReceiverType::kAlertmanager; }))
    return;
  std::vector<Notice> open;
  std::vector<std::string> quiet;
  for (const StoredIncident& each : service_.incidents().Open()) {
    open.push_back(NoticeNow(each));
    if (silenced.contains(each.incident.id)) quiet.push_back(open.back().key);
  }
  deliverer_.Reconcile(open, quiet, now);
}

void Courier::EndSilences(const std::set<std::string>& silenced) {
  for (const std::string& id : std::exchange(silenced_, silenced)) {
    const StoredIncident* incident = service_.incidents().Find(id);
    if (!silenced.contains(id) && IsOpenIncident(incident)) deliverer_.Take(NoticeNow(*incident), options_.now());
  }
}

void Courier::Tick() {
  Reconcile();
  SendDue();
  watchdog_.Tick(settings_, options_.now());
}

// --- sending ---

void Courier::SendDue() {
  if (is_finishing_) return;
  const std::vector<Sending> due = deliverer_.Begin(options_.now());
  StoreRows();
  if (due.empty()) return;
  // The store may outlive this object, so the work comes back through the mailbox.
  options_.flush([this, mailbox = mailbox_, due] {
    mailbox->Post([this, due] {
      for (const Sending& each : due) Send(each);
    });
  });
}

void Courier::Send(const Sending& sending) {
  const bool is_posted = ThreadFor(sending.receiver.name).Post([this, mailbox = mailbox_, sending] {
    const auto secrets = std::make_shared<Result<Secrets>>(ReadSecrets(sending.receiver, base::FileSystem::Real()));
    mailbox->Post([this, sending, secrets] { SendWith(sending, *secrets); });
  });
  if (!is_posted) End(sending, {Verdict::kRetry, "the files with the secrets cannot be read: their mount hangs", {}});
}

void Courier::SendWith(const Sending& sending, const Result<Secrets>& secrets) {
  if (!secrets.ok()) return End(sending, {Verdict::kRetry, secrets.status().message(), {}});
  const double now = options_.now().wall;
  std::vector<Notice> notices = sending.load.notices;
  if (links_)
    for (Notice& each : notices)
      if (each.state == NoticeState::kOpened && IsOpenIncident(service_.incidents().Find(each.key)))
        each.acknowledge_link = links_->LinkTo(public_url_, each.key, now);
  Result<Outgoing> outgoing = MakeOutgoing(sending.receiver, secrets.value(), notices, sending.load.more, now);
  if (!outgoing.ok()) return End(sending, {Verdict::kRetry, outgoing.status().message(), {}});
  if (!transport_) transport_ = options_.make_transport();
  transport_->Send(std::move(outgoing).value(), [this, mailbox = mailbox_, sending](Reply reply) {
    mailbox->Post([this, sending, reply = std::move(reply)] { End(sending, Judge(sending.receiver.type, reply)); });
  });
}

void Courier::End(const Sending& sending, const Judgement& judgement) {
  deliverer_.End(sending.number, judgement, options_.now());
  StoreRows();
  options_.flush({});
  const std::string& name = sending.receiver.name;
  if (judgement.verdict == Verdict::kSent) {
    if (in_trouble_.erase(name) > 0) options_.log(false, "receiver " + name + " accepts messages again");
    return SendDue();
  }
  if (judgement.verdict == Verdict::kRejected)
    options_.log(true, "receiver " + name + " rejects a message, which is kept as a dead letter: " + judgement.reason);
  else if (in_trouble_.insert(name).second)
    options_.log(true, "cannot send to receiver " + name + ": " + judgement.reason + "; messages wait and are retried");
}

void Courier::Ping(const ReceiverSettings& target, Watchdog::Then then) {
  const auto send = [this, target, then](const Result<Secrets>& secrets) {
    if (!secrets.ok()) return then({Verdict::kRetry, secrets.status().message(), {}});
    if (!transport_) transport_ = options_.make_transport();
    Outgoing outgoing;
    outgoing.method = "GET";
    outgoing.url = secrets.value().url.empty() ? target.url : secrets.value().url;
    outgoing.secrets = {outgoing.url};
    transport_->Send(std::move(outgoing), [then, mailbox = mailbox_](Reply reply) {
      mailbox->Post([then, reply = std::move(reply)] { then(Judge(ReceiverType::kWebhook, reply)); });
    });
  };
  const bool is_posted = ThreadFor(kWatchdogName).Post([target, send, mailbox = mailbox_] {
    const auto secrets = std::make_shared<Result<Secrets>>(ReadSecrets(target, base::FileSystem::Real()));
    mailbox->Post([send, secrets] { send(*secrets); });
  });
  if (!is_posted) then({Verdict::kRetry, "the file with its address cannot be read: its mount hangs", {}});
}

// --- requests ---

std::map<std::string, OutboxCounts> Courier::Counts() const {
  std::map<std::string, OutboxCounts> counts;
  for (const Deliverer::View& each : deliverer_.Views(false)) counts[each.receiver] = each.counts;
  return counts;
}

http::Answer Courier::List(size_t limit) const {
  Json receivers = Json::array();
  std::vector<std::pair<std::string, Message>> waiting, sent, dead;
  for (Deliverer::View& view : deliverer_.Views(true)) {
    receivers.push_back({{"name", view.receiver},
                         {"type", NameOf(view.type)},
                         {"sent", view.counts.sent},
                         {"failed", view.counts.failed},
                         {"digested", view.counts.digested},
                         {"dead_letters", view.counts.dead},
                         {"waiting", view.counts.waiting},
                         {"trouble", json::OrNull(view.counts.trouble)}});
    for (Message& each : view.waiting) waiting.emplace_back(view.receiver, std::move(each));
    for (Message& each : view.finished)
      (each.state == MessageState::kDead ? dead : sent).emplace_back(view.receiver, std::move(each));
  }
  const auto newest = [&](std::vector<std::pair<std::string, Message>>& list) {
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.second.changed_t > b.second.changed_t; });
    Json shown = Json::array();
    for (size_t i = 0; i < std::min(limit, list.size()); ++i)
      shown.push_back(MessageJson(list[i].first, list[i].second));
    return shown;
  };
  return AnswerWith({{"receivers", std::move(receivers)},
                     {"waiting", newest(waiting)},
                     {"dead_letters", newest(dead)},
                     {"sent", newest(sent)}});
}

void Courier::Notify(const std::string& receiver, const std::string& body_untrusted, http::OnAnswer then) {
  const auto found = std::find_if(settings_.receivers.begin(), settings_.receivers.end(),
                                  [&](const ReceiverSettings& each) { return each.name == receiver; });
  if (found == settings_.receivers.end())
    return then(Missing("unknown receiver " + base::Printable(receiver) +
                        "; the receivers are those of \"delivery.receivers\" in the settings"));
  // An alert that goes back to where it came from would never end.
  if (found->type == ReceiverType::kAlertmanager)
    return then(http::BadRequest("receiver " + receiver + " is an Alertmanager, which gets no alerts of another one"));
  // Reading the largest body takes many times as long as the loop may stand still.
  const auto webhook = std::make_shared<Webhook>(Webhook{receiver, then});
  const bool is_posted = ThreadFor(kWebhooksName).Post([this, mailbox = mailbox_, webhook, body = body_untrusted] {
    const auto notices = std::make_shared<Result<std::vector<Notice>>>(NoticesOfWebhook(body));
    mailbox->Post([this, webhook, notices] {
      if (!notices->ok()) return webhook->then(http::BadRequest(notices->status().message()));
      webhook->notices = std::move(*notices).value();
      TakeSome(webhook);
    });
  });
  if (!is_posted) then(http::Busy("the alerts of too many other requests are still being read"));
}

void Courier::TakeSome(const std::shared_ptr<Webhook>& webhook) {
  constexpr std::chrono::milliseconds kTurn{5};
  const auto end = std::chrono::steady_clock::now() + kTurn;
  const Moment now = options_.now();
  while (webhook->done < webhook->notices.size()) {
    const Notice& each = webhook->notices[webhook->done++];
    if (settings_.watchdog_expected_seconds > 0 && each.kind == "Watchdog") {
      if (each.state == NoticeState::kOpened) watchdog_.Hear(now);
    } else if (deliverer_.TakeFor(webhook->receiver, each, now)) {
      ++webhook->taken;
    }
    if (std::chrono::steady_clock::now() < end || webhook->done == webhook->notices.size()) continue;
    StoreRows();
    return service_.Later([this, webhook] { TakeSome(webhook); });
  }
  StoreRows();
  options_.flush([this, webhook] {
    // Without the store a kill would lose them: the sender keeps them, and sends them again.
    if (const Status ready = service_.Ready(); !ready.ok()) return webhook->then(http::Busy(ready.message()));
    const auto known = static_cast<int64_t>(webhook->notices.size()) - webhook->taken;
    webhook->then(AnswerWith({{"taken", webhook->taken}, {"known", known}}));
  });
}

void Courier::AnswerLink(const LinkCall& call, http::OnAnswer then) {
  const std::optional<std::string> id = links_ ? links_->IncidentOf(call.parts, service_.t()) : std::nullopt;
  const StoredIncident* found = id ? service_.incidents().Find(*id) : nullptr;
  if (found == nullptr) return then(NoSuchLink());
  const Notice notice = NoticeNow(*found);
  std::optional<std::string> by;
  if (found->acknowledgement) by = found->acknowledgement->by;
  if (!call.acknowledges || by) return then(Page(200, AcknowledgePage(notice, by)));
  const Acknowledgement acknowledgement{NameInForm(call.body_untrusted), "", service_.t()};
  const auto answer = [notice, name = acknowledgement.by, then] { then(Page(200, AcknowledgePage(notice, name))); };
  if (!service_.Acknowledge(*id, acknowledgement, answer)) then(NoSuchLink());
}

}  // namespace stepwatch::operations::delivery
