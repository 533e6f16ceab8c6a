#include "controller/watch/watcher.h"

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/base/sha256.h"
#include "tests/catch.h"
#include "tests/rounds.h"
#include "tests/temporary_directory.h"
#include "tests/watch/hanging_files.h"
#include "tests/watch/watched.h"

namespace stepwatch::watch {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::TemporaryDirectory;
using testing::WriteByRename;
using testing::WriteInPlace;

}  // namespace

TEST_CASE("a watcher passes on what is there and every kind of save, by events alone or by looks alone") {
  const bool use_inotify = GENERATE(true, false);
  INFO((use_inotify ? "inotify" : "poll"));
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteInPlace(path, "{1}");
  Watched watched(path, use_inotify);
  watched.watcher().Start();
  CHECK(watched.PassesOn("{1}"));
  WriteInPlace(path, "{2}");
  CHECK(watched.PassesOn("{2}"));
  WriteByRename(path, "{3}");
  CHECK(watched.PassesOn("{3}"));
  fs::remove(path);
  CHECK(watched.PassesOn("(missing)"));
  WriteInPlace(path, "{3}");
  CHECK(watched.PassesOn("{3}"));
  fs::remove(path);
  fs::create_directory(path);
  CHECK(watched.PassesOn("(unreadable)"));
  fs::remove(path);
  WriteInPlace(path, "half");
  CHECK(watched.PassesOn("half"));
  CHECK(watched.watcher().faults() == 0);
}

TEST_CASE("mode is the way in which edits are noticed, with the reason where it is not by events") {
  TemporaryDirectory directory;
  Watched with(directory / "config.json");
  with.watcher().Start();
  CHECK(with.watcher().mode() == "inotify");
  Watched without(directory / "config.json", false);
  without.watcher().Start();
  CHECK(without.watcher().mode().substr(0, 6) == "poll (");
}

TEST_CASE("each look has its cause: events, the slow look, bytes that are to rest, a call") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteInPlace(path, "{1}");
  Watched by_events(path);
  by_events.watcher().Start();
  CHECK(by_events.PassesOn("{1}"));
  CHECK(by_events.looks(LookCause::kRefresh) == 1);
  CHECK(by_events.looks(LookCause::kAgain) >= 1);
  WriteByRename(path, "{2}");
  CHECK(by_events.PassesOn("{2}"));
  CHECK(by_events.looks(LookCause::kEvent) >= 1);
  CHECK(by_events.looks(LookCause::kSlow) == 0);
  REQUIRE(by_events.LookNow());
  CHECK(by_events.looks(LookCause::kRefresh) == 2);

  Watched by_looks(path, false);
  by_looks.watcher().Start();
  CHECK(by_looks.PassesOn("{2}"));
  CHECK(by_looks.RunUntil([&] { return by_looks.looks(LookCause::kSlow) >= 2; }));
  CHECK(by_looks.looks(LookCause::kEvent) == 0);
  for (const Watched* watched : {&by_events, &by_looks}) {
    uint64_t sum = 0;
    for (size_t cause = 0; cause < kLookCauseCount; ++cause) sum += watched->looks(static_cast<LookCause>(cause));
    CHECK(sum == watched->watcher().looks());
  }
}

TEST_CASE("events follow links, replaced directories and files that come back") {
  TemporaryDirectory directory;
  fs::create_directory(directory / "v1");
  fs::create_directory(directory / "v2");
  WriteInPlace(directory / "v1/config.json", "{1}");
  WriteInPlace(directory / "v2/config.json", "{2}");
  fs::create_symlink("v1", directory / "data");
  fs::create_symlink("data/config.json", directory / "config.json");
  Watched watched(directory / "config.json");
  watched.watcher().Start();
  CHECK(watched.PassesOn("{1}"));
  for (const char* version : {"v2", "v1", "v2"}) {
    fs::create_symlink(version, directory / "data_tmp");
    fs::rename(directory / "data_tmp", directory / "data");
    CHECK(watched.PassesOn(version[1] == '2' ? "{2}" : "{1}"));
  }
  WriteInPlace(directory / "v2/config.json", "{22}");
  CHECK(watched.PassesOn("{22}"));
  fs::rename(directory / "v2", directory / "v3");
  CHECK(watched.PassesOn("(missing)"));
  fs::create_directory(directory / "v2");
  WriteInPlace(directory / "v2/config.json", "{222}");
  CHECK(watched.PassesOn("{222}"));
}

TEST_CASE("LookNow passes a change on before it is over, also before Start") {
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", "{1}");
  Watched watched(directory / "config.json");
  REQUIRE(watched.LookNow());
  CHECK(watched.passed_on() == std::vector<std::string>{"{1}"});
  watched.watcher().Start();
  WriteInPlace(directory / "config.json", "{2}");
  REQUIRE(watched.LookNow());
  REQUIRE(watched.LookNow());
  CHECK(watched.passed_on() == std::vector<std::string>{"{1}", "{2}"});
}

