// How many people come in: as many as leave the process its descriptors.
#include "controller/door/entrance.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <vector>

#include "controller/door/listener.h"
#include "controller/door/tcp_listener.h"
#include "src/base/free_descriptors.h"
#include "tests/door/open_door.h"

namespace stepwatch::door {
namespace {

// Sets the soft limit of descriptors, and sets it back.
class LowLimit {
 public:
  explicit LowLimit(rlim_t limit) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit low{limit, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  }
  ~LowLimit() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
  LowLimit(const LowLimit&) = delete;
  LowLimit& operator=(const LowLimit&) = delete;

 private:
  rlimit before_{};
};

// An entrance on a Unix socket or on TCP, whose loop runs when the test says so.
struct WatchedEntrance {
  explicit WatchedEntrance(bool is_tcp) {
    if (is_tcp) {
      tcp = TcpListener::Open("127.0.0.1:0").value();
      REQUIRE(entrance.Open(tcp.fd()).ok());
    } else {
      listener = Listener::Open(directory.path(), ::getpid(), base::FileSystem::Real()).value();
      REQUIRE(entrance.Open(listener.fd()).ok());
    }
  }
  ~WatchedEntrance() { entrance.Close(); }
  void Visit(int count) {
    for (int i = 0; i < count; ++i)
      visitors.push_back(tcp.valid() ? std::make_unique<Visitor>(Visitor::Tcp{tcp.address()})
                                     : std::make_unique<Visitor>(listener.path()));
  }
  // All that can be done at once.
  void Run() {
    context.restart();
    while (context.poll() > 0) {
    }
  }

  testing::TemporaryDirectory directory;
  Listener listener;
  TcpListener tcp;
  std::vector<std::unique_ptr<Visitor>> visitors;
  std::vector<base::UnforkedFd> inside;
  bool may_shed = false;
  boost::asio::io_context context;
  Entrance entrance{context, [this](base::UnforkedFd fd) { inside.push_back(std::move(fd)); },
                    [this] {
                      if (!may_shed || inside.empty()) return false;
                      inside.erase(inside.begin());
                      return true;
                    }};
};

TEST_CASE("whoever comes, the process keeps a reserve of descriptors, and the others wait until there is room") {
  for (const bool is_tcp : {false, true}) {
    for (const rlim_t limit : {rlim_t{128}, rlim_t{256}}) {
      INFO((is_tcp ? "TCP, " : "a Unix socket, ") << limit << " descriptors");
      const LowLimit low(limit);
      WatchedEntrance door(is_tcp);
      door.Visit(static_cast<int>(limit / 4));
      door.Run();
      const size_t inside = door.inside.size();
      const size_t free = base::FreeDescriptors(limit);
      CHECK(inside > 0);
      CHECK(inside < door.visitors.size());
      CHECK(free >= limit / 4);
      CHECK(free >= 3 * inside);
      // One goes, and after a pause one of those who wait is let in.
      door.inside.clear();
      door.context.restart();
      while (door.inside.empty() && door.context.run_one() > 0) {
      }
      CHECK(door.inside.size() > 0);
    }
  }
}

TEST_CASE("what the process itself takes counts, wherever its descriptors are") {
  const LowLimit low(128);
  WatchedEntrance door(false);
  std::vector<base::UniqueFd> files;
  while (base::FreeDescriptors(128) > DescriptorReserve() + 1)
    files.emplace_back(::fcntl(door.listener.fd(), F_DUPFD_CLOEXEC, 100 - static_cast<int>(files.size())));
  door.Visit(1);
  door.Run();
  CHECK(door.inside.empty());
  files.clear();
  door.context.restart();
  while (door.inside.empty() && door.context.run_one() > 0) {
  }
  CHECK(door.inside.size() == 1);
}

TEST_CASE("who is not missed goes for who comes") {
  const LowLimit low(128);
  WatchedEntrance door(false);
  door.may_shed = true;
  door.Visit(32);
  door.Run();
  CHECK(door.inside.size() > 0);
  CHECK(base::FreeDescriptors(128) >= DescriptorReserve());
  // All have been let in, and the first ones have been shown out again.
  CHECK(door.visitors.front()->HearAll().empty());
  CHECK(door.visitors.back()->Say("there"));
}

TEST_CASE("visitors of a whole door leave a process with few descriptors what it needs") {
  for (const rlim_t limit : {rlim_t{128}, rlim_t{256}}) {
    INFO(limit << " descriptors");
    const LowLimit low(limit);
    OpenDoor door;
    const std::string path = door.Path();
    std::vector<std::unique_ptr<Visitor>> crowd;
    for (rlim_t i = 0; i < limit / 4; ++i) crowd.push_back(std::make_unique<Visitor>(path));
    // Among them, and in spite of them, somebody is answered.
    CHECK(door.client().Get("/v1/status").value().status == 200);
    CHECK(base::FreeDescriptors(limit) >= DescriptorReserve());
  }
}

TEST_CASE("files that the process opens are worth more than people who say nothing") {
  const LowLimit low(128);
  OpenDoor door;
  Visitor silent(door.Path());
  REQUIRE(silent.Say("GET /v1/status HTTP/1.1\r\n\r\n"));
  CHECK(Has(silent.HearUntil("\"version\":1"), "200 OK"));
  std::vector<base::UniqueFd> files;
  while (base::FreeDescriptors(128) >= DescriptorReserve()) files.emplace_back(::dup(silent.fd()));
  CHECK_FALSE(Has(silent.HearAll(), "nothing for"));
}

}  // namespace
}  // namespace stepwatch::door
