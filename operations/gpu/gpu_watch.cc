#include "operations/gpu/gpu_watch.h"

#include <algorithm>
#include <utility>

#include "operations/gpu/fabric_manager.h"
#include "src/base/mutex.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr int64_t kTicksOfSearch = 12;  // between attempts to find a library
constexpr int64_t kTicksOfFabric = 6;
constexpr unsigned kEventMilliseconds = 500;
constexpr std::chrono::seconds kEventsPause{5};
constexpr double kLateSeconds = 2;  // a call that takes longer hangs
constexpr double kStuckSeconds = 30;
constexpr size_t kUndecidedMax = 1000;

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

struct GpuWatch::Passed {
  base::Mutex mutex;
  std::shared_ptr<const GpuSession> session STEPWATCH_GUARDED_BY(mutex);

  void Set(std::shared_ptr<const GpuSession> next) {
    {
      const base::MutexLock lock(&mutex);
      session.swap(next);
    }
    // The one before ends here, on the caller's thread.
  }
  std::shared_ptr<const GpuSession> Get() {
    const base::MutexLock lock(&mutex);
    return session;
  }
};

GpuWatch::GpuWatch(boost::asio::io_context& loop, Options options)
    : options_(std::move(options)),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      passed_(std::make_shared<Passed>()),
      reader_(std::make_shared<GpuReader>(options_.library)),
      log_(std::make_shared<KernelLog>(*options_.files)),
      timer_(loop),
      events_timer_(loop) {}

// Sessions end on threads that call the driver: that call too may never return.
void GpuWatch::Stop() {
  if (!alive_) return;
  alive_.reset();
  mailbox_->Close();
  timer_.Cancel();
  events_timer_.Cancel();
  (void)::eventfd_write(stop_->get(), 1);
  (void)events_.Post([queue = queue_] { queue->reset(); });
  (void)samples_.Post([reader = std::exchange(reader_, nullptr), passed = passed_] { passed->Set(nullptr); });
}

void GpuWatch::Tick() {
  const bool has_library = sample_.has_library || ticks_ % kTicksOfSearch == 0;
  if (sampling_since_) {
    if (MonotonicSeconds() - *sampling_since_ > kStuckSeconds && !std::exchange(has_noted_hang_, true))
      Note("the driver of the GPUs does not answer; their values are missing until it does");
  } else if (has_library) {
    Sample();
  }
  if (sample_.has_library) {
    if (!awaits_events_) AwaitEvents();
    if (!reads_host_) ReadHost();
  }
  ++ticks_;
  timer_.After(options_.interval, [this] { Tick(); });
}

void GpuWatch::Sample() {
  const auto sample = std::make_shared<GpuSample>();
  const auto sampled = [this, alive = std::weak_ptr(alive_), sample] {
    if (!alive.expired()) OnSample(std::move(*sample));
  };
  const bool is_posted = samples_.Post([reader = reader_, passed = passed_, mailbox = mailbox_, sample, sampled] {
    *sample = reader->Read(MonotonicSeconds());
    passed->Set(reader->session());
    mailbox->Post(sampled);
  });
  if (is_posted) sampling_since_ = MonotonicSeconds();
}

void GpuWatch::OnSample(GpuSample sample) {
  sampling_since_.reset();
  if (std::exchange(has_noted_hang_, false)) Note("the driver of the GPUs answers again");
  if (!sample.trouble.empty()) {
    if (sample.has_library && sample.trouble != trouble_) Note("no values of GPUs: " + sample.trouble);
    trouble_ = sample.trouble;
    sample_.has_library = sample_.has_library || sample.has_library;
    return;
  }
  if (!std::exchange(trouble_, {}).empty() && sampled_at_) Note("there are values of GPUs again");
  const bool is_first = !sampled_at_;
  sampled_at_ = MonotonicSeconds();
  sample_ = std::move(sample);
  if (is_first) {
    Note(std::to_string(sample_.gpus.size()) + " GPUs are watched, driver " + sample_.driver);
    if (!awaits_events_) AwaitEvents();
    if (!reads_host_) ReadHost();
  }
  const double now = options_.wall();
  users_.Take(sample_, options_.processes(), now);
  for (Line& line : lines_.OnSample(sample_, users_, now)) options_.report(std::move(line));
}

