// Records on their way to a receiver that answers well, badly, slowly, partly or not at all; restarts; full disks.
#include "operations/logs/outputs/http_output.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "operations/store/spool.h"
#include "src/base/mutex.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/operations/delivery/fake_receiver.h"
#include "tests/random_seed.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations::outputs {
namespace {

using testing::FakeReceiver;
using testing::Has;
using testing::TemporaryDirectory;

// The records of an Elasticsearch, by id, and the number of times that it accepted each.
class FakeIndex {
 public:
  // Creates records as an item of the reply says: 201, 409 for a known id, or `busy` for each third.
  std::string Bulk(const std::string& body, int busy) {
    const base::MutexLock lock(&mutex_);
    Json items = Json::array();
    size_t at = 0;
    for (int number = 0; at < body.size(); ++number) {
      const std::string action = NextLine(body, &at);
      const std::string record = NextLine(body, &at);
      const std::string id = json::Parse(action).value()["create"]["_id"].get<std::string>();
      int status = busy != 0 && number % 3 == 1 ? busy : 201;
      if (status == 201 && !records_.emplace(id, record).second) status = 409;
      items.push_back({{"create", {{"status", status}}}});
    }
    return json::Dump({{"errors", true}, {"items", items}});
  }
  size_t size() {
    const base::MutexLock lock(&mutex_);
    return records_.size();
  }
  std::map<std::string, std::string> records() {
    const base::MutexLock lock(&mutex_);
    return records_;
  }

 private:
  static std::string NextLine(const std::string& body, size_t* at) {
    const size_t end = body.find('\n', *at);
    const std::string line = body.substr(*at, end - *at);
    *at = end == std::string::npos ? body.size() : end + 1;
    return line;
  }

  base::Mutex mutex_;
  std::map<std::string, std::string> records_ STEPWATCH_GUARDED_BY(mutex_);
};

// A transport whose replies a test decides; each is given at once.
class ScriptedTransport final : public delivery::Transport {
 public:
  using Behaviour = std::function<delivery::Reply(const delivery::Outgoing& request)>;
  explicit ScriptedTransport(Behaviour behaviour) : behaviour_(std::move(behaviour)) {}
  void Send(delivery::Outgoing outgoing, std::function<void(delivery::Reply)> then) override {
    requests.push_back(outgoing);
    then(behaviour_(outgoing));
  }

  std::vector<delivery::Outgoing> requests;

 private:
  const Behaviour behaviour_;
};

delivery::Reply WithStatus(int status, std::string body = "") {
  delivery::Reply reply;
  reply.status = status;
  reply.body = std::move(body);
  return reply;
}

// An output with its loop and a clock that the test moves.
class Place {
 public:
  Place(const std::string& directory, delivery::Transport* transport, OutputType type = OutputType::kElasticsearch,
        const std::string& host = "127.0.0.1:1") {
    options.settings.name = "es";
    options.settings.type = type;
    options.settings.url = "http://" + host;
    options.settings.index = "logs";
    options.directory = directory;
    options.transport = transport;
    options.dice = [] { return 1.0; };
    options.log = [this](const std::string& why) { troubles.push_back(why); };
  }
  ~Place() { output.reset(); }

  void Open() { output = std::make_unique<HttpOutput>(loop_, options); }
  void Add(int from, int to, const std::string& more = "") {
    for (int i = from; i < to; ++i) {
      const std::string id = "r" + std::to_string(i);
      output->Add(id, json::Dump({{"message", id + more}}));
    }
  }
  // Moves the clock, a second each time, until the condition holds.
  bool Until(const std::function<bool()>& condition) {
    return testing::Eventually([&] {
      output->Tick(running += 1);
      loop_.restart();
      loop_.run_for(std::chrono::milliseconds(2));
      return condition();
    });
  }
  OutputCounts counts() const { return output->counts(); }

  HttpOutputOptions options;
  std::unique_ptr<HttpOutput> output;
  std::vector<std::string> troubles;
  double running = 0;

