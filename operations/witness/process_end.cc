#include "operations/witness/process_end.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

namespace stepwatch::operations {

base::UniqueFd OpenPidfd(const ProcessRef& process, base::FileSystem& files) {
  base::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  // Checked afterwards: a pid that was free for a moment may belong to another process by now.
  if (pidfd.valid() && !StateOf(process, files)) pidfd.Reset();
  return pidfd;
}

ProcessEnd::ProcessEnd(boost::asio::io_context& loop, base::UniqueFd pidfd, std::optional<ProcessRef> process,
                       std::function<void()> on_end, base::FileSystem& files)
    : loop_(loop), pidfd_(loop), process_(process), on_end_(std::move(on_end)), files_(files) {
  if (!pidfd.valid()) return;
  boost::system::error_code error;
  pidfd_.assign(pidfd.get(), error);
  if (error) return;
  (void)pidfd.Release();
  has_pidfd_ = true;
}

void ProcessEnd::Start() {
  if (has_pidfd_)
    Wait();
  else
    Look();
}

void ProcessEnd::Wait() {
  pidfd_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const boost::system::error_code& error) {
                      if (!error) self->Report();
                    });
}

void ProcessEnd::Look() {
  if (has_pidfd_ || !process_ || !on_end_ || !IsGone(*process_, files_)) return;
  boost::asio::post(loop_, [self = shared_from_this()] { self->Report(); });
}

void ProcessEnd::Report() {
  if (on_end_) std::exchange(on_end_, {})();
}

void ProcessEnd::Stop() {
  on_end_ = {};
  boost::system::error_code ignored;
  pidfd_.close(ignored);
}

}  // namespace stepwatch::operations
