#include "controller/watch/watcher.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "controller/watch/debouncer.h"
#include "controller/watch/inotify_hint.h"
#include "controller/watch/path_chain.h"

namespace stepwatch::watch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Any number of events within this time cost one look.
constexpr milliseconds kLooksApart{10};
constexpr milliseconds kImpatientTime{100};
constexpr milliseconds kImpatientRetry{2};
constexpr milliseconds kPauseAfterFault{100};
constexpr milliseconds kPauseAfterFaultMax{30000};

SettleTimes TimesOf(const WatcherOptions& options) {
  SettleTimes times;
  times.quiet = options.quiet_time;
  times.half_written = options.half_written_time;
  return times;
}

}  // namespace

class Watcher::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(boost::asio::io_context& loop, WatcherOptions options, Callbacks callbacks, base::FileSystem& files)
      : loop_(loop),
        options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        files_(files),
        debouncer_(TimesOf(options_), callbacks_.looks_whole),
        slow_timer_(loop),
        soon_timer_(loop) {}

  void Start();
  void Stop();
  void LookNow();
  void SetKnown(const std::string& sha256) { debouncer_.SetKnown(sha256); }
  std::string mode() const;
  uint64_t looks() const { return looks_; }
  uint64_t faults() const { return faults_; }

 private:
  void ScheduleSlowLook();
  void LookSoon(Clock::time_point at);
  void OnHint();
  void OrdinaryLook();
  FileSnapshot Look();
  void Act(const Debouncer::SettleDecision& verdict, const FileSnapshot& snapshot);
  template <class Action>
  void Guarded(Action action);
  void OnFault(const char* what) noexcept;

  boost::asio::io_context& loop_;
  const WatcherOptions options_;
  const Callbacks callbacks_;
  base::FileSystem& files_;
  Debouncer debouncer_;
  boost::asio::steady_timer slow_timer_;      // every look_interval, whatever happens
  boost::asio::steady_timer soon_timer_;      // settling, retries and hints
  std::optional<Clock::time_point> soon_at_;  // what soon_timer_ waits for
  std::shared_ptr<InotifyHint> hint_;         // null: not asked for
  Clock::time_point last_look_;
  bool is_running_ = false;
  uint64_t looks_ = 0;
  uint64_t faults_ = 0;
  milliseconds pause_after_fault_{0};  // 0: the last change was taken over
};

void Watcher::Impl::Start() {
  if (is_running_) return;
  is_running_ = true;
  if (options_.use_inotify) {
    hint_ = std::make_shared<InotifyHint>(
        loop_,
        [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->OnHint();
        },
        files_);
  }
  ScheduleSlowLook();
  OrdinaryLook();
}

void Watcher::Impl::Stop() {
  is_running_ = false;
  soon_at_.reset();
  slow_timer_.cancel();
  soon_timer_.cancel();
  if (hint_) hint_->Stop();
}

void Watcher::Impl::LookNow() {
  const Clock::time_point give_up = Clock::now() + kImpatientTime;
  Guarded([&] {
    FileSnapshot snapshot = Look();
    while (snapshot.kind == SnapshotKind::kUnstable && Clock::now() < give_up) {
      std::this_thread::sleep_for(kImpatientRetry);
      snapshot = Look();
    }
    Act(debouncer_.OnImpatientLook(snapshot, Clock::now()), snapshot);
  });
}

std::string Watcher::Impl::mode() const {
  if (!options_.use_inotify) return "poll (events are switched off)";
  if (!hint_) return "poll (not started)";
  if (!hint_->on()) return "poll (" + (hint_->why_off().empty() ? "stopped" : hint_->why_off()) + ")";
  return hint_->is_blind() ? "poll (no permission to watch the directory)" : "inotify";
}

void Watcher::Impl::ScheduleSlowLook() {
  slow_timer_.expires_after(options_.look_interval);
  slow_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || !self->is_running_) return;
    self->ScheduleSlowLook();
    self->OrdinaryLook();
  });
}

void Watcher::Impl::LookSoon(Clock::time_point at) {
  if (!is_running_ || (soon_at_ && *soon_at_ <= at)) return;
  soon_at_ = at;
  soon_timer_.expires_at(at);
  soon_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || !self->is_running_) return;
    self->soon_at_.reset();
    self->OrdinaryLook();
  });
}

void Watcher::Impl::OnHint() {
  if (is_running_) LookSoon(std::max(Clock::now(), last_look_ + kLooksApart));
}

void Watcher::Impl::OrdinaryLook() {
  Guarded([&] {
    const FileSnapshot snapshot = Look();
    Act(debouncer_.OnLook(snapshot, Clock::now()), snapshot);
  });
}

// Watches are set before the file is read: an edit after the look then gives a hint, an edit before it is in the look.
FileSnapshot Watcher::Impl::Look() {
  if (hint_) hint_->Arm(ResolveChain(options_.path, files_));
  ++looks_;
  last_look_ = Clock::now();
  return TakeSnapshot(options_.path, files_);
}

void Watcher::Impl::Act(const Debouncer::SettleDecision& verdict, const FileSnapshot& snapshot) {
  // What is pending now replaces what was: a look has just been.
  soon_at_.reset();
  soon_timer_.cancel();
  if (verdict.look_at) LookSoon(*verdict.look_at);
  if (!verdict.pass_on) return;
  if (callbacks_.on_change) callbacks_.on_change(snapshot);
  if (std::exchange(pause_after_fault_, milliseconds(0)) > milliseconds(0) && callbacks_.on_recovery)
    callbacks_.on_recovery();
}

// An exception ends neither the loop nor the watching, and no edit is lost with it: what this look passed on counts as
// new again.
template <class Action>
void Watcher::Impl::Guarded(Action action) {
  const auto alive = shared_from_this();
  try {
    action();
  } catch (const std::exception& error) {
    OnFault(error.what());
  } catch (...) {
    OnFault("unknown exception");
  }
}

void Watcher::Impl::OnFault(const char* what) noexcept {
  ++faults_;
  debouncer_.Reopen();
  pause_after_fault_ = std::clamp(pause_after_fault_ * 2, kPauseAfterFault, kPauseAfterFaultMax);
  try {
    LookSoon(Clock::now() + pause_after_fault_);
    if (callbacks_.on_fault) callbacks_.on_fault(what);
  } catch (...) {  // no memory to tell of it; the next slow look comes in any case
  }
}

Watcher::Watcher(boost::asio::io_context& loop, WatcherOptions options, Callbacks callbacks, base::FileSystem& files)
    : impl_(std::make_shared<Impl>(loop, std::move(options), std::move(callbacks), files)) {}
Watcher::~Watcher() {
  impl_->Stop();
}

void Watcher::Start() {
  impl_->Start();
}
void Watcher::Stop() {
  impl_->Stop();
}
void Watcher::LookNow() {
  impl_->LookNow();
}
void Watcher::SetKnown(const std::string& sha256) {
  impl_->SetKnown(sha256);
}
std::string Watcher::mode() const {
  return impl_->mode();
}
uint64_t Watcher::looks() const {
  return impl_->looks();
}
uint64_t Watcher::faults() const {
  return impl_->faults();
}

}  // namespace stepwatch::watch