 private:
  boost::asio::io_context loop_;
};

TEST_CASE("records arrive once each, with their ids, and leave no file behind") {
  TemporaryDirectory directory;
  FakeIndex index;
  ScriptedTransport transport([&](const auto& request) { return WithStatus(200, index.Bulk(request.body, 0)); });
  Place place(directory / "s", &transport);
  place.Open();
  place.Add(0, 1000);
  CHECK(place.output->safe() == 0);
  REQUIRE(place.Until([&] { return place.counts().accepted == 1000 && place.counts().waiting_bytes == 0; }));
  CHECK(place.output->safe() == 1000);
  CHECK(index.records()["r7"] == R"({"message":"r7"})");
  CHECK(index.size() == 1000);
  CHECK(testing::EntriesOf(directory / "s") == 0);
  CHECK(place.troubles.empty());
}

TEST_CASE("items that are busy are sent again alone, and items that are wrong are dropped and counted") {
  TemporaryDirectory directory;
  int requests = 0;
  ScriptedTransport transport([&](const auto&) {
    ++requests;
    if (requests == 1)
      return WithStatus(200, R"({"errors":true,"items":[{"create":{"status":201}},{"create":{"status":429}},
        {"create":{"status":400,"error":{"type":"document_parsing_exception","reason":"no date"}}}]})");
    return WithStatus(200, R"({"errors":false,"items":[{"create":{"status":201}}]})");
  });
  Place place(directory / "s", &transport);
  place.Open();
  place.Add(0, 3);
  REQUIRE(place.Until([&] { return place.counts().accepted == 2; }));
  CHECK(place.counts().rejected == 1);
  CHECK(place.counts().failures == 1);
  REQUIRE(transport.requests.size() == 2);
  CHECK(transport.requests[1].body == "{\"create\":{\"_id\":\"r1\"}}\n{\"message\":\"r1\"}\n");
  REQUIRE(place.troubles.size() == 2);
  CHECK(Has(place.troubles[0], "document_parsing_exception: no date"));
}

TEST_CASE("a request that is too large is split, and a record that is too large alone is rejected") {
  TemporaryDirectory directory;
  FakeIndex index;
  ScriptedTransport transport([&](const auto& request) {
    return request.body.size() > 300 ? WithStatus(413) : WithStatus(200, index.Bulk(request.body, 0));
  });
  Place place(directory / "s", &transport);
  place.Open();
  place.Add(0, 20);
  place.Add(20, 21, std::string(1000, 'x'));
  place.Add(21, 40);
  REQUIRE(place.Until([&] { return place.counts().accepted == 39; }));
  CHECK(place.counts().rejected == 1);
  CHECK(index.records().count("r20") == 0);
  REQUIRE(place.troubles.size() == 1);
  CHECK(Has(place.troubles[0], "413"));
}

TEST_CASE("a record at which the receiver always fails is found and rejected, and the others arrive") {
  TemporaryDirectory directory;
  FakeIndex index;
  ScriptedTransport transport([&](const auto& request) {
    return Has(request.body, "poison") ? WithStatus(500) : WithStatus(200, index.Bulk(request.body, 0));
  });
  Place place(directory / "s", &transport);
  place.Open();
  place.Add(0, 5);
  place.Add(5, 6, "poison");
  place.Add(6, 9);
  REQUIRE(place.Until([&] { return place.counts().accepted == 8; }));
  CHECK(place.counts().rejected == 1);
}

TEST_CASE("wrong keys and names wait for somebody who corrects them") {
  TemporaryDirectory directory;
  FakeIndex index;
  int status = 401;
  ScriptedTransport transport([&](const auto& request) {
    return status == 200 ? WithStatus(200, index.Bulk(request.body, 0)) : WithStatus(status, "no");
  });
  Place place(directory / "s", &transport);
  place.options.settings.api_key_file = directory / "key";
  place.Open();
  place.Add(0, 3);
  REQUIRE(place.Until([&] { return !place.troubles.empty(); }));
  CHECK(Has(place.troubles[0], directory / "key"));
  CHECK(transport.requests.empty());
  testing::WriteInPlace(directory / "key", "c2VjcmV0\n");
  for (const int each : {401, 403, 404, 400, 302}) {
    status = each;
    const size_t before = transport.requests.size();
    REQUIRE(place.Until([&] { return transport.requests.size() > before; }));
  }
  CHECK(transport.requests[0].headers.back() == "Authorization: ApiKey c2VjcmV0");
  CHECK(transport.requests[0].secrets == std::vector<std::string>{"ApiKey c2VjcmV0"});
  status = 200;
  REQUIRE(place.Until([&] { return index.size() == 3; }));
  CHECK(place.counts().rejected == 0);
  CHECK(place.troubles.size() == 1);
}

