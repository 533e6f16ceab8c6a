#include "controller/watch/inotify_hint.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "controller/watch/inotify_records.h"

namespace stepwatch::watch {
namespace {

constexpr uint32_t kFileMask = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;
constexpr uint32_t kDirectoryMask = kFileMask | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ONLYDIR;
// After one of these a path may lead elsewhere although its chain is unchanged, or events were lost.
constexpr uint32_t kStaleMask = IN_IGNORED | IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT;

constexpr size_t kEventBytes = size_t{64} * 1024;
// Bounds one wake-up in a directory with continuous writes; remaining events cause the next wake-up.
constexpr int kReadsPerWakeup = 32;

}  // namespace

InotifyHint::InotifyHint(boost::asio::io_context& loop, std::function<void()> on_hint, base::FileSystem& files)
    : files_(files),
      queue_(std::make_shared<base::UniqueFd>(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC))),
      descriptor_(loop),
      on_hint_(std::move(on_hint)) {
  if (!queue_->valid()) {
    TurnOff(errno == EMFILE ? "no inotify instance is left (fs.inotify.max_user_instances, or open files)"
                            : "inotify is not available: " + std::generic_category().message(errno));
    return;
  }
  boost::system::error_code error;
  descriptor_.assign(queue_->get(), error);
  if (error) TurnOff("the event loop refused the inotify descriptor: " + error.message());
}

InotifyHint::~InotifyHint() {
  Stop();
}

InotifyHint::Arming InotifyHint::BeginArming() {
  Arming arming = armed_;
  arming.files_ = &files_;
  arming.queue_ = queue_;
  arming.is_stale_ = std::exchange(is_stale_, false);
  arming.is_whole_ = false;
  is_arming_ = true;
  return arming;
}

void InotifyHint::EndArming(Arming arming) {
  is_arming_ = false;
  if (!arming.is_whole_) is_stale_ = true;
  if (!on()) return;
  if (!arming.why_off_.empty()) return TurnOff(std::move(arming.why_off_));
  armed_ = std::move(arming);
  was_armed_ = true;
  Listen();
}

void InotifyHint::Stop() {
  // The descriptor stays open while an Arming needs it: its number must not be reused for another file.
  if (on()) descriptor_.release();
  queue_.reset();
  armed_.queue_.reset();
}

void InotifyHint::Listen() {
  if (!on() || is_listening_) return;
  is_listening_ = true;
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [weak = weak_from_this()](const boost::system::error_code& error) {
                           const auto self = weak.lock();
                           if (!self || error == boost::asio::error::operation_aborted) return;
                           if (error) self->TurnOff("waiting for events failed: " + error.message());
                           self->OnReadable();
                         });
}

void InotifyHint::OnReadable() {
  is_listening_ = false;
  if (on()) DrainEvents();
  on_hint_();
}

void InotifyHint::DrainEvents() {
  alignas(inotify_event) std::array<char, kEventBytes> buffer;
  for (int i = 0; i < kReadsPerWakeup && on(); ++i) {
    const ssize_t got = ::read(descriptor_.native_handle(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN) TurnOff("reading events failed: " + std::generic_category().message(errno));
    if (got <= 0) return;
    ForEachInotifyRecord(buffer.data(), static_cast<size_t>(got), [this](const inotify_event& event) {
      // Removed watches send IN_IGNORED as well, but are no longer in `watches_`. During an arming the new watches are
      // not known yet.
      if ((event.mask & kStaleMask) && (event.wd < 0 || is_arming_ || armed_.watches_.count(event.wd)))
        is_stale_ = true;
      if (event.mask & IN_IGNORED) armed_.watches_.erase(event.wd);
    });
  }
}

// Adds new watches before it removes old ones, so that the chain is always watched.
void InotifyHint::Arming::WatchChain(const PathChain& chain) {
  is_whole_ = !is_stale_ && chain == chain_;
  if (is_whole_) return;
  std::map<int, std::string> wanted;
  const auto add = [&](const PathNode& node, uint32_t mask) {
    const int watch = AddWatch(node, mask);
    if (watch >= 0) wanted[watch] = node.path;
  };
  // The target first: if it is a directory by mistake and also part of the chain, the wider mask wins.
  if (!chain.target.path.empty()) add(chain.target, kFileMask);
  for (const PathNode& node : chain.directories) add(node, kDirectoryMask);
  if (!why_off_.empty()) return;
  for (const auto& [watch, path] : watches_) {
    if (!wanted.count(watch)) ::inotify_rm_watch(queue_->get(), watch);
  }
  watches_ = std::move(wanted);
  chain_ = chain;
  is_whole_ = true;
}

int InotifyHint::Arming::AddWatch(const PathNode& node, uint32_t mask) {
  if (!why_off_.empty()) return -1;
  const int watch = files_->AddWatch(queue_->get(), node.path.c_str(), mask);
  if (watch >= 0) return watch;
  if (errno == ENOSPC) {
    why_off_ = "no inotify watch is left (fs.inotify.max_user_watches)";
  } else if (errno == ENOMEM) {
    why_off_ = "the kernel has no memory for an inotify watch";
  }
  return -1;  // gone again, or not readable: the other watches and the slow look go on
}

void InotifyHint::TurnOff(std::string reason) {
  why_off_ = std::move(reason);
  Stop();
}

}  // namespace stepwatch::watch
