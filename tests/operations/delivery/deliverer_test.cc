#include "operations/delivery/deliverer.h"

#include <algorithm>
#include <deque>
#include <random>
#include <set>

#include "operations/delivery/message_queue.h"
#include "tests/catch.h"
#include "tests/rounds.h"

namespace stepwatch::operations::delivery {
namespace {

constexpr double kStart = 1.8e9;

Notice NoticeFor(const std::string& incident, NoticeState state = NoticeState::kOpened,
                 Severity severity = Severity::kWarning) {
  Notice notice;
  notice.key = incident;
  notice.change = incident + " " + std::string(NameOf(state));
  notice.state = state;
  notice.severity = severity;
  notice.kind = "stuck";
  notice.title = "the run makes no progress";
  notice.run = "run-1";
  notice.evidence = {{"loss", "2.5"}};
  return notice;
}

ReceiverSettings ReceiverNamed(const std::string& name, ReceiverType type,
                               std::optional<double> per_minute = std::nullopt) {
  ReceiverSettings receiver;
  receiver.name = name;
  receiver.type = type;
  receiver.per_minute = per_minute;
  return receiver;
}

Judgement Sent() {
  return {Verdict::kSent, "", {}};
}
Judgement Failed() {
  return {Verdict::kRetry, "connection refused", {}};
}

// A deliverer in virtual time, the store that holds its rows, and what receivers got.
struct World {
  explicit World(std::vector<ReceiverSettings> receivers, std::vector<Route> routes = {}) {
    settings.receivers = std::move(receivers);
    settings.routes = std::move(routes);
    Begin();
  }

  void Begin() {
    deliverer.emplace([this] { return std::uniform_real_distribution<double>()(random); });
    deliverer->Apply(settings);
    deliverer->Restore(rows, lacks_some, now());
    Store();
  }
  void Store() {
    for (const auto& [key, text] : deliverer->TakeRows())
      if (text)
        rows.insert_or_assign(key, *text);
      else
        rows.erase(key);
  }
  // As after kill -9: the rows of the store are all that is left.
  void Kill() { Begin(); }

  Moment now() const { return {kStart + t, 1000 + t}; }
  void Take(const Notice& notice) {
    deliverer->Take(notice, now());
    Store();
  }
  std::vector<Sending> BeginDue() {
    std::vector<Sending> due = deliverer->Begin(now());
    Store();
    return due;
  }
  void End(const Sending& sending, const Judgement& judgement) {
    deliverer->End(sending.number, judgement, now());
    Store();
  }
  void Receive(const Sending& sending) {
    received.push_back({t, sending});
    for (const Notice& each : sending.load.notices) {
      ++times[{sending.receiver.name, each.change}];
      repeated += each.is_repeated ? 1 : 0;
    }
    counted += sending.load.more;
  }
  // Each second sends the requests that are due.
  void Run(
      double seconds, const std::function<Judgement(const Sending&)>& answer = [](const Sending&) { return Sent(); }) {
    for (const double end = t + seconds; t < end; t += 1)
      for (const Sending& each : BeginDue()) {
        const Judgement judgement = answer(each);
        if (judgement.verdict == Verdict::kSent) Receive(each);
        End(each, judgement);
      }
  }
  OutboxCounts CountsOf(const std::string& receiver) {
    for (const Deliverer::View& each : deliverer->Views(false))
      if (each.receiver == receiver) return each.counts;
    return {};
  }

  struct Got {
    double t;
    Sending sending;
  };
  std::minstd_rand random{1};
  DeliverySettings settings;
  std::optional<Deliverer> deliverer;
  std::map<std::string, std::string> rows;
  double t = 0;
  std::vector<Got> received;
  std::map<std::pair<std::string, std::string>, int> times;
  int repeated = 0;
  bool lacks_some = false;  // the store, after a kill
  size_t counted = 0;
};

TEST_CASE("each change of an incident is one message") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack)});
  for (const NoticeState state : {NoticeState::kOpened, NoticeState::kAcknowledged, NoticeState::kResolved})
    for (int i = 0; i < 3; ++i) world.Take(NoticeFor("a", state));
  world.Run(600);
  REQUIRE(world.received.size() == 3);
  for (const auto& [change, count] : world.times) CHECK(count == 1);
  CHECK(world.received[0].sending.load.notices.front().state == NoticeState::kOpened);
  CHECK(world.received[2].sending.load.notices.front().state == NoticeState::kResolved);
  CHECK(world.CountsOf("chat").waiting == 0);
}