TEST_CASE("pauses grow up to a minute, or last as long as the receiver asks for") {
  TemporaryDirectory directory;
  std::optional<double> retry_after;
  ScriptedTransport transport([&](const auto&) {
    delivery::Reply reply = WithStatus(429);
    reply.retry_after = retry_after;
    return reply;
  });
  Place place(directory / "s", &transport);
  place.Open();
  place.Add(0, 1);
  std::vector<double> at;
  const auto pause = [&] {
    const size_t before = transport.requests.size();
    const double from = place.running;
    REQUIRE(place.Until([&] { return transport.requests.size() > before; }));
    return place.running - from;
  };
  pause();
  double last = 0;
  for (int i = 0; i < 8; ++i) last = pause();
  CHECK(last >= 59);
  // The clock moves on while the answer is under way.
  retry_after = 200;
  pause();
  CHECK(pause() >= 199);
  retry_after = 1e9;
  pause();
  const double longest = pause();
  CHECK(longest >= HttpOutput::kAskedPauseSecondsMax - 1);
}

TEST_CASE("a spool that is full drops the oldest records and counts their bytes") {
  TemporaryDirectory directory;
  ScriptedTransport transport([](const auto&) { return WithStatus(503); });
  Place place(directory / "s", &transport);
  place.options.settings.spool_mib = 2;
  place.Open();
  const std::string kilobyte(1000, 'x');
  for (int i = 0; i < 10; ++i) {
    place.Add(i * 600, (i + 1) * 600, kilobyte);
    REQUIRE(place.Until([&] { return place.output->safe() == (i + 1) * 600; }));
  }
  CHECK(place.counts().waiting_bytes <= (3 << 20));
  CHECK(place.counts().dropped_bytes > (2 << 20));
  CHECK(place.counts().accepted == 0);
}

// Fails writes while it is full.
class FullDisk : public base::FileSystemWrapper {
 public:
  ssize_t Write(int fd, const void* bytes, size_t count) override {
    if (!is_full) return base::FileSystemWrapper::Write(fd, bytes, count);
    errno = ENOSPC;
    return -1;
  }
  std::atomic<bool> is_full = true;
};

TEST_CASE("a disk that is full costs the spool, not the records") {
  TemporaryDirectory directory;
  FakeIndex index;
  ScriptedTransport transport([&](const auto& request) { return WithStatus(200, index.Bulk(request.body, 0)); });
  FullDisk disk;
  Place place(directory / "s", &transport);
  place.options.files = &disk;
  place.Open();
  place.Add(0, 50);
  REQUIRE(place.Until([&] { return index.size() == 50; }));
  REQUIRE(place.troubles.size() == 1);
  CHECK(Has(place.troubles[0], "No space left"));
  disk.is_full = false;
  place.Add(50, 100);
  REQUIRE(place.Until([&] { return index.size() == 100 && place.output->safe() == 100; }));
  CHECK(place.counts().duplicates == 0);
  CHECK(place.counts().dropped_bytes == 0);
}

TEST_CASE("records that wait at the end are sent by the next process") {
  TemporaryDirectory directory;
  FakeIndex index;
  bool is_away = true;
  ScriptedTransport transport(
      [&](const auto& request) { return is_away ? WithStatus(0) : WithStatus(200, index.Bulk(request.body, 0)); });
  for (int i = 0; i < 3; ++i) {
    Place place(directory / "s", &transport);
    place.Open();
    place.Add(i * 10, (i + 1) * 10);
    if (i == 1) REQUIRE(place.Until([&] { return place.counts().failures > 0; }));
  }
  is_away = false;
  Place place(directory / "s", &transport);
  place.Open();
  REQUIRE(place.Until([&] { return index.size() == 30; }));
}

