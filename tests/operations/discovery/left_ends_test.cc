#include "operations/discovery/left_ends.h"

#include <boost/asio/io_context.hpp>
#include <functional>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

// Holds what is posted, as a directory does that hangs.
class HungThread final : public base::IoExecutor {
 public:
  bool Post(std::function<void()> work) override {
    held.push_back(std::move(work));
    return true;
  }
  std::vector<std::function<void()>> held;
};

TEST_CASE("a directory that hangs delays the end of a process, and does not keep it back") {
  boost::asio::io_context loop;
  const auto mailbox = std::make_shared<watch::LoopMailbox>(loop);
  HungThread thread;
  std::vector<std::string> found;
  LeftEnds ends(
      thread, mailbox, {}, base::FileSystem::Real(),
      [&](const KnownProcess& process, const std::vector<control_socket::LeftEnd>&) { found.push_back(process.run); });
  ends.Find({"r1", 0, {}}, 10);
  ends.Find({"r2", 0, {}}, 10);
  ends.Tick(10.5);
  CHECK(found.empty());
  ends.Tick(11.5);
  CHECK(found == std::vector<std::string>{"r1"});
  ends.Tick(13);
  CHECK(found == std::vector<std::string>{"r1", "r2"});
  // It comes back, and no end is found twice.
  for (const auto& work : thread.held) work();
  loop.run_for(std::chrono::milliseconds(50));
  CHECK(found.size() == 2);
}

TEST_CASE("processes that end while the directory is read are looked for together") {
  boost::asio::io_context loop;
  const auto mailbox = std::make_shared<watch::LoopMailbox>(loop);
  HungThread thread;
  size_t found = 0;
  LeftEnds ends(thread, mailbox, {}, base::FileSystem::Real(),
                [&](const KnownProcess&, const std::vector<control_socket::LeftEnd>&) { ++found; });
  for (int i = 0; i < 64; ++i) ends.Find({"r1", i, {}}, 10);
  for (size_t i = 0; i < thread.held.size(); ++i) {
    thread.held[i]();
    loop.restart();
    loop.run_for(std::chrono::milliseconds(20));
    ends.Tick(10.1);
  }
  CHECK(found == 64);
  CHECK(thread.held.size() == 2);
}

}  // namespace
}  // namespace stepwatch::operations
