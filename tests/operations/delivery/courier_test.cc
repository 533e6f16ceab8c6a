#include "operations/delivery/courier.h"

#include <sys/stat.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "src/base/file.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/operations/intake/fake_service.h"
#include "tests/operations/store/records.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations::delivery {
namespace {

using stepwatch::testing::ChangeOf;
using stepwatch::testing::TemporaryDirectory;

// Keeps requests until the test answers them.
struct Posted {
  Outgoing outgoing;
  std::function<void(Reply)> then;
};
class FakeTransport final : public Transport {
 public:
  explicit FakeTransport(std::vector<Posted>* posted) : posted_(*posted) {}
  void Send(Outgoing outgoing, std::function<void(Reply)> then) override {
    posted_.push_back({std::move(outgoing), std::move(then)});
  }

 private:
  std::vector<Posted>& posted_;
};

struct Office {
  Office() { Open(); }

  void Open() {
    CourierOptions options;
    options.state_directory = directory / "state";
    options.now = [this] { return Moment{service.now, service.now}; };
    options.dice = [] { return 0.5; };
    options.make_transport = [this] { return std::make_unique<FakeTransport>(&posted); };
    options.store = [this](const Rows& changed) {
      for (const auto& [key, text] : changed) waiting_rows.insert_or_assign(key, text);
    };
    options.flush = [this](std::function<void()> then) {
      if (!is_full) {
        for (const auto& [key, text] : waiting_rows)
          if (text)
            rows.insert_or_assign(key, *text);
          else
            rows.erase(key);
        waiting_rows.clear();
      }
      if (then) then();
    };
    options.log = [this](bool, const std::string& text) { logged.push_back(text); };
    courier.emplace(loop, std::move(options), &service);
  }
  void Apply(const std::string& public_url = "") {
    courier->Apply(settings, public_url);
    courier->Restore(rows, false);
  }
  // Runs the loop until the condition holds.
  void Until(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!holds()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      service.now += 0.25;
      courier->Tick();
      loop.restart();
      (void)loop.run_one_for(std::chrono::milliseconds(1));
      (void)loop.poll();
    }
  }
  void Publish(const StoredChange& change) { courier->Take(change); }
  StoredChange Opened(const std::string& id) {
    Incident incident = ChangeOf(1, id, IncidentState::kOpened).incident;
    StoredChange change = service.incidents().Change(incident);
    Publish(change);
    return change;
  }
  Json Listed() { return json::Parse(courier->List(100).body).value(); }
  http::Answer Notify(const std::string& receiver, const std::string& body) {
    std::optional<http::Answer> answer;
    courier->Notify(receiver, body, [&](const http::Answer& given) { answer = given; });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!answer) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      loop.restart();
      (void)loop.run_one_for(std::chrono::milliseconds(1));
    }
    return *answer;
  }
  http::Answer Link(bool acknowledges, const std::vector<std::string>& parts, const std::string& body = "") {
    std::optional<http::Answer> answer;
    courier->AnswerLink({acknowledges, parts, body}, [&](const http::Answer& given) { answer = given; });
    REQUIRE(answer);
    return *answer;
  }

  TemporaryDirectory directory;
  boost::asio::io_context loop;
  FakeService service;
  DeliverySettings settings;
  std::vector<Posted> posted;
  Rows waiting_rows;
  std::map<std::string, std::string> rows;
  bool is_full = false;
  std::vector<std::string> logged;
  std::optional<Courier> courier;
};

ReceiverSettings Hook(const std::string& name, const std::string& url_file) {
  ReceiverSettings receiver;
  receiver.name = name;
  receiver.type = ReceiverType::kWebhook;
  receiver.url_file = url_file;
  return receiver;
}

constexpr const char* kWebhook =
    R"({"version":"4","alerts":[{"status":"firing","labels":{"alertname":"A"},"annotations":{},)"
    R"("startsAt":"2026-11-28T00:00:00Z","endsAt":"0001-01-01T00:00:00Z","fingerprint":"f1"}]})";