TEST_CASE("known bytes are not passed on, an edit after them is") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteInPlace(path, "{true}");
  Watched watched(path);
  watched.watcher().Start();
  CHECK(watched.PassesOn("{true}"));
  watched.watcher().SetKnown(base::Sha256Hex("{false}"));
  WriteByRename(path, "{false}");
  const uint64_t looks = watched.watcher().looks();
  CHECK(watched.RunUntil([&] { return watched.watcher().looks() > looks; }));
  WriteByRename(path, "{true}");
  CHECK(watched.RunUntil([&] { return watched.passed_on().size() == 2; }));
  CHECK(watched.passed_on() == std::vector<std::string>{"{true}", "{true}"});
}

TEST_CASE("a change that its owner throws at is passed on again until it is taken over") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteInPlace(path, "{1}");
  Watched watched(path);
  int faults = 2;
  watched.also = [&](const FileSnapshot&) {
    if (faults-- > 0) throw std::runtime_error("a bug of the owner");
  };
  watched.watcher().Start();
  CHECK(watched.RunUntil([&] { return watched.passed_on().size() == 3; }));
  REQUIRE(watched.LookNow());
  WriteInPlace(path, "{2}");
  CHECK(watched.PassesOn("{2}"));
  CHECK(watched.passed_on() == std::vector<std::string>{"{1}", "{1}", "{1}", "{2}"});
  CHECK(watched.watcher().faults() == 2);
}

TEST_CASE("a watcher may be stopped or destroyed at any time, also by its own callback") {
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", "{1}");
  boost::asio::io_context loop;
  base::IoThread io;
  WatcherOptions options;
  options.path = directory / "config.json";
  options.quiet_time = 1ms;
  std::unique_ptr<Watcher> watcher;
  bool was_called = false;
  const Watcher::Callbacks callbacks{.on_change =
                                         [&](const FileSnapshot&) {
                                           was_called = true;
                                           watcher.reset();
                                         },
                                     .looks_whole = nullptr};
  SECTION("in the callback") {
    watcher = std::make_unique<Watcher>(loop, io, options, callbacks);
    watcher->Start();
    loop.run_for(10s);  // ends by itself when nothing is left to wait for
    CHECK(was_called);
    CHECK(watcher == nullptr);
    CHECK(loop.stopped());
  }
  SECTION("with handlers queued") {
    watcher = std::make_unique<Watcher>(loop, io, options, callbacks);
    watcher->Start();
    boost::asio::post(loop, [&] { watcher.reset(); });
    WriteInPlace(directory / "config.json", "{2}");
    loop.run_for(10s);
    CHECK(loop.stopped());
  }
  SECTION("after the loop is gone from under its handlers") {
    watcher = std::make_unique<Watcher>(loop, io, options, callbacks);
    watcher->Start();
    watcher->Stop();
    watcher->Stop();
    loop.run_for(10s);
    CHECK_FALSE(was_called);
    watcher->Start();
    loop.restart();
    loop.run_for(10s);
    CHECK(was_called);
  }
}

#ifndef __SANITIZE_ADDRESS__  // UBSan looks at the type of an object through a pipe, which takes descriptors
TEST_CASE("without descriptors there are no events and no bytes, and looks go on when there are some again") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteInPlace(path, "{1}");
  Watched watched(path, true, 20ms);
  rlimit limit = {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int first_free = ::dup(STDERR_FILENO);
  REQUIRE(::close(first_free) == 0);
  const rlimit none_left = {static_cast<rlim_t>(first_free), limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  watched.watcher().Start();
  const bool was_reported = watched.PassesOn("(unreadable)");
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(was_reported);
  CHECK(watched.watcher().mode().find("poll (no inotify instance is left") == 0);
  CHECK(watched.PassesOn("{1}"));
}
#endif

TEST_CASE("two watchers on one file and one loop do not disturb each other") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteInPlace(path, "{1}");
  Watched first(path), second(path, false);
  first.watcher().Start();
  second.watcher().Start();
  CHECK(first.PassesOn("{1}"));
  CHECK(second.PassesOn("{1}"));
}

TEST_CASE("thousands of events beside the file cost few looks") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteInPlace(path, "{1}");
  Watched watched(path);
  watched.watcher().Start();
  CHECK(watched.PassesOn("{1}"));
  const uint64_t looks_before = watched.watcher().looks();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < testing::Rounds(3000); ++i) {
    WriteInPlace(directory / ("noise" + std::to_string(i)), "x");
    watched.loop().poll();
  }
  WriteInPlace(path, "{2}");
  CHECK(watched.PassesOn("{2}"));
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(watched.watcher().looks() - looks_before <= static_cast<uint64_t>(took / 10ms) + 10);
}

