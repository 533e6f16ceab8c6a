#include "controller/watch/watcher.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "controller/watch/debouncer.h"
#include "controller/watch/inotify_hint.h"
#include "controller/watch/loop_mailbox.h"
#include "controller/watch/path_chain.h"

namespace stepwatch::watch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Any number of events within this time causes one look.
constexpr milliseconds kLooksApart{10};
constexpr milliseconds kImpatientTime{100};
constexpr milliseconds kImpatientRetry{2};
constexpr std::chrono::seconds kUnstableTimeMax{5};
constexpr milliseconds kPauseAfterFault{100};
constexpr milliseconds kPauseAfterFaultMax{30000};

SettleTimes TimesOf(const WatcherOptions& options) {
  SettleTimes times;
  times.quiet = options.quiet_time;
  times.half_written = options.half_written_time;
  return times;
}

using Done = std::function<void()>;

// Bytes found by the latest look. Executor's thread only.
struct FoundBytes {
  std::string sha256;
  uint64_t version = 0;  // incremented when the bytes change
};

// One look: begun on the loop, run on the executor's thread, processed on the loop. It owns everything it touches,
// since a call of the file system may outlive the watcher.
struct Look {
  void Run(const std::string& path, base::FileSystem& files, FoundBytes* found) noexcept {
    try {
      if (arming) arming->WatchChain(ResolveChain(path, files));
      snapshot = TakeSnapshot(path, files);
      if (snapshot.kind == SnapshotKind::kBytes && snapshot.sha256 != found->sha256) {
        found->sha256 = snapshot.sha256;
        ++found->version;
      }
      version = found->version;
    } catch (...) {
      failure = std::current_exception();
    }
    taken_at = Clock::now();
    is_finished.store(true, std::memory_order_release);
  }

  std::vector<Done> impatient;  // callbacks that wait for this look; empty: an ordinary look. Loop thread only.
  std::optional<InotifyHint::Arming> arming;
  FileSnapshot snapshot;
  uint64_t version = 0;  // of the bytes
  Clock::time_point taken_at;
  std::exception_ptr failure;
  std::atomic<bool> is_finished{false};
};

}  // namespace

class Watcher::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(boost::asio::io_context& loop, base::IoExecutor& io, WatcherOptions options, Callbacks callbacks,
       base::FileSystem& files)
      : loop_(loop),
        io_(io),
        options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        files_(files),
        mailbox_(std::make_shared<LoopMailbox>(loop)),
        debouncer_(TimesOf(options_), callbacks_.looks_whole),
        slow_timer_(loop),
        soon_timer_(loop),
        retry_timer_(loop) {}
  ~Impl() { mailbox_->Close(); }

  void Start();
  void Stop();
  void LookNow(Done done);
  void SetKnown(const std::string& sha256) { debouncer_.SetKnown(sha256); }
  std::function<bool()> IsUnchanged() const;
  std::string mode() const;
  uint64_t looks() const { return looks_; }
  uint64_t faults() const { return faults_; }

 private:
  void ScheduleSlowLook();
  void LookSoon(Clock::time_point at, LookCause cause);
  void OnHint();
  void OrdinaryLook(LookCause cause);
  void ImpatientLook();
  void BeginLook(LookCause cause, std::vector<Done> impatient);
  bool HandOver(const std::shared_ptr<Look>& look) noexcept;
  void OnLooked(const std::shared_ptr<Look>& look);
  void TakeIn(Look* look);
  bool TryAgain(Look* look);
  void LimitUnrest(Look* look);
  void Act(const Debouncer::SettleDecision& decision, const FileSnapshot& snapshot);
  template <class Action>
  void CatchAndReport(Action action);
  void OnFault(const char* what) noexcept;

  boost::asio::io_context& loop_;
  base::IoExecutor& io_;
  const WatcherOptions options_;
  const Callbacks callbacks_;
  base::FileSystem& files_;
  const std::shared_ptr<LoopMailbox> mailbox_;
  const std::shared_ptr<FoundBytes> found_ = std::make_shared<FoundBytes>();  // used by the executor only
  uint64_t version_ = 0;                                                      // of the last processed look
  Debouncer debouncer_;
  boost::asio::steady_timer slow_timer_;      // every look_interval
  boost::asio::steady_timer soon_timer_;      // settling, retries and hints
  std::optional<Clock::time_point> soon_at_;  // time for which soon_timer_ is set
  boost::asio::steady_timer retry_timer_;     // an impatient look met a file that was being written
  std::shared_ptr<InotifyHint> hint_;         // null: inotify is not requested
  std::shared_ptr<Look> under_way_;           // null: no look is running
  // Keeps the loop running while a look is under way.
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::optional<LookCause> look_again_;  // an event or request came while a look was under way
  std::vector<Done> waiting_;            // callbacks for an impatient look that has not begun
  bool retry_timer_is_set_ = false;
  Clock::time_point patience_ends_;
  Clock::time_point last_look_;
  std::optional<Clock::time_point> unstable_since_;
  bool is_running_ = false;
  uint64_t looks_ = 0;
  uint64_t faults_ = 0;
  milliseconds pause_after_fault_{0};  // 0: the last change was applied
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
  if (!under_way_ || hint_)
    OrdinaryLook(LookCause::kRefresh);  // a look that began before there were watches may miss an edit
}

