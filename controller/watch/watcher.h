// Watches one config file: events are hints, content is the truth, a slow look always runs.
//
// Lives on one Asio io_context; every method and callback runs on the thread that runs it. The file itself is looked at
// on the thread of an IoExecutor: a mount that hangs delays the look and nothing else. Nothing here parses JSON: the
// question `looks_whole` goes to the owner. Errors of inotify (limits, unsupported file systems) only turn hints
// off. A callback may call any method, or destroy the watcher.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller/watch/file_snapshot.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::watch {

struct WatcherOptions {
  std::string path;
  bool use_inotify = true;
  std::chrono::milliseconds look_interval{1000};
  // Bytes are accepted when two looks at least this far apart saw the same.
  std::chrono::milliseconds quiet_time{100};
  // Bytes that `looks_whole` calls half-written must rest this long before they are passed on.
  std::chrono::milliseconds half_written_time{500};
};

// Why the file is looked at.
enum class LookCause : uint8_t {
  kEvent,    // inotify has told that something may have changed
  kSlow,     // the look that always runs, whatever inotify says
  kAgain,    // what the last look found is to rest first, or could not be taken over
  kRefresh,  // somebody has asked for it, or the watching begins
};
inline constexpr size_t kLookCauseCount = 4;

class Watcher {
 public:
  struct Callbacks {
    // Bytes (or a missing or unreadable file) that rested for the quiet time and differ from what was passed on last.
    // An owner that cannot take them over throws, and gets whatever the file holds a moment later.
    std::function<void(const FileSnapshot&)> on_change;
    // False if the text looks half-written (does not parse as JSON).
    std::function<bool(const std::string& bytes)> looks_whole;
    // An exception ended a look, in the watcher or in a callback. The watcher looks again, after a pause that doubles
    // with every fault in a row.
    std::function<void(const std::string& what)> on_fault = {};
    // The first change after a fault has been taken over.
    std::function<void()> on_recovery = {};
    // A look begins.
    std::function<void(LookCause)> on_look = {};
  };

  // Loop, executor and file system outlive the watcher, and the file system whatever still hangs in it.
  Watcher(boost::asio::io_context& loop, base::IoExecutor& io, WatcherOptions options, Callbacks callbacks,
          base::FileSystem& files = base::FileSystem::Real());
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Begins with an immediate look.
  void Start();
  void Stop();
  // Looks now, skipping the quiet time but not the stability check, and calls `done` when a change has been passed on.
  // A file that is being written is tried again for 100 ms, then left to the ordinary looks. Stop discards `done`.
  void LookNow(std::function<void()> done);
  // These bytes (by hash) are what the file holds as far as the owner is concerned: our own write-back. Not a change.
  void SetKnown(const std::string& sha256);

  // A question for the executor's thread: are the bytes that the last look found which was taken in still those that
  // the last look found which was made? Whoever writes to the file in their place asks it first.
  std::function<bool()> IsUnchanged() const;

  // "inotify", or "poll" with the reason: for `doctor` and logs.
  std::string mode() const;
  // Looks so far, and how many of them an exception ended.
  uint64_t looks() const;
  uint64_t faults() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // queued handlers hold it weakly
};

}  // namespace stepwatch::watch