TEST_CASE("a full disk costs persistence, and no message") {
  Office office;
  REQUIRE(base::ReplaceFile(office.directory / "url", "http://h/x\n").ok());
  office.settings.receivers = {Hook("hook", office.directory / "url")};
  office.Apply();
  office.is_full = true;
  office.Opened("i1");
  office.Until([&] { return office.posted.size() == 1; });
  CHECK(office.rows.empty());
  CHECK(office.posted.front().outgoing.url == "http://h/x");
  office.posted.front().then({200, "", "", {}});
  office.Until([&] { return office.Listed()["sent"].size() == 1; });
  // Afterwards the store gets all of it.
  office.is_full = false;
  office.waiting_rows.clear();
  office.courier->StoreAgain();
  office.Opened("i2");
  office.Until([&] { return office.posted.size() == 2; });
  CHECK(office.rows.size() == 2);
}

TEST_CASE("the owner that a run reports is in its messages, and chooses their receivers") {
  Office office;
  REQUIRE(base::ReplaceFile(office.directory / "url", "http://h/x\n").ok());
  office.settings.receivers = {Hook("others", office.directory / "none"), Hook("adas", office.directory / "url")};
  office.settings.routes.resize(2);
  office.settings.routes[0].owner = "ada*";
  office.settings.routes[0].receivers = {"adas"};
  office.settings.routes[1].receivers = {"others"};
  office.Apply();
  office.service.run.emplace().owner = "ada";
  office.Opened("i1");
  office.Until([&] { return office.posted.size() == 1; });
  CHECK(office.posted.front().outgoing.url == "http://h/x");
  CHECK(office.posted.front().outgoing.body.find(R"("owner":"ada")") != std::string::npos);
}

TEST_CASE("an incident that outlasts its silence is sent once, when the silence ends") {
  Office office;
  REQUIRE(base::ReplaceFile(office.directory / "url", "http://h/x\n").ok());
  office.settings.receivers = {Hook("hook", office.directory / "url")};
  office.Apply();
  office.Opened("sent before");
  office.Until([&] { return office.posted.size() == 1; });
  office.posted.front().then({200, "", "", {}});
  office.Until([&] { return office.Listed()["sent"].size() == 1; });
  const double end = office.service.now + 100;
  REQUIRE(office.service.incidents().Add({"s", "", "", "kim", "", office.service.now, end}));
  office.Opened("lasts");
  office.Opened("handled");
  (void)office.service.incidents().Acknowledge("handled", {"kim", "", end});
  office.Opened("over");
  (void)office.service.incidents().Change(ChangeOf(1, "over", IncidentState::kResolved).incident);
  SECTION("while it runs") {
    office.Until([&] { return office.service.now > end - 1; });
  }
  SECTION("while it is away") {
    office.courier.reset();
    office.Open();
    office.service.now = end + 1000;
    office.Apply();
  }
  CHECK(office.posted.size() == 1);
  office.Until([&] { return office.posted.size() == 2; });
  CHECK(office.posted[1].outgoing.body.find("lasts") != std::string::npos);
  office.posted[1].then({200, "", "", {}});
  office.Until([&] { return office.Listed()["sent"].size() == 2; });
  const double later = office.service.now + 100;
  office.Until([&] { return office.service.now > later; });
  CHECK(office.posted.size() == 2);
}

TEST_CASE("the files of secrets are read before each sending, and one that is missing is retried") {
  Office office;
  const std::string path = office.directory / "url";
  office.settings.receivers = {Hook("hook", path)};
  office.Apply();
  office.Opened("i1");
  office.Until([&] { return !office.logged.empty(); });
  CHECK(office.logged.front().find(path) != std::string::npos);
  REQUIRE(base::ReplaceFile(path, "http://h/one").ok());
  office.Until([&] { return office.posted.size() == 1; });
  CHECK(office.posted.back().outgoing.url == "http://h/one");
  office.posted.back().then({200, "", "", {}});
  REQUIRE(base::ReplaceFile(path, "http://h/two").ok());
  office.Opened("i2");
  office.Until([&] { return office.posted.size() == 2; });
  CHECK(office.posted.back().outgoing.url == "http://h/two");
  CHECK(office.logged.back() == "receiver hook accepts messages again");
}