TEST_CASE("routes choose the receivers by severity, owner, run and kind, and all get what no route matches") {
  Route critical{{"pager"}, {Severity::kCritical}, "", "", ""};
  Route mine{{"mine"}, {}, "ann*", "run-*", ""};
  Route quiet{{}, {}, "", "", "straggler"};
  DeliverySettings settings;
  for (const char* name : {"pager", "mine", "all"})
    settings.receivers.push_back(ReceiverNamed(name, ReceiverType::kSlack));
  settings.routes = {critical, mine, quiet};
  Notice notice = NoticeFor("a");
  CHECK(ReceiversOf(settings, notice) == std::vector<size_t>{0, 1, 2});
  notice.severity = Severity::kCritical;
  CHECK(ReceiversOf(settings, notice) == std::vector<size_t>{0});
  notice.owner = "anna";
  CHECK(ReceiversOf(settings, notice) == std::vector<size_t>{0, 1});
  notice.run = "other";
  CHECK(ReceiversOf(settings, notice) == std::vector<size_t>{0});
  notice.severity = Severity::kWarning;
  notice.kind = "straggler";
  CHECK(ReceiversOf(settings, notice).empty());
}

TEST_CASE("no minute has more messages than the rate, and a digest stands for those that wait") {
  for (const double per_minute : {1.0, 3.0, 20.0, 100.0}) {
    World world({ReceiverNamed("chat", ReceiverType::kDingTalk, per_minute)});
    std::minstd_rand random(7);
    int taken = 0;
    for (int second = 0; second < 600; ++second) {
      for (int i = static_cast<int>(random() % 3); i > 0; --i) world.Take(NoticeFor("i" + std::to_string(taken++)));
      world.Run(1);
    }
    world.Run(120);
    for (const World::Got& each : world.received) {
      const auto in_minute = std::count_if(world.received.begin(), world.received.end(), [&](const World::Got& other) {
        return other.t >= each.t && other.t < each.t + 60;
      });
      CHECK(static_cast<double>(in_minute) <= per_minute);
    }
    CHECK(world.times.size() + world.counted == static_cast<size_t>(taken));
    CHECK(world.CountsOf("chat").digested == static_cast<int64_t>(world.counted));
  }
}

TEST_CASE("a digest names the most severe messages") {
  World world({ReceiverNamed("chat", ReceiverType::kDingTalk, 1)});
  for (int i = 0; i < 50; ++i) world.Take(NoticeFor("w" + std::to_string(i)));
  world.Take(NoticeFor("c", NoticeState::kOpened, Severity::kCritical));
  world.Run(1);
  REQUIRE(world.received.size() == 1);
  const Load& load = world.received.front().sending.load;
  CHECK(load.notices.size() + load.more == 51);
  CHECK(load.more > 0);
  // In the order of time.
  CHECK(load.notices.front().key == "w0");
  CHECK(load.notices.back().key == "c");
}

TEST_CASE("ten thousand alerts in a minute leave bounded memory, some digests, and a true count") {
  World world({ReceiverNamed("chat", ReceiverType::kDingTalk, 20), ReceiverNamed("hook", ReceiverType::kWebhook, 600)});
  size_t rows_max = 0;
  for (int i = 0; i < 10000; ++i) {
    world.Take(NoticeFor("i" + std::to_string(i)));
    if (i % 167 == 166) world.Run(1);
    rows_max = std::max(rows_max, world.rows.size());
  }
  world.Run(600);
  size_t of_chat = world.counted, of_hook = 0, messages = 0;
  for (const auto& [change, count] : world.times) {
    CHECK(count == 1);
    (change.first == "chat" ? of_chat : of_hook) += 1;
  }
  for (const World::Got& each : world.received) messages += each.sending.receiver.name == "chat" ? 1 : 0;
  CHECK(of_hook == 10000);
  CHECK(of_chat == 10000);
  CHECK(messages < 40);
  CHECK(rows_max < 2 * (MessageQueue::kWaitingMaxOfWebhook + Outbox::kSentMax));
  CHECK(world.rows.size() <= 2 * Outbox::kSentMax);
}

TEST_CASE("a receiver that is away for an hour gets everything afterwards, after ever longer pauses") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack), ReceiverNamed("hook", ReceiverType::kWebhook)});
  for (int i = 0; i < 30; ++i) world.Take(NoticeFor("i" + std::to_string(i)));
  int attempts = 0;
  world.Run(3600, [&](const Sending&) {
    ++attempts;
    return Failed();
  });
  CHECK(world.received.empty());
  CHECK(attempts < 100);
  CHECK(world.CountsOf("chat").failed > 5);
  CHECK(world.CountsOf("chat").trouble == "connection refused");
  CHECK(world.CountsOf("chat").waiting == 30);
  world.Run(700);
  size_t of_chat = world.counted, of_hook = 0;
  for (const auto& [change, count] : world.times) (change.first == "chat" ? of_chat : of_hook) += 1;
  CHECK(of_chat == 30);
  CHECK(of_hook == 30);
  CHECK(world.CountsOf("chat").trouble.empty());
}

