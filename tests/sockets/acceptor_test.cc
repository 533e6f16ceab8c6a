// How many people come in: as many as leave the process its descriptors.
#include "src/sockets/acceptor.h"

#include <fcntl.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <vector>

#include "src/base/free_descriptors.h"
#include "src/sockets/tcp_listener.h"
#include "src/sockets/unix_listener.h"
#include "tests/low_descriptor_limit.h"
#include "tests/sockets/raw_client.h"
#include "tests/temporary_directory.h"

namespace stepwatch::sockets {
namespace {

using testing::LowDescriptorLimit;

// An acceptor of a Unix socket or of TCP, whose loop runs when the test calls Run.
struct WatchedAcceptor {
  explicit WatchedAcceptor(bool is_tcp) {
    if (is_tcp) {
      tcp = TcpListener::Open("127.0.0.1:0").value();
      REQUIRE(acceptor.Open(tcp.fd()).ok());
    } else {
      listener = UnixListener::Open(directory.path(), ::getpid(), base::FileSystem::Real()).value();
      REQUIRE(acceptor.Open(listener.fd()).ok());
    }
  }
  ~WatchedAcceptor() { acceptor.Close(); }
  void Visit(int count) {
    for (int i = 0; i < count; ++i)
      visitors.push_back(tcp.valid() ? std::make_unique<RawClient>(RawClient::Tcp{tcp.address()})
                                     : std::make_unique<RawClient>(listener.path()));
  }
  // All that can be done at once.
  void Run() {
    context.restart();
    while (context.poll() > 0) {
    }
  }

  testing::TemporaryDirectory directory;
  UnixListener listener;
  TcpListener tcp;
  std::vector<std::unique_ptr<RawClient>> visitors;
  std::vector<base::UnforkedFd> inside;
  bool may_shed = false;
  boost::asio::io_context context;
  Acceptor acceptor{context, [this](base::UnforkedFd fd) { inside.push_back(std::move(fd)); },
                    [this] {
                      if (!may_shed || inside.empty()) return false;
                      inside.erase(inside.begin());
                      return true;
                    }};
};

TEST_CASE("the process keeps a reserve of descriptors, and more clients wait until there is room") {
  for (const bool is_tcp : {false, true}) {
    for (const rlim_t limit : {rlim_t{128}, rlim_t{256}}) {
      INFO((is_tcp ? "TCP, " : "a Unix socket, ") << limit << " descriptors");
      const LowDescriptorLimit low(limit);
      WatchedAcceptor server(is_tcp);
      server.Visit(static_cast<int>(limit / 4));
      server.Run();
      const size_t inside = server.inside.size();
      const size_t free = base::FreeDescriptors(limit);
      CHECK(inside > 0);
      CHECK(inside < server.visitors.size());
      CHECK(free >= limit / 4);
      CHECK(free >= 3 * inside);
      // One goes, and after a pause one of those who wait is let in.
      server.inside.clear();
      server.context.restart();
      while (server.inside.empty() && server.context.run_one() > 0) {
      }
      CHECK(server.inside.size() > 0);
    }
  }
}

TEST_CASE("what the process itself takes counts, wherever its descriptors are") {
  const LowDescriptorLimit low(128);
  WatchedAcceptor server(false);
  std::vector<base::UniqueFd> files;
  while (base::FreeDescriptors(128) > DescriptorReserve() + 1)
    files.emplace_back(::fcntl(server.listener.fd(), F_DUPFD_CLOEXEC, 100 - static_cast<int>(files.size())));
  server.Visit(1);
  server.Run();
  CHECK(server.inside.empty());
  files.clear();
  server.context.restart();
  while (server.inside.empty() && server.context.run_one() > 0) {
  }
  CHECK(server.inside.size() == 1);
}

TEST_CASE("an expendable connection makes room for a new one") {
  const LowDescriptorLimit low(128);
  WatchedAcceptor server(false);
  server.may_shed = true;
  server.Visit(32);
  server.Run();
  CHECK(server.inside.size() > 0);
  CHECK(base::FreeDescriptors(128) >= DescriptorReserve());
  // All have been let in, and the first ones have been shown out again.
  CHECK(server.visitors.front()->ReceiveAll().empty());
  CHECK(server.visitors.back()->Send("there"));
}

}  // namespace
}  // namespace stepwatch::sockets