TEST_CASE("a sending that a restart interrupts is repeated, and a receipt of the former process is ignored") {
  Office office;
  REQUIRE(base::ReplaceFile(office.directory / "url", "http://h/x\n").ok());
  office.settings.receivers = {Hook("hook", office.directory / "url")};
  office.Apply();
  office.Opened("i1");
  office.Until([&] { return office.posted.size() == 1; });
  office.courier.reset();
  office.posted.front().then({200, "", "", {}});
  office.Open();
  office.Apply();
  office.Until([&] { return office.posted.size() == 2; });
  CHECK(office.posted.back().outgoing.body.find(R"("repeated":true)") != std::string::npos);
}

TEST_CASE("an alert of a webhook is taken once, and accepted only if the store can be written") {
  Office office;
  office.settings.receivers = {Hook("hook", office.directory / "url")};
  ReceiverSettings alertmanager;
  alertmanager.name = "am";
  alertmanager.type = ReceiverType::kAlertmanager;
  alertmanager.url = "http://h";
  office.settings.receivers.push_back(alertmanager);
  office.Apply();
  CHECK(office.Notify("nobody", kWebhook).status == 404);
  CHECK(office.Notify("am", kWebhook).status == 400);
  CHECK(office.Notify("hook", "[").status == 400);
  office.service.ready = Status(StatusCode::kUnavailable, "the disk is full");
  CHECK(office.Notify("hook", kWebhook).status == 503);
  office.service.ready = Status();
  const http::Answer known = office.Notify("hook", kWebhook);
  CHECK(known.status == 200);
  CHECK(json::Parse(known.body).value()["known"] == 1);
  CHECK(office.Listed()["waiting"].size() == 1);
}