TEST_CASE("a collector gets OTLP, and what it rejects is counted and not repeated") {
  TemporaryDirectory directory;
  ScriptedTransport transport([](const auto&) {
    return WithStatus(200, R"({"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old"}})");
  });
  Place place(directory / "s", &transport, OutputType::kOtlp);
  testing::WriteInPlace(directory / "headers", "X-Scope-OrgID: ml\n");
  place.options.settings.headers_file = directory / "headers";
  place.Open();
  place.Add(0, 3);
  REQUIRE(place.Until([&] { return place.counts().accepted == 2; }));
  CHECK(place.counts().rejected == 1);
  CHECK(transport.requests.size() == 1);
  CHECK(transport.requests[0].url == "http://127.0.0.1:1/v1/logs");
  CHECK(transport.requests[0].headers.back() == "X-Scope-OrgID: ml");
}

TEST_CASE("over HTTP, through faults and restarts, each record is there once") {
  TemporaryDirectory directory;
  FakeIndex index;
  base::Mutex mutex;
  std::mt19937 dice(test::RandomSeed());
  const FakeReceiver server([&](FakeReceiver::Peer* peer) {
    const std::string request = peer->ReadRequest();
    const std::string body = request.substr(std::min(request.size(), request.find("\r\n\r\n") + 4));
    uint64_t fault = 0;
    {
      const base::MutexLock lock(&mutex);
      fault = dice() % 10;
    }
    const auto answer = [&](const std::string& status, const std::string& text, const std::string& headers = "") {
      peer->Write("HTTP/1.1 " + status + "\r\n" + headers + "Content-Length: " + std::to_string(text.size()) +
                  "\r\nConnection: close\r\n\r\n" + text);
    };
    if (!request.starts_with("POST /logs/_bulk?")) return answer("404 Not Found", "");
    switch (fault) {
      case 0: return answer("401 Unauthorized", "who");
      case 1: return answer("429 Too Many Requests", "", "Retry-After: 1\r\n");
      case 2: return answer("500 Internal Server Error", "");
      case 3: return answer("413 Content Too Large", "");
      case 4: return peer->Reset();
      case 5:  // the records are in, but the answer is lost
        (void)index.Bulk(body, 0);
        return peer->Reset();
      case 6: return answer("200 OK", index.Bulk(body, 429));
      case 7: return answer("200 OK", "<html>");
      default: return answer("200 OK", index.Bulk(body, 0));
    }
  });
  const std::unique_ptr<delivery::Transport> transport = delivery::MakeCurlTransport();
  constexpr int kRounds = 6, kEach = 500;
  for (int i = 0; i < kRounds; ++i) {
    Place place(directory / "s", transport.get(), OutputType::kElasticsearch, server.host());
    place.Open();
    place.Add(i * kEach, (i + 1) * kEach, std::string(200, 'x'));
    // Every other process ends in the midst of its work.
    const size_t enough = i % 2 == 0 ? index.size() : static_cast<size_t>((i + 1) * kEach);
    REQUIRE(place.Until([&] { return index.size() >= enough && place.output->safe() == kEach; }));
    CHECK(place.counts().rejected == 0);
    CHECK(place.counts().dropped_bytes == 0);
  }
  CHECK(index.size() == kRounds * kEach);
  CHECK(Has(index.records()["r2999"], "r2999xxx"));
}

TEST_CASE("a receiver that accepts a connection and never answers holds up neither records nor the end") {
  TemporaryDirectory directory;
  std::optional<FakeReceiver> server;
  server.emplace([](FakeReceiver::Peer* peer) { peer->WaitForEnd(); });
  std::unique_ptr<delivery::Transport> transport = delivery::MakeCurlTransport();
  {
    Place place(directory / "s", transport.get(), OutputType::kOtlp, server->host());
    place.Open();
    place.Add(0, 10);
    REQUIRE(place.Until([&] { return server->connections() > 0; }));
    place.Add(10, 20);
    REQUIRE(place.Until([&] { return place.output->safe() == 20; }));
    CHECK(place.counts().waiting_bytes > 0);
  }
  transport.reset();
  Spool spool(directory / "s", 1 << 20);
  REQUIRE(spool.Open().ok());
  CHECK(spool.bytes() > 0);
}

}  // namespace
}  // namespace stepwatch::operations::outputs
