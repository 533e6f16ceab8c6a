// Events of inotify, reduced to "something happened: look". What happened is never trusted: queues overflow, watches
// die with their inode, and many file systems tell nothing at all.
//
// Lives on one io_context, on the thread that runs it, and is owned by a shared_ptr (a queued handler may outlive its
// owner). A limit of the system or a missing inotify turns the hints off for good, with a reason.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "controller/watch/path_chain.h"

namespace stepwatch::watch {

class InotifyHint : public std::enable_shared_from_this<InotifyHint> {
 public:
  // `on_hint` is called once for any number of events; no further call comes before Arm.
  InotifyHint(boost::asio::io_context& loop, std::function<void()> on_hint,
              base::FileSystem& files = base::FileSystem::Real());

  // Watches this chain from now on, and listens. Called before every look, so that an edit after the look gives a hint.
  void Arm(const PathChain& chain);
  void Stop();

  bool on() const { return descriptor_.is_open(); }
  const std::string& why_off() const { return why_off_; }
  // On, but none of the chain's directories lets itself be watched (no permission to read it).
  bool is_blind() const { return on() && watches_.empty(); }

 private:
  void Listen();
  void OnReadable();
  void DrainEvents();
  void WatchChain(const PathChain& chain);
  // The watch descriptor, or -1 if this node cannot be watched.
  int AddWatch(const PathNode& node, uint32_t mask);
  void TurnOff(std::string reason);

  base::FileSystem& files_;
  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void()> on_hint_;
  std::string why_off_;
  PathChain armed_;
  std::map<int, std::string> watches_;  // watch descriptor -> path
  bool is_stale_ = true;                // a watch died or the queue overflowed: arm again whatever the chain says
  bool is_listening_ = false;
};

}  // namespace stepwatch::watch