TEST_CASE("a queue that is full counts the oldest of the least severe messages instead of keeping them") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack)});
  world.Take(NoticeFor("c", NoticeState::kOpened, Severity::kCritical));
  for (size_t i = 0; i < 3 * MessageQueue::kWaitingMax; ++i) world.Take(NoticeFor("i" + std::to_string(i)));
  CHECK(world.rows.size() <= MessageQueue::kWaitingMax + 1);
  world.Kill();
  CHECK(world.CountsOf("chat").waiting == static_cast<int64_t>(3 * MessageQueue::kWaitingMax + 1));
  world.Run(1);
  REQUIRE(world.received.size() == 1);
  CHECK(world.received.front().sending.load.notices.front().key == "c");
  CHECK(world.counted + world.times.size() == 3 * MessageQueue::kWaitingMax + 1);
}

TEST_CASE("a pause that the receiver asks for is kept") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack)});
  world.Take(NoticeFor("a"));
  bool is_first = true;
  double asked_t = 0;
  world.Run(300, [&](const Sending&) {
    if (!std::exchange(is_first, false)) return Sent();
    asked_t = world.t;
    return Judgement{Verdict::kRetryLater, "too many requests", 120};
  });
  REQUIRE(world.received.size() == 1);
  CHECK(world.received.front().t >= asked_t + 120);
}

TEST_CASE("a message that is rejected, or too old, is a dead letter with its reason, and the next one is sent") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack)});
  world.Take(NoticeFor("a"));
  world.Run(1, [](const Sending&) { return Judgement{Verdict::kRejected, "no such channel", {}}; });
  world.Take(NoticeFor("b"));
  world.Run(86400 + 3600, [](const Sending&) { return Failed(); });
  world.Take(NoticeFor("c"));
  world.Run(600);
  REQUIRE(world.received.size() == 1);
  CHECK(world.received.front().sending.load.notices.front().key == "c");
  CHECK(world.CountsOf("chat").dead == 2);
  world.Kill();
  std::vector<std::string> reasons;
  for (const Deliverer::View& view : world.deliverer->Views(true))
    for (const Message& each : view.finished)
      if (each.state == MessageState::kDead) reasons.push_back(each.notice.key + ": " + each.reason);
  CHECK(reasons == std::vector<std::string>{"a: no such channel", "b: connection refused"});
}

TEST_CASE("dead letters and sent messages are kept in bounded number") {
  World world({ReceiverNamed("hook", ReceiverType::kWebhook, 0)});
  for (int i = 0; i < 3000; ++i) {
    world.Take(NoticeFor("i" + std::to_string(i)));
    world.Run(1, [&](const Sending&) { return i % 2 == 0 ? Sent() : Judgement{Verdict::kRejected, "no", {}}; });
  }
  CHECK(world.rows.size() == Outbox::kSentMax + Outbox::kDeadMax);
  CHECK(world.CountsOf("hook").dead == 1500);
}

TEST_CASE("a kill between post and receipt repeats that request once, marked, and loses nothing") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack)});
  world.Take(NoticeFor("a"));
  world.Take(NoticeFor("b"));
  const std::vector<Sending> due = world.BeginDue();
  REQUIRE(due.size() == 1);
  world.Receive(due.front());  // its receipt never arrives
  world.Kill();
  world.End(due.front(), Sent());  // of another process: unknown
  world.Run(60);
  CHECK(world.times[{"chat", "a opened"}] == 2);
  CHECK(world.times[{"chat", "b opened"}] == 1);
  CHECK(world.repeated == 1);
  world.Kill();
  world.Run(60);
  CHECK(world.repeated == 1);
  CHECK(world.received.size() == 3);
}

TEST_CASE("a failed attempt is no reason to mark a message as repeated after a kill") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack)});
  world.Take(NoticeFor("a"));
  world.Run(1, [](const Sending&) { return Failed(); });
  world.Kill();
  world.Run(10);
  CHECK(world.received.size() == 1);
  CHECK(world.repeated == 0);
}