void Watcher::Impl::Stop() {
  is_running_ = false;
  soon_at_.reset();
  slow_timer_.cancel();
  soon_timer_.cancel();
  retry_timer_.cancel();
  retry_timer_is_set_ = false;
  if (under_way_) under_way_->impatient.clear();
  under_way_.reset();
  work_.reset();
  look_again_.reset();
  waiting_.clear();
  if (hint_) hint_->Stop();
}

void Watcher::Impl::LookNow(Done done) {
  CatchAndReport([&] {
    waiting_.emplace_back();
    waiting_.back() = std::move(done);
    patience_ends_ = Clock::now() + kImpatientTime;
  });
  if (done) CatchAndReport([&] { done(); });  // out of memory: `done` cannot be queued
  ImpatientLook();
}

std::function<bool()> Watcher::Impl::IsUnchanged() const {
  return [found = found_, version = version_] { return found->version == version; };
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
    self->OrdinaryLook(LookCause::kSlow);
  });
}

void Watcher::Impl::LookSoon(Clock::time_point at, LookCause cause) {
  if (!is_running_ || (soon_at_ && *soon_at_ <= at)) return;
  soon_at_ = at;
  soon_timer_.expires_at(at);
  soon_timer_.async_wait([weak = weak_from_this(), cause](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || !self->is_running_) return;
    self->soon_at_.reset();
    self->OrdinaryLook(cause);
  });
}

void Watcher::Impl::OnHint() {
  if (!is_running_) return;
  if (under_way_) {
    look_again_ = LookCause::kEvent;  // the running look may have read the file before this event
  } else {
    LookSoon(std::max(Clock::now(), last_look_ + kLooksApart), LookCause::kEvent);
  }
}

void Watcher::Impl::OrdinaryLook(LookCause cause) {
  // Processes a finished look whose message could not be posted for lack of memory.
  const std::shared_ptr<Look> look = under_way_;
  if (look && look->is_finished.load(std::memory_order_acquire)) OnLooked(look);
  BeginLook(cause, {});
}

void Watcher::Impl::ImpatientLook() {
  if (!under_way_ && !waiting_.empty()) BeginLook(LookCause::kRefresh, std::exchange(waiting_, {}));
}

// At most one look is under way, even if the file system hangs.
void Watcher::Impl::BeginLook(LookCause cause, std::vector<Done> impatient) {
  if (under_way_) {
    look_again_ = look_again_.value_or(cause);
    return;
  }
  ++looks_;
  if (callbacks_.on_look) callbacks_.on_look(cause);
  last_look_ = Clock::now();
  CatchAndReport([&] {
    auto look = std::make_shared<Look>();
    if (hint_ && hint_->on()) look->arming = hint_->BeginArming();
    if (!HandOver(look)) {
      if (look->arming) hint_->EndArming(std::move(*look->arming));
      throw std::runtime_error(
          "cannot look at the config: too many file operations are waiting for one that hangs, or no thread is left");
    }
    look->impatient.swap(impatient);
    work_.emplace(loop_.get_executor());
    under_way_ = std::move(look);
  });
  for (const Done& done : impatient) CatchAndReport([&] { done(); });  // the look could not start
}

