// Looks at the disks of checkpoints now and then, and at the rest of this host for each page of metrics.
//
// Lives on the loop's thread. Disks have a thread of their own; one whose mount hangs has no metrics until it returns.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "controller/watch/timer.h"
#include "operations/host/host_metrics.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class HostWatch {
 public:
  struct Options {
    std::vector<std::string> directories = {};
    std::chrono::milliseconds interval{15000};
    LookAtDisk look_at_disk = DiskSpaceOf;
    base::FileSystem* files = &base::FileSystem::Real();
  };

  HostWatch(boost::asio::io_context& loop, Options options);
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  void Start() { Tick(); }
  std::vector<http::MetricFamily> Families(const std::map<std::string, double>& checkpoint_bytes) const;

 private:
  void Tick();
  void Look(const std::string& path);

  const Options options_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  // By directory: one that hangs keeps no other from being seen.
  std::map<std::string, std::unique_ptr<base::IoThread>> threads_;
  std::map<std::string, bool> is_looking_;
  std::map<std::string, DiskSpace> disks_;
  watch::Timer timer_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace stepwatch::operations