TEST_CASE("after a kill on a full disk, messages that may have been sent are marked as repeated") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack)});
  world.Take(NoticeFor("a"));
  const auto stored = world.rows;
  world.Run(1);
  // The store never got the receipt of the first, and nothing of the second.
  world.Take(NoticeFor("b"));
  world.Run(10);
  CHECK(world.received.size() == 2);
  world.rows = stored;
  world.lacks_some = true;
  world.Kill();
  Notice again = NoticeFor("b");
  again.t = world.now().wall - 20;
  world.Take(again);
  // Another kill before they are sent keeps the marks.
  world.lacks_some = false;
  world.Kill();
  Notice later = NoticeFor("c");
  later.t = world.now().wall;
  world.Take(later);
  world.Run(60);
  CHECK(world.times[{"chat", "a opened"}] == 2);
  CHECK(world.times[{"chat", "b opened"}] == 2);
  CHECK(world.times[{"chat", "c opened"}] == 1);
  CHECK(world.repeated == 2);
}

TEST_CASE("in random order of changes, failures and kills no message is lost, and each kill repeats one at most") {
  const int rounds = testing::Rounds(200);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    World world({ReceiverNamed("chat", ReceiverType::kDingTalk, 20), ReceiverNamed("hook", ReceiverType::kWebhook)});
    std::minstd_rand random(static_cast<unsigned>(round + 1));
    std::deque<Sending> in_flight;
    int taken = 0, kills = 0;
    for (int step = 0; step < 300; ++step) {
      world.t += static_cast<double>(random() % 5);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: world.Take(NoticeFor("i" + std::to_string(taken++))); break;
        case 3:
        case 4:
          for (Sending& each : world.BeginDue()) in_flight.push_back(std::move(each));
          break;
        case 5:
        case 6:
          if (in_flight.empty()) break;
          if (random() % 3 == 0) {
            world.End(in_flight.front(), Failed());
          } else {
            world.Receive(in_flight.front());
            world.End(in_flight.front(), Sent());
          }
          in_flight.pop_front();
          break;
        default:
          if (random() % 4 != 0) break;
          // Some requests in progress arrived, and their receipts are lost.
          for (const Sending& each : in_flight)
            if (random() % 2 == 0) world.Receive(each);
          in_flight.clear();
          world.Kill();
          ++kills;
      }
    }
    for (const Sending& each : in_flight) {
      world.Receive(each);
      world.End(each, Sent());
    }
    world.Run(1200);
    std::map<std::string, size_t> got;
    for (const auto& [change, count] : world.times) ++got[change.first];
    CHECK(got["hook"] == static_cast<size_t>(taken));
    CHECK(got["chat"] + world.counted >= static_cast<size_t>(taken));
    // A request that was in progress at a kill is sent again, whole.
    for (const auto& [change, count] : world.times) CHECK(count <= 1 + kills);
    for (const World::Got& each : world.received)
      for (const Notice& notice : each.sending.load.notices)
        if (!notice.is_repeated)
          CHECK(std::count_if(world.received.begin(), world.received.end(), [&](const World::Got& other) {
                  return other.sending.receiver.name == each.sending.receiver.name &&
                         std::any_of(other.sending.load.notices.begin(), other.sending.load.notices.end(),
                                     [&](const Notice& o) { return !o.is_repeated && o.change == notice.change; });
                }) == 1);
  }
}

TEST_CASE("a receiver that was removed takes its messages with it, and a new one of another type starts empty") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack), ReceiverNamed("hook", ReceiverType::kWebhook)});
  world.Take(NoticeFor("a"));
  const std::vector<Sending> due = world.BeginDue();
  world.settings.receivers = {ReceiverNamed("chat", ReceiverType::kDingTalk)};
  world.deliverer->Apply(world.settings);
  world.Store();
  CHECK(world.rows.empty());
  for (const Sending& each : due) world.End(each, Sent());
  world.Take(NoticeFor("b"));
  world.Run(5);
  REQUIRE(world.received.size() == 1);
  CHECK(world.received.front().sending.load.notices.front().key == "b");
}

TEST_CASE("all rows can be written again") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack), ReceiverNamed("am", ReceiverType::kAlertmanager)});
  world.Take(NoticeFor("a"));
  world.Run(5);
  world.Take(NoticeFor("b"));
  (void)world.BeginDue();
  const auto before = world.rows;
  world.rows.clear();
  world.deliverer->StoreAgain();
  world.Store();
  std::set<std::string> keys, keys_before;
  for (const auto& [key, text] : before) keys_before.insert(key);
  for (const auto& [key, text] : world.rows) keys.insert(key);
  CHECK(keys == keys_before);
}