void GpuWatch::AwaitEvents() {
  const auto events = std::make_shared<XidQueue::Events>();
  const auto arrived = [this, alive = std::weak_ptr(alive_), events] {
    if (alive.expired()) return;
    awaits_events_ = false;
    for (const auto& [uuid, code] : events->xids) OnXid(XidSource::kNvml, uuid, code, false);
    if (!events->has_failed) return AwaitEvents();
    awaits_events_ = true;
    events_timer_.After(kEventsPause, [this] { AwaitEvents(); });
  };
  awaits_events_ = events_.Post([passed = passed_, queue = queue_, mailbox = mailbox_, events, arrived] {
    std::shared_ptr<const GpuSession> session = passed->Get();
    if (*queue && (*queue)->session() != session.get()) queue->reset();
    if (!*queue && session) *queue = std::make_unique<XidQueue>(session);
    session.reset();
    if (*queue)
      *events = (*queue)->Wait(kEventMilliseconds);
    else
      events->has_failed = true;
    mailbox->Post(arrived);
  });
}

void GpuWatch::ReadHost() {
  struct Found {
    std::vector<KernelXid> xids;
    bool is_readable = false;
    std::optional<bool> is_active;
  };
  const auto found = std::make_shared<Found>();
  const bool asks = ticks_ % kTicksOfFabric == 0;
  const auto read = [this, alive = std::weak_ptr(alive_), found, asks] {
    if (alive.expired()) return;
    reads_host_ = false;
    if (asks) is_fabric_manager_active_ = found->is_active;
    OnKernelLog(found->xids, found->is_readable);
  };
  reads_host_ = host_.Post([log = log_, found, asks, read, mailbox = mailbox_, stop = stop_, files = options_.files] {
    found->xids = log->Read();
    if (asks) found->is_active = IsFabricManagerActive(stop->get(), *files);
    mailbox->Post(read);
  });
}

void GpuWatch::OnKernelLog(const std::vector<KernelXid>& xids, bool is_readable) {
  is_log_readable_ = is_readable;
  for (const KernelXid& xid : xids)
    for (const GpuReading& gpu : sample_.gpus)
      if (gpu.parent.empty() && gpu.pci == xid.pci) OnXid(XidSource::kKernel, gpu.uuid, xid.code, xid.is_harmless);
  for (Undecided& each : std::exchange(undecided_, {})) {
    if (--each.reads_left > 0)
      undecided_.push_back(std::move(each));
    else
      ReportXid(each.uuid, each.code);
  }
  if (!undecided_.empty() && !reads_host_) ReadHost();
}

void GpuWatch::OnXid(XidSource source, const std::string& uuid, int64_t code, bool is_harmless) {
  if (source == XidSource::kKernel && is_harmless)
    std::erase_if(undecided_, [&](const Undecided& each) { return each.uuid == uuid && each.code == code; });
  if (!xids_.Take(source, uuid, code, options_.wall())) return;
  Note("Xid " + std::to_string(code) + " of GPU " + uuid + (is_harmless ? ", nonfatal" : ""));
  if (is_harmless) return;
  const bool waits = source == XidSource::kNvml && IsEitherFatalOrNot(code) && is_log_readable_;
  if (!waits || undecided_.size() >= kUndecidedMax) return ReportXid(uuid, code);
  // A read that has begun may have missed the record.
  undecided_.push_back({uuid, code, reads_host_ ? 2 : 1});
  if (!reads_host_) ReadHost();
}

void GpuWatch::ReportXid(const std::string& uuid, int64_t code) {
  for (Line& line : lines_.OnXid(uuid, code, users_, options_.wall())) options_.report(std::move(line));
}

void GpuWatch::Note(const std::string& note) {
  if (options_.on_note) options_.on_note(note);
}

GpuStatus GpuWatch::Now() const {
  GpuStatus status;
  const double now = MonotonicSeconds();
  status.sample = sample_;
  if (sampled_at_) status.age_seconds = now - *sampled_at_;
  if (sampling_since_ && now - *sampling_since_ > kLateSeconds) status.stuck_seconds = now - *sampling_since_;
  status.users = users_;
  status.xids = xids_.Counts();
  status.is_fabric_manager_active = is_fabric_manager_active_;
  return status;
}

}  // namespace stepwatch::operations
