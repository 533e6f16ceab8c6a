#include "operations/host/host_watch.h"

#include <utility>

namespace stepwatch::operations {

HostWatch::HostWatch(boost::asio::io_context& loop, Options options)
    : options_(std::move(options)), mailbox_(std::make_shared<watch::LoopMailbox>(loop)), timer_(loop) {}

HostWatch::~HostWatch() {
  mailbox_->Close();
  const auto deadline = base::IoThread::Clock::now() + std::chrono::seconds(1);
  for (const auto& [path, thread] : threads_) (void)thread->Stop(deadline);
}

void HostWatch::Tick() {
  for (const std::string& path : options_.directories) Look(path);
  timer_.After(options_.interval, [this] { Tick(); });
}

void HostWatch::Look(const std::string& path) {
  bool& is_looking = is_looking_[path];
  // It has hung for the whole interval: the space is unknown.
  if (is_looking) {
    disks_.erase(path);
    return;
  }
  std::unique_ptr<base::IoThread>& thread = threads_[path];
  if (!thread) thread = std::make_unique<base::IoThread>("stepwatchd-disk");
  const auto space = std::make_shared<std::optional<DiskSpace>>();
  const auto found = [this, path, space, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    is_looking_[path] = false;
    if (*space)
      disks_[path] = **space;
    else
      disks_.erase(path);
  };
  is_looking = thread->Post([look = options_.look_at_disk, path, space, found, mailbox = mailbox_] {
    *space = look(path);
    mailbox->Post(found);
  });
}

std::vector<http::MetricFamily> HostWatch::Families(const std::map<std::string, double>& checkpoint_bytes) const {
  return HostFamilies(ReadHost(*options_.files), disks_, checkpoint_bytes);
}

}  // namespace stepwatch::operations