TEST_CASE("the alerts of a large webhook are read beside the loop, and queued in pieces") {
  Office office;
  office.settings.receivers = {Hook("hook", office.directory / "url")};
  office.Apply();
  std::string body = R"({"version":"4","alerts":[)";
  for (int i = 0; i < 10'000; ++i)
    body += std::string(i > 0 ? "," : "") +
            R"({"status":"firing","labels":{"alertname":"A"},"startsAt":"2026-11-28T00:00:00Z","fingerprint":")" +
            std::to_string(i) + "\"}";
  body += "]}";
  bool is_answered = false;
  office.courier->Notify("hook", body, [&](const http::Answer&) { is_answered = true; });
  CHECK(!is_answered);
  CHECK(office.Listed()["waiting"].empty());
  const http::Answer known = office.Notify("hook", body);
  CHECK(is_answered);
  CHECK(json::Parse(known.body).value()["known"] == 10'000);
  CHECK(office.service.laters > 0);
}

TEST_CASE("the watchdog gets a request at each interval, whatever else happens") {
  Office office;
  office.settings.watchdog_url = "http://h/ping";
  office.settings.watchdog_seconds = 20;
  office.Apply();
  for (size_t i = 1; i <= 5; ++i) {
    office.Until([&] { return office.posted.size() == i; });
    CHECK(office.posted.back().outgoing.method == "GET");
    CHECK(office.posted.back().outgoing.url == "http://h/ping");
    office.posted.back().then({i == 3 ? 500 : 200, "", "", {}});
  }
  CHECK(office.service.now >= 1080);
  CHECK(office.logged.size() == 2);
}

TEST_CASE("a Watchdog alert that stays away is one message, and its return another") {
  Office office;
  office.settings.receivers = {Hook("hook", office.directory / "url")};
  REQUIRE(base::ReplaceFile(office.directory / "url", "http://h/x").ok());
  office.settings.watchdog_expected_seconds = 300;
  office.Apply();
  std::string alert = kWebhook;
  alert.replace(alert.find("\"A\""), 3, "\"Watchdog\"");
  const double begun = office.service.now;
  for (int i = 0; i < 10; ++i) {
    CHECK(office.Notify("hook", alert).status == 200);
    const double until = office.service.now + 200;
    office.Until([&] { return office.service.now >= until; });
  }
  CHECK(office.posted.empty());
  office.Until([&] { return office.posted.size() == 1; });
  CHECK(office.service.now >= begun + 2100);
  CHECK(office.posted.back().outgoing.body.find("watchdog_missing") != std::string::npos);
  office.posted.back().then({200, "", "", {}});
  const double until = office.service.now + 1000;
  office.Until([&] { return office.service.now >= until; });
  CHECK(office.posted.size() == 1);
  CHECK(office.Notify("hook", alert).status == 200);
  office.Until([&] { return office.posted.size() == 2; });
  CHECK(office.posted.back().outgoing.body.find("resolved") != std::string::npos);
}

TEST_CASE("a link is made with a key of its own, and acknowledges the incident once, by a post only") {
  Office office;
  office.settings.receivers = {Hook("hook", office.directory / "url")};
  REQUIRE(base::ReplaceFile(office.directory / "url", "http://h/x").ok());
  office.Apply("https://s.example");
  CHECK_FALSE(office.courier->HasLinks());
  office.Until([&] { return office.courier->HasLinks(); });
  struct stat about {};
  REQUIRE(::stat((office.directory / "state/acknowledge.key").c_str(), &about) == 0);
  office.Opened("a/b");
  office.Until([&] { return office.posted.size() == 1; });
  const std::string& body = office.posted.front().outgoing.body;
  const size_t begin = body.find("https://s.example/v1/acknowledge/a%2Fb/");
  REQUIRE(begin != std::string::npos);
  const std::string link = body.substr(begin, body.find('"', begin) - begin);
  const size_t last = link.rfind('/'), middle = link.rfind('/', last - 1);
  std::vector<std::string> parts = {"a/b", link.substr(middle + 1, last - middle - 1), link.substr(last + 1)};
  CHECK(office.Link(false, parts).body.find("<form") != std::string::npos);
  CHECK_FALSE(office.service.incidents().Find("a/b")->acknowledgement);
  for (size_t i = 0; i < 3; ++i) {
    std::vector<std::string> wrong = parts;
    wrong[i].back() = wrong[i].back() == '1' ? '2' : '1';
    CHECK(office.Link(true, wrong).status == 404);
  }
  CHECK(office.Link(true, {}).status == 404);
  CHECK(office.Link(true, parts, "by=kim").status == 200);
  CHECK(office.service.incidents().Find("a/b")->acknowledgement->by == "kim (by a link in a message)");
  CHECK(office.Link(true, parts, "by=eve").body.find("kim") != std::string::npos);
  office.service.now += 86400 + 1000;
  CHECK(office.Link(false, parts).status == 404);
}

TEST_CASE("a signed link is valid for a day and for its key") {
  const AcknowledgeLinks links(std::string(32, 'k')), others(std::string(32, 'o'));
  const std::string link = links.LinkTo("http://s/", "i 1", 1000);
  CHECK(link.starts_with("http://s/v1/acknowledge/i%201/87400/"));
  const std::vector<std::string> parts = {"i 1", "87400", link.substr(link.rfind('/') + 1)};
  CHECK(links.IncidentOf(parts, 87400) == "i 1");
  CHECK_FALSE(links.IncidentOf(parts, 87401));
  CHECK_FALSE(others.IncidentOf(parts, 1000));
  CHECK_FALSE(links.IncidentOf({"i 1", "99999", parts[2]}, 1000));
}

TEST_CASE("texts of others are escaped in the page") {
  Notice notice;
  notice.kind = "<script>alert(1)</script>";
  notice.run = "a&b\"'";
  notice.evidence = {{"x<", "\xff>"}};
  const std::string page = AcknowledgePage(notice, "<i>eve</i>");
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("<i>") == std::string::npos);
  CHECK(page.find("a&amp;b&quot;&#39;") != std::string::npos);
  CHECK(page.find("x&lt;") != std::string::npos);
  CHECK(NameInForm("by=%3Cb%3E%0A" + std::string(3000, 'x')).size() < 200);
  CHECK(NameInForm("") == "a link in a message");
}

}  // namespace
}  // namespace stepwatch::operations::delivery
