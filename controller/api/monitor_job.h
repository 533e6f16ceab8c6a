// A monitor as its door sees it. The loop publishes what it knows here, so that nobody has to ask it.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "controller/door/event_ring.h"
#include "controller/door/job.h"
#include "controller/reload/reload_view.h"
#include "src/base/mutex.h"
#include "stepwatch/monitor.h"

namespace stepwatch::api {

// How long a step takes, by looks at its number now and then. Pure.
class StepTime {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Look(int64_t step, Time now);
  // On average over the last looks at which it had changed; nothing when none has ended for several times as long.
  std::optional<double> Seconds(Time now) const;

 private:
  struct Sample {
    int64_t step = 0;
    Time at;
  };
  static constexpr size_t kSamplesMax = 10;

  std::deque<Sample> samples_;
};

class MonitorJob final : public door::Job {
 public:
  // `impl` outlives the door. Relative paths are told as those of the directory that the process is in at this moment.
  explicit MonitorJob(Monitor::Impl* impl);

  // --- loop thread, or before it runs ---
  void Publish(const reload::ReloadView& view) noexcept;
  void Note(const Event& event) noexcept;

  // --- any thread ---
  door::JobStatus GetStatus() override;
  door::EventPage EventsAfter(uint64_t id, size_t count) override { return events_.After(id, count); }
  void Tick() override;
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout) override;
  door::DoctorReport Examine() override;

 private:
  void Count(const Event& event) STEPWATCH_REQUIRES(mutex_);

  std::string Absolute(const std::string& path) const;

  Monitor::Impl& impl_;
  std::string directory_;
  door::EventRing events_;
  base::Mutex mutex_;
  reload::ReloadView view_ STEPWATCH_GUARDED_BY(mutex_);
  // What the events have told.
  door::JobStatus told_ STEPWATCH_GUARDED_BY(mutex_);
  PlanId applied_plan_ STEPWATCH_GUARDED_BY(mutex_) = 0;
  int64_t applied_at_ STEPWATCH_GUARDED_BY(mutex_) = -1;
  StepTime step_time_ STEPWATCH_GUARDED_BY(mutex_);
};

}  // namespace stepwatch::api