TEST_CASE("rows that are damaged are removed") {
  World world({ReceiverNamed("chat", ReceiverType::kSlack)});
  world.rows = {{"chat\tx", "{"}, {"chat\ty", "[]"}, {"gone\tz", "{}"}, {"", ""}, {"chat", "{\"state\":\"sent\"}"}};
  world.Kill();
  CHECK(world.rows.empty());
}

// --- Alertmanager ---

TEST_CASE("an open alert is posted about each minute until it is resolved, and its end once") {
  World world({ReceiverNamed("am", ReceiverType::kAlertmanager)});
  world.Take(NoticeFor("a"));
  world.Run(3600);
  CHECK(world.received.size() >= 55);
  CHECK(world.received.size() <= 62);
  for (size_t i = 1; i < world.received.size(); ++i) CHECK(world.received[i].t - world.received[i - 1].t < 100);
  const size_t before = world.received.size();
  world.Take(NoticeFor("a", NoticeState::kResolved));
  world.Run(3600);
  REQUIRE(world.received.size() == before + 1);
  CHECK(world.received.back().sending.load.notices.front().state == NoticeState::kResolved);
}

TEST_CASE("an Alertmanager that is away for an hour gets the present state afterwards") {
  World world({ReceiverNamed("am", ReceiverType::kAlertmanager)});
  world.Take(NoticeFor("a"));
  world.Take(NoticeFor("b"));
  world.Take(NoticeFor("c"));
  world.Run(3, [](const Sending&) { return Sent(); });
  world.received.clear();
  world.Run(1800, [](const Sending&) { return Failed(); });
  world.Take(NoticeFor("b", NoticeState::kResolved));
  world.Take(NoticeFor("d"));
  world.Run(1800, [](const Sending&) { return Failed(); });
  world.Kill();
  world.Run(360);
  std::map<std::string, NoticeState> last;
  for (const World::Got& each : world.received)
    for (const Notice& notice : each.sending.load.notices) last[notice.key] = notice.state;
  CHECK(last == std::map<std::string, NoticeState>{{"a", NoticeState::kOpened},
                                                   {"b", NoticeState::kResolved},
                                                   {"c", NoticeState::kOpened},
                                                   {"d", NoticeState::kOpened}});
  CHECK(world.repeated == 0);
}

TEST_CASE("an alert that changes while it is being posted is posted again") {
  World world({ReceiverNamed("am", ReceiverType::kAlertmanager)});
  world.Take(NoticeFor("a"));
  const std::vector<Sending> due = world.BeginDue();
  REQUIRE(due.size() == 1);
  world.Take(NoticeFor("a", NoticeState::kResolved));
  world.End(due.front(), Sent());
  world.t += 1;
  world.Run(5);
  REQUIRE(world.received.size() == 1);
  CHECK(world.received.front().sending.load.notices.front().state == NoticeState::kResolved);
}

TEST_CASE("one alert that is rejected holds up no other") {
  World world({ReceiverNamed("am", ReceiverType::kAlertmanager, 0)});
  for (int i = 0; i < 40; ++i) world.Take(NoticeFor("i" + std::to_string(i)));
  std::set<std::string> accepted;
  world.Run(200, [&](const Sending& sending) {
    for (const Notice& each : sending.load.notices)
      if (each.key == "i7") return Judgement{Verdict::kRejected, "invalid label", {}};
    for (const Notice& each : sending.load.notices) accepted.insert(each.key);
    return Sent();
  });
  CHECK(accepted.size() == 39);
  CHECK(world.CountsOf("am").dead == 1);
}

TEST_CASE("a silenced alert is no longer posted, and is posted again when the silence ends") {
  World world({ReceiverNamed("am", ReceiverType::kAlertmanager)});
  const std::vector<Notice> open = {NoticeFor("a"), NoticeFor("b")};
  world.deliverer->Reconcile(open, {"a"}, world.now());
  world.Run(200);
  CHECK(world.times.size() == 1);
  world.deliverer->Reconcile(open, {}, world.now());
  world.Run(2);
  CHECK(world.times.size() == 2);
  // An incident that is gone ends its alert.
  world.received.clear();
  world.deliverer->Reconcile({NoticeFor("b")}, {}, world.now());
  world.Run(3);
  REQUIRE_FALSE(world.received.empty());
  CHECK(world.received.front().sending.load.notices.front().key == "a");
  CHECK(world.received.front().sending.load.notices.front().state == NoticeState::kResolved);
}

}  // namespace
}  // namespace stepwatch::operations::delivery
