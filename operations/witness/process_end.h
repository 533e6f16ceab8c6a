// Reports the end of a process, also of one that is not a child.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "operations/witness/process_ref.h"
#include "src/base/file.h"

namespace stepwatch::operations {

// Uses a pidfd, which is readable as soon as the process has ended (a zombie has), and which no later process with the
// same pid can take over. If the kernel provides none, uses a look into /proc at each Look. Lives on the loop's thread,
// and is owned by a shared_ptr: a queued handler may outlive its owner.
class ProcessEnd : public std::enable_shared_from_this<ProcessEnd> {
 public:
  // `pidfd` may be invalid. `process`: nullopt if it has no pid here, as in another container.
  ProcessEnd(boost::asio::io_context& loop, base::UniqueFd pidfd, std::optional<ProcessRef> process,
             std::function<void()> on_end, base::FileSystem& files = base::FileSystem::Real());

  // Calls `on_end` once, from the loop; never from here.
  void Start();
  // Without a pidfd: looks. Call it a few times a second.
  void Look();
  // `on_end` is no longer called.
  void Stop();
  // False: there is neither a pidfd nor a pid, so the end stays unknown.
  bool CanTell() const { return has_pidfd_ || process_.has_value(); }

 private:
  void Wait();
  void Report();

  boost::asio::io_context& loop_;
  boost::asio::posix::stream_descriptor pidfd_;
  bool has_pidfd_ = false;
  const std::optional<ProcessRef> process_;
  std::function<void()> on_end_;
  base::FileSystem& files_;
};

// pidfd_open, of exactly this process: invalid if the kernel has none, refuses, or the process is gone already.
base::UniqueFd OpenPidfd(const ProcessRef& process, base::FileSystem& files);

}  // namespace stepwatch::operations
