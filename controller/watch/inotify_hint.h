// Events of inotify, reduced to "something happened: look". What happened is never trusted: queues overflow, watches
// die with their inode, and many file systems tell nothing at all.
//
// Lives on one io_context, on the thread that runs it, and is owned by a shared_ptr (a queued handler may outlive its
// owner). A limit of the system or a missing inotify turns the hints off for good, with a reason. To set a watch means
// to look a path up, which a mount may answer late or never: an Arming does it on whatever thread looks at the file.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "controller/watch/path_chain.h"
#include "src/base/file.h"

namespace stepwatch::watch {

class InotifyHint : public std::enable_shared_from_this<InotifyHint> {
 public:
  // The watches of one look. They stand before the file is read, so that an edit after the look gives a hint.
  class Arming {
   public:
    // Any thread: watches this chain from now on. A detached thread may still do it when the InotifyHint is gone.
    void WatchChain(const PathChain& chain);

   private:
    friend class InotifyHint;
    // The watch descriptor, or -1 if this node cannot be watched.
    int AddWatch(const PathNode& node, uint32_t mask);

    base::FileSystem* files_ = nullptr;
    std::shared_ptr<base::UniqueFd> queue_;
    PathChain chain_;
    std::map<int, std::string> watches_;  // watch descriptor -> path
    bool is_stale_ = false;               // watch again whatever the chain says
    bool is_whole_ = false;               // all watches of the chain were tried
    std::string why_off_;                 // a limit of the system was met
  };

  // `on_hint` is called once for any number of events; no further call comes before EndArming.
  InotifyHint(boost::asio::io_context& loop, std::function<void()> on_hint,
              base::FileSystem& files = base::FileSystem::Real());
  ~InotifyHint();

  // Before every look, while on(). At most one Arming at a time.
  Arming BeginArming();
  // After it: takes the watches over, and listens.
  void EndArming(Arming arming);
  void Stop();

  bool on() const { return descriptor_.is_open(); }
  const std::string& why_off() const { return why_off_; }
  // On, but none of the chain's directories lets itself be watched (no permission to read it).
  bool is_blind() const { return on() && was_armed_ && armed_.watches_.empty(); }

 private:
  void Listen();
  void OnReadable();
  void DrainEvents();
  void TurnOff(std::string reason);

  base::FileSystem& files_;
  std::shared_ptr<base::UniqueFd> queue_;  // shared with an Arming, whose thread may hang while this object goes
  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void()> on_hint_;
  std::string why_off_;
  Arming armed_;  // what the last one led to
  bool was_armed_ = false;
  bool is_arming_ = false;
  bool is_stale_ = true;  // a watch died or the queue overflowed: watch again whatever the chain says
  bool is_listening_ = false;
};

}  // namespace stepwatch::watch
