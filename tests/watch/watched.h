// A watcher on a real loop, with the texts that it has passed on.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/watch/watcher.h"
#include "src/base/io_executor.h"

namespace stepwatch::watch {

using namespace std::chrono_literals;

// A watcher on a real loop that this thread runs, and the texts that it passed on: the bytes, "(missing)" or
// "(unreadable)".
class Watched {
 public:
  // The slow look is off the stage where events are tested, and quick where it alone is.
  explicit Watched(const std::string& path, bool use_inotify = true)
      : Watched(path, use_inotify, use_inotify ? 1h : std::chrono::milliseconds(50ms)) {}
  Watched(const std::string& path, bool use_inotify, std::chrono::milliseconds look_interval,
          base::FileSystem& files = base::FileSystem::Real())
      : watcher_(std::make_unique<Watcher>(loop_, io_, Options(path, use_inotify, look_interval), Calls(), files)) {}

  Watcher& watcher() const { return *watcher_; }
  void Destroy() { watcher_.reset(); }
  base::IoThread& io() { return io_; }
  boost::asio::io_context& loop() { return loop_; }
  const std::vector<std::string>& passed_on() const { return passed_on_; }
  std::function<void(const FileSnapshot&)> also;

  uint64_t looks(LookCause cause) const { return causes_[static_cast<size_t>(cause)]; }

  // Looks now; false: the look is not over in time.
  bool LookNow() {
    bool is_over = false;
    watcher_->LookNow([&is_over] { is_over = true; });
    return RunUntil([&is_over] { return is_over; });
  }
  // Runs the loop until this is the last that was passed on.
  bool PassesOn(const std::string& last) {
    return RunUntil([&] { return !passed_on_.empty() && passed_on_.back() == last; });
  }
  bool RunUntil(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!holds() && std::chrono::steady_clock::now() < deadline) {
      if (loop_.stopped()) loop_.restart();
      loop_.run_one_for(100ms);
    }
    return holds();
  }

 private:
  static WatcherOptions Options(const std::string& path, bool use_inotify, std::chrono::milliseconds look_interval) {
    WatcherOptions options;
    options.path = path;
    options.use_inotify = use_inotify;
    options.look_interval = look_interval;
    options.quiet_time = 20ms;
    options.half_written_time = 60ms;
    return options;
  }
  Watcher::Callbacks Calls() {
    return {.on_change = [this](const FileSnapshot& snapshot) { OnChange(snapshot); },
            .looks_whole = [](const std::string& bytes) { return !bytes.empty() && bytes.back() == '}'; },
            .on_look = [this](LookCause cause) { ++causes_[static_cast<size_t>(cause)]; }};
  }
  void OnChange(const FileSnapshot& snapshot) {
    if (snapshot.kind == SnapshotKind::kBytes) passed_on_.push_back(snapshot.bytes);
    if (snapshot.kind == SnapshotKind::kMissing) passed_on_.push_back("(missing)");
    if (snapshot.kind == SnapshotKind::kUnreadable) passed_on_.push_back("(unreadable)");
    if (also) also(snapshot);
  }

  boost::asio::io_context loop_;
  base::IoThread io_;
  std::vector<std::string> passed_on_;
  std::array<uint64_t, kLookCauseCount> causes_{};
  std::unique_ptr<Watcher> watcher_;
};

}  // namespace stepwatch::watch
