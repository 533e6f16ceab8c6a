// The processes that were found, beyond the control sockets at which they were found: also those of an earlier
// stepwatchd, and those whose control socket does not answer any more.
//
// Who is not seen through a control socket any longer is watched here until it ends. Lives on the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operations/vocabulary/known_process.h"
#include "src/base/file_system.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class ProcessEnd;

class KnownProcesses {
 public:
  using OnEnd = std::function<void(const KnownProcess& process)>;
  // Of which nobody could tell for so long whether it runs: it is forgotten.
  static constexpr double kUnseenSecondsMax = 7 * 86400.0;

  // `on_end` is called from the loop, never from here. A process stays known until Forget.
  KnownProcesses(boost::asio::io_context& loop, base::FileSystem& files, OnEnd on_end)
      : loop_(loop), files_(files), on_end_(std::move(on_end)) {}
  ~KnownProcesses() { Stop(); }
  KnownProcesses(const KnownProcesses&) = delete;
  KnownProcesses& operator=(const KnownProcesses&) = delete;

  static constexpr size_t kProcessesMax = 16384;

  // Somebody else watches it at this moment. False: there are too many, and it stays unknown.
  bool See(const KnownProcess& process);
  // An earlier stepwatchd has seen it.
  void Remember(const KnownProcess& process);
  void Forget(const std::string& key);
  // Once a second, after all that are seen: who was not is watched.
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

}  // namespace stepwatch::operations
