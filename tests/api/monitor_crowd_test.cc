// Crowds before the control socket of a real run: the run collects its window, and other clients are answered.
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"
#include "tests/control_socket/test_server.h"
#include "tests/rounds.h"

namespace stepwatch::testing {
namespace {

using sockets::RawClient;

constexpr int kQuestions = Rounds(10000, 10);
const std::string kQuestion = "GET /v1/status HTTP/1.1\r\n\r\n";

struct CrowdedJob : Job {
  CrowdedJob() : Job(ConfigText({.collect_times = 200})) { Start(); }
  // A window, with the requests of another client meanwhile.
  void Collect() {
    for (int i = 0; i < 20; ++i) {
      TrainSteps(10);
      const auto reply = sockets.client().Get("/v1/status", std::chrono::seconds(30));
      REQUIRE(reply.status().ToString() == "ok");
      CHECK(reply.value().status == 200);
    }
    TrainSteps(2);
    REQUIRE(WaitFor(EventKind::kDrained));
    CHECK(Events(EventKind::kDrained)[0].collected == 200);
    CHECK(Events(EventKind::kDrained)[0].ledger.dropped_total() == 0);
  }

  const ControlSockets sockets;
};

TEST_CASE("ten thousand requests at once are all answered, and so is another client meanwhile", "[slow]") {
  CrowdedJob job;
  const std::string path = job.sockets.Find().front().path;
  constexpr int kVisitors = 20;
  std::vector<std::thread> crowd;
  std::atomic<int> answers{0};
  for (int i = 0; i < kVisitors; ++i)
    // Made here: an assertion of Catch belongs to the thread of the test.
    crowd.emplace_back([&, visitor = std::make_shared<RawClient>(path)] {
      std::thread asking([&] {
        for (int asked = 1; asked < kQuestions / kVisitors; ++asked) (void)visitor->Send(kQuestion);
        (void)visitor->Send("GET /v1/status HTTP/1.1\r\nConnection: close\r\n\r\n");
      });
      const std::string received = visitor->ReceiveAll();
      for (size_t at = 0; (at = received.find("HTTP/1.1 200 OK", at)) != std::string::npos; ++at) ++answers;
      asking.join();
    });
  job.Collect();
  for (std::thread& visitor : crowd) visitor.join();
  CHECK(answers == kQuestions);
}

TEST_CASE("clients that never read, that send a byte now and then, or that send nothing do not keep others waiting") {
  CrowdedJob job;
  const std::string path = job.sockets.Find().front().path;
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 45; ++i) crowd.push_back(std::make_unique<RawClient>(path));
  std::atomic<bool> ends{false};
  std::thread deaf([&] {
    // Ends when the control socket has closed the connection, or no longer reads from it.
    for (int i = 0; i < kQuestions && !ends; ++i)
      if (::send(crowd[0]->fd(), kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  });
  std::thread dripping([&] {
    for (size_t i = 1; i < 20; ++i) (void)crowd[i]->Send("GET /v1/status HTTP/1.1\r\nX: ");
    while (!ends) {
      for (size_t i = 1; i < 20; ++i) (void)crowd[i]->Send("a");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  job.Collect();
  ends = true;
  deaf.join();
  dripping.join();
}

}  // namespace
}  // namespace stepwatch::testing