// Looks at a file whose mount hangs from the second look on.
struct Hung {
  Hung() {
    WriteInPlace(path, "{1}");
    watched.watcher().Start();
    REQUIRE(watched.PassesOn("{1}"));
    files.Hang();
    WriteInPlace(path, "{2}");
    REQUIRE(watched.RunUntil([this] { return files.held() == 1; }));
  }
  ~Hung() {
    files.LetGo();
    files.AwaitHeld(0);
  }

  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  testing::HangingFiles& files = testing::HangingFiles::For(path);
  Watched watched{path, true, 1h, files};
};

TEST_CASE("while a look hangs in the file system the loop goes on, and no other look begins") {
  Hung hung;
  const uint64_t looks = hung.watched.watcher().looks();
  boost::asio::steady_timer timer(hung.watched.loop(), 1ms);
  bool was_served = false;
  timer.async_wait([&was_served](const boost::system::error_code&) { was_served = true; });
  REQUIRE(hung.watched.RunUntil([&was_served] { return was_served; }));
  CHECK(hung.files.held() == 1);
  CHECK(hung.watched.watcher().looks() == looks);
  hung.files.LetGo();
  CHECK(hung.watched.PassesOn("{2}"));
}

TEST_CASE("an edit made while a look hangs is found by a look after it") {
  Hung hung;
  WriteByRename(hung.path, "{3}");  // the look has the file of before open
  hung.files.LetGo();
  CHECK(hung.watched.PassesOn("{3}"));
}

TEST_CASE("an impatient look that hangs is over when the file system answers, and finds what was saved meanwhile") {
  Hung hung;
  bool is_over = false;
  hung.watched.watcher().LookNow([&is_over] { is_over = true; });
  WriteByRename(hung.path, "{3}");
  hung.watched.loop().poll();
  CHECK_FALSE(is_over);
  hung.files.LetGo();
  REQUIRE(hung.watched.RunUntil([&is_over] { return is_over; }));
  CHECK(hung.watched.passed_on().back() == "{3}");
}

TEST_CASE("a watcher, its loop and its executor may go while a look hangs") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteInPlace(path, "{1}");
  testing::HangingFiles& files = testing::HangingFiles::For(path);
  files.Hang();
  {
    Watched watched(path, true, 1h, files);
    watched.watcher().Start();
    files.AwaitHeld(1);
    watched.Destroy();
    CHECK_FALSE(watched.io().Stop(std::chrono::steady_clock::now()));
  }
  files.LetGo();
  files.AwaitHeld(0);
}

TEST_CASE("a thread that cannot take a look is a fault, and the next look is tried") {
  struct Refusing final : base::IoExecutor {
    bool Post(std::function<void()> work) override {
      if (refused++ < 2) return false;
      return io.Post(std::move(work));
    }
    int refused = 0;
    base::IoThread io;
  } io;
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", "{1}");
  boost::asio::io_context loop;
  WatcherOptions options;
  options.path = directory / "config.json";
  options.quiet_time = 1ms;
  options.look_interval = 1h;
  std::vector<std::string> faults;
  Watcher watcher(loop, io, options,
                  {.on_change = [&](const FileSnapshot&) { loop.stop(); },
                   .looks_whole = nullptr,
                   .on_fault = [&](const std::string& what) { faults.push_back(what); },
                   .on_recovery = nullptr});
  watcher.Start();
  loop.run_for(10s);
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].find("cannot look at the config") == 0);
}

TEST_CASE("whoever writes in the place of what was found learns that a look has found something else since") {
  TemporaryDirectory directory;
  const std::string path = directory / "config.json";
  WriteByRename(path, "{1}");
  Watched watched(path, false, 1h);
  REQUIRE(watched.LookNow());
  const auto ask = [&](const std::function<bool()>& question) {
    std::promise<bool> answer;
    REQUIRE(watched.io().Post([&] { answer.set_value(question()); }));
    return answer.get_future().get();
  };
  const std::function<bool()> is_unchanged = watched.watcher().IsUnchanged();
  CHECK(ask(is_unchanged));
  WriteByRename(path, "{1}");
  REQUIRE(watched.LookNow());
  CHECK(ask(is_unchanged));
  WriteByRename(path, "{2}");
  REQUIRE(watched.LookNow());
  CHECK_FALSE(ask(is_unchanged));
  WriteByRename(path, "{1}");
  REQUIRE(watched.LookNow());
  CHECK_FALSE(ask(is_unchanged));
  CHECK(ask(watched.watcher().IsUnchanged()));
}

}  // namespace stepwatch::watch
