// A monitor as seen by its control socket. The loop publishes its state here, so that readers need not wait for it.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "controller/api/event_tally.h"
#include "controller/api/rank_states.h"
#include "controller/control_socket/beat_log.h"
#include "controller/control_socket/event_ring.h"
#include "controller/control_socket/job.h"
#include "controller/reload/reload_view.h"
#include "src/base/mutex.h"
#include "stepwatch/monitor.h"

namespace stepwatch::api {

// Estimates the length of a step from occasional readings of its number. Pure.
class StepTime {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Look(int64_t step, Time now);
  // Mean over the last readings that showed a new step; nullopt if no step has ended for several times that length.
  std::optional<double> Seconds(Time now) const;

 private:
  struct Sample {
    int64_t step = 0;
    Time at;
  };
  static constexpr size_t kSamplesMax = 10;

  std::deque<Sample> samples_;
};

class MonitorJob final : public control_socket::Job {
 public:
  // `impl` must outlive the control socket. Relative paths are resolved against the current directory of the process.
  explicit MonitorJob(Monitor::Impl* impl);

  // --- loop thread, or before it runs ---
  void Publish(const reload::ReloadView& view) noexcept;
  void Note(const Event& event) noexcept;

  // --- any thread ---
  status::JobStatus GetStatus() override;
  control_socket::BeatPage BeatsAfter(uint64_t number, size_t count) override { return beats_.After(number, count); }
  control_socket::PulseGrant Pulse() override;
  control_socket::BeatLog& beats() { return beats_; }
  control_socket::EventPage EventsAfter(uint64_t id, size_t count) override { return events_.After(id, count); }
  void Tick() override;
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout) override;
  control_socket::DoctorReport Examine() override;
  void ChangeConfig(status::ConfigChange change, std::function<void(const status::ChangeReport&)> then) override;
  void ReadHistory(std::function<void(const control_socket::HistoryReport&)> then) override;
  void ReadConfig(const std::string& sha256, std::function<void(const Result<std::string>&)> then) override;
  Result<control_socket::PlanPreview> Preview(const std::string& text_untrusted) override;
  status::PauseResult Pause(bool pause, std::chrono::milliseconds time) override;
  status::RotateResult Rotate(std::chrono::milliseconds time) override;
  bool Leads() const override;
  void AskRanks(const std::string& question, std::chrono::milliseconds time,
                std::function<void(Result<control_socket::RankWords>)> then) override;
  void Forward(const std::string& request, std::chrono::milliseconds time, bool is_urgent,
               std::function<void(Result<std::string>)> then) override;
  size_t metrics_sites_max() const override;

 private:
  // --- loop thread ---
  void Order(const status::ConfigChange& change, const status::ChangeReport& report,
             const std::function<void(const status::ChangeReport&)>& then);
  void RollBack(const status::ConfigChange& change, const status::ChangeReport& report,
                const std::function<void(const status::ChangeReport&)>& then);
  // Runs work on the directory of the run, in sequence with other writes there.
  void OnOutput(std::function<void(const std::string& directory)> work, std::function<void(const Status& fault)> then);
  void NoteStates(const control_socket::RankWords& words);
  std::string Absolute(const std::string& path) const;

  Monitor::Impl& impl_;
  std::string directory_;
  control_socket::EventRing events_;
  control_socket::BeatLog beats_;
  base::Mutex mutex_;
  reload::ReloadView view_ STEPWATCH_GUARDED_BY(mutex_);
  EventTally tally_ STEPWATCH_GUARDED_BY(mutex_);
  StepTime step_time_ STEPWATCH_GUARDED_BY(mutex_);
  RankStates rank_states_ STEPWATCH_GUARDED_BY(mutex_);
};

}  // namespace stepwatch::api
