// The processes that were found, including those of an earlier stepwatchd and those whose control socket no longer
// answers.
//
// A process that is no longer seen through a control socket is watched here until it ends. Lives on the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/control_socket/left_end.h"
#include "operations/vocabulary/known_process.h"
#include "operations/vocabulary/line.h"
#include "src/base/file_system.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class ProcessEnd;

class KnownProcesses {
 public:
  using OnEnd = std::function<void(const KnownProcess& process)>;
  // A process is forgotten when its state could not be seen for this long.
  static constexpr double kUnseenSecondsMax = 7 * 86400.0;

  // `on_end` is called from the loop, never from here. A process stays known until Forget.
  KnownProcesses(boost::asio::io_context& loop, base::FileSystem& files, OnEnd on_end)
      : loop_(loop), files_(files), on_end_(std::move(on_end)) {}
  ~KnownProcesses() { Stop(); }
  KnownProcesses(const KnownProcesses&) = delete;
  KnownProcesses& operator=(const KnownProcesses&) = delete;

  static constexpr size_t kProcessesMax = 16384;

  // The process is watched through its control socket now. False: there are too many, and it stays unknown.
  bool See(const KnownProcess& process);
  // An earlier stepwatchd has seen it.
  void Remember(const KnownProcess& process);
  void Forget(const std::string& key);
  // Once a second, after all calls of See: watches processes that were not seen.
  void Tick(double now);
  void Stop();
  std::vector<KnownProcess> All() const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    KnownProcess process;
    bool is_seen = false;
    std::shared_ptr<ProcessEnd> end;
  };

  void Watch(Entry* entry);

  boost::asio::io_context& loop_;
  base::FileSystem& files_;
  const OnEnd on_end_;
  std::map<std::string, Entry> entries_;
};

// True: it ended, or its machine was started again since. Empty: unknown, because it is a process of another machine or
// another container.
std::optional<bool> HasEnded(const KnownProcess& known, base::FileSystem& files = base::FileSystem::Real());

// Reports its last words, if it is among `ends`, without lines up to `reported_t`; then its end.
std::vector<Line> LastLinesOf(const KnownProcess& known, const std::vector<control_socket::LeftEnd>& ends,
                              double reported_t, double now);

}  // namespace stepwatch::operations
