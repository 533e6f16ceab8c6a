// Events of inotify, reduced to "something happened: look". The kind of event is not used: queues overflow, watches die
// with their inode, and many file systems send no events at all.
//
// Lives on one io_context, on the thread that runs it, and is owned by a shared_ptr (a queued handler may outlive its
// owner). A limit of the system or a missing inotify turns the hints off permanently, with a reason. Setting a watch
// looks a path up, which a hanging mount may delay without bound: an Arming does it on the thread that looks at the
// file.
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
  // The watches of one look. They are set before the file is read, so that an edit after the look causes a hint.
  class Arming {
   public:
    // Any thread: watches this chain from now on. A detached thread may still call it after the InotifyHint is
    // destroyed.
    void WatchChain(const PathChain& chain);

   private:
    friend class InotifyHint;
    // Returns the watch descriptor, or -1 if this node cannot be watched.
    int AddWatch(const PathNode& node, uint32_t mask);

    base::FileSystem* files_ = nullptr;
    std::shared_ptr<base::UniqueFd> queue_;
    PathChain chain_;
    std::map<int, std::string> watches_;  // watch descriptor -> path
    bool is_stale_ = false;               // set watches again even if the chain is unchanged
    bool is_whole_ = false;               // all watches of the chain were tried
    std::string why_off_;                 // a limit of the system was met
  };

  // `on_hint` is called once for any number of events, and not again before EndArming.
  InotifyHint(boost::asio::io_context& loop, std::function<void()> on_hint,
              base::FileSystem& files = base::FileSystem::Real());
  ~InotifyHint();

  // Called before every look while on(). At most one Arming exists at a time.
  Arming BeginArming();
  // Called after the look: adopts its watches and listens.
  void EndArming(Arming arming);
  void Stop();

  bool on() const { return descriptor_.is_open(); }
  const std::string& why_off() const { return why_off_; }
  // True if hints are on but no directory of the chain can be watched (no permission to read it).
  bool is_blind() const { return on() && was_armed_ && armed_.watches_.empty(); }

 private:
  void Listen();
  void OnReadable();
  void DrainEvents();
  void TurnOff(std::string reason);

  base::FileSystem& files_;
  std::shared_ptr<base::UniqueFd> queue_;  // shared with an Arming, whose thread may hang longer than this object lives
  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void()> on_hint_;
  std::string why_off_;
  Arming armed_;  // the last finished one
  bool was_armed_ = false;
  bool is_arming_ = false;
  bool is_stale_ = true;  // a watch died or the queue overflowed: set watches again even if the chain is unchanged
  bool is_listening_ = false;
};

}  // namespace stepwatch::watch
