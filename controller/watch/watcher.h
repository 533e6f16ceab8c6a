// Watches one config file: events are hints, content decides, and a slow look always runs.
//
// Lives on one Asio io_context; every method and callback runs on the thread that runs it. The file is read on the
// thread of an IoExecutor: a mount that hangs delays only the look. The watcher does not parse JSON: `looks_whole` asks
// the owner. Errors of inotify (limits, unsupported file systems) only turn hints off. A callback may call any method,
// or destroy the watcher.
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
  // Bytes that `looks_whole` rejects must rest this long before they are passed on.
  std::chrono::milliseconds half_written_time{500};
};

// Reason of a look.
enum class LookCause : uint8_t {
  kEvent,    // an inotify event: the file may have changed
  kSlow,     // the regular look, independent of inotify
  kAgain,    // the last snapshot must rest first, or its change could not be applied
  kRefresh,  // a caller requested it, or watching begins
};
inline constexpr size_t kLookCauseCount = 4;

class Watcher {
 public:
  struct Callbacks {
    // Bytes (or a missing or unreadable file) that rested for the quiet time and differ from the last ones passed on.
    // An owner that cannot apply them throws, and is called again a moment later with the content of that time.
    std::function<void(const FileSnapshot&)> on_change;
    // False if the text looks half-written (does not parse as JSON).
    std::function<bool(const std::string& bytes)> looks_whole;
    // An exception ended a look, in the watcher or in a callback. The watcher looks again after a pause that doubles
    // with every consecutive fault.
    std::function<void(const std::string& what)> on_fault = {};
    // The first change after a fault has been applied.
    std::function<void()> on_recovery = {};
    // A look begins.
    std::function<void(LookCause)> on_look = {};
  };

  // Loop and executor outlive the watcher. The file system also outlives every call that still hangs in it.
  Watcher(boost::asio::io_context& loop, base::IoExecutor& io, WatcherOptions options, Callbacks callbacks,
          base::FileSystem& files = base::FileSystem::Real());
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Begins with an immediate look.
  void Start();
  void Stop();
  // Looks now, without the quiet time but with the stability check, and calls `done` when a change has been passed on.
  // A file that is being written is tried again for 100 ms, then left to the ordinary looks. Stop discards `done`.
  void LookNow(std::function<void()> done);
  // Treats these bytes (by hash) as known: a write-back by the owner is not a change.
  void SetKnown(const std::string& sha256);

  // Returns a check for the executor's thread: true while the last look found the same bytes as the last look whose
  // result the loop has processed. A caller runs it before it overwrites the file.
  std::function<bool()> IsUnchanged() const;

  // "inotify", or "poll" with the reason: for `doctor` and logs.
  std::string mode() const;
  // Number of looks, and of those that ended with an exception.
  uint64_t looks() const;
  uint64_t faults() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // queued handlers hold it weakly
};

}  // namespace stepwatch::watch