bool Watcher::Impl::HandOver(const std::shared_ptr<Look>& look) noexcept try {
  return io_.Post(
      [look, path = options_.path, &files = files_, found = found_, mailbox = mailbox_, weak = weak_from_this()] {
        look->Run(path, files, found.get());
        mailbox->Post([look, weak] {
          if (const auto self = weak.lock()) self->OnLooked(look);
        });
      });
} catch (...) {
  return false;
}

void Watcher::Impl::OnLooked(const std::shared_ptr<Look>& look) {
  if (look != under_way_) return;  // stopped meanwhile, or processed already
  const auto alive = shared_from_this();
  under_way_.reset();
  work_.reset();
  CatchAndReport([&] { TakeIn(look.get()); });
  for (const Done& done : look->impatient) CatchAndReport([&] { done(); });
  if (!waiting_.empty() && !retry_timer_is_set_) return ImpatientLook();
  const std::optional<LookCause> again = std::exchange(look_again_, std::nullopt);
  if (again && is_running_) LookSoon(std::max(Clock::now(), last_look_ + kLooksApart), *again);
}

void Watcher::Impl::TakeIn(Look* look) {
  if (look->arming) hint_->EndArming(std::move(*look->arming));
  if (look->failure) std::rethrow_exception(look->failure);
  version_ = look->version;
  if (TryAgain(look)) return;
  LimitUnrest(look);
  Act(look->impatient.empty() ? debouncer_.OnLook(look->snapshot, look->taken_at)
                              : debouncer_.OnImpatientLook(look->snapshot, look->taken_at),
      look->snapshot);
}

// An edit that stays unreadable is reported as an error in the end; after that the slow looks continue.
void Watcher::Impl::LimitUnrest(Look* look) {
  if (look->snapshot.kind != SnapshotKind::kUnstable) return unstable_since_.reset();
  if (!unstable_since_) unstable_since_ = look->taken_at;
  if (look->taken_at - *unstable_since_ >= kUnstableTimeMax)
    look->snapshot = NeverStable(options_.path, kUnstableTimeMax);
}

// Repeats an impatient look at a file that is being written, until the patience ends.
bool Watcher::Impl::TryAgain(Look* look) {
  if (look->impatient.empty() || look->snapshot.kind != SnapshotKind::kUnstable || Clock::now() >= patience_ends_)
    return false;
  waiting_.insert(waiting_.begin(), std::make_move_iterator(look->impatient.begin()),
                  std::make_move_iterator(look->impatient.end()));
  look->impatient.clear();
  retry_timer_is_set_ = true;
  retry_timer_.expires_after(kImpatientRetry);
  retry_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!self) return;
    self->retry_timer_is_set_ = false;
    if (!error) self->ImpatientLook();
  });
  return true;
}

void Watcher::Impl::Act(const Debouncer::SettleDecision& decision, const FileSnapshot& snapshot) {
  // This look replaces any pending one.
  soon_at_.reset();
  soon_timer_.cancel();
  if (decision.look_at) LookSoon(*decision.look_at, LookCause::kAgain);
  if (!decision.pass_on) return;
  if (callbacks_.on_change) callbacks_.on_change(snapshot);
  if (std::exchange(pause_after_fault_, milliseconds(0)) > milliseconds(0) && callbacks_.on_recovery)
    callbacks_.on_recovery();
}

// An exception ends neither the loop nor the watching, and loses no edit: the bytes that this look passed on count as
// new again.
template <class Action>
void Watcher::Impl::CatchAndReport(Action action) {
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
    LookSoon(Clock::now() + pause_after_fault_, LookCause::kAgain);
    if (callbacks_.on_fault) callbacks_.on_fault(what);
  } catch (...) {  // no memory for the report; the next slow look comes in any case
  }
}

Watcher::Watcher(boost::asio::io_context& loop, base::IoExecutor& io, WatcherOptions options, Callbacks callbacks,
                 base::FileSystem& files)
    : impl_(std::make_shared<Impl>(loop, io, std::move(options), std::move(callbacks), files)) {}
Watcher::~Watcher() {
  impl_->Stop();
}

void Watcher::Start() {
  impl_->Start();
}
void Watcher::Stop() {
  impl_->Stop();
}
void Watcher::LookNow(std::function<void()> done) {
  impl_->LookNow(std::move(done));
}
void Watcher::SetKnown(const std::string& sha256) {
  impl_->SetKnown(sha256);
}
std::function<bool()> Watcher::IsUnchanged() const {
  return impl_->IsUnchanged();
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
