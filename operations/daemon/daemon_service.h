// Answers the requests of the intake from the parts of stepwatchd.
//
// On the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/daemon/clock_watch.h"
#include "operations/daemon/incident_ledger.h"
#include "operations/daemon/line_keeper.h"
#include "operations/daemon/line_processor.h"
#include "operations/daemon/local_jobs.h"
#include "operations/daemon/loss_log.h"
#include "operations/daemon/metrics_output.h"
#include "operations/daemon/state_writer.h"
#include "operations/daemon/tick_timer.h"
#include "operations/daemon/turn_queue.h"
#include "operations/delivery/courier.h"
#include "operations/intake/service.h"
#include "operations/log_intake/log_intake.h"

namespace stepwatch::operations {

class DaemonService final : public Service {
 public:
  struct Parts {
    const Log* log;
    LossLog* losses;
    TurnQueue* turns;
    StoreQueue* store;
    const LineKeeper* keeper;
    IncidentLedger* ledger;
    LineProcessor* lines;
    const StateWriter* state;
    const LocalJobs* jobs;
    const MetricsOutput* metrics;
    const TickTimer* tick;
    delivery::Courier* courier;
    LogIntake* logs;
  };

  // The parts must outlive it; they are used with the first request.
  DaemonService(std::function<ClockLook()> look_at_clocks, const Parts& parts)
      : look_at_clocks_(std::move(look_at_clocks)), parts_(parts), started_(look_at_clocks_().running) {}

  // Why stepwatchd is not ready from now on; empty: it is.
  void SetTrouble(std::string why) { trouble_ = std::move(why); }

  void Later(std::function<void()> work) override { parts_.turns->Add(std::move(work)); }
  double t() const override { return look_at_clocks_().wall; }
  void Take(std::vector<Line> lines, std::function<void()> then) override {
    parts_.lines->Take(std::move(lines), std::move(then));
  }
  bool IsBehind() const override;
  void CountRefused(int64_t lines) override { lines_refused_ += lines; }
  void CountLeftOut() override;
  std::vector<RunSnapshot> Runs() const override { return parts_.lines->observer().Runs(); }
  std::optional<RunSnapshot> Run(std::string_view id) const override { return parts_.lines->observer().Run(id); }
  std::vector<std::string> RunsOfStore() const override { return parts_.state->Summaries(); }
  std::optional<std::string> RunOfStore(std::string_view id) const override { return parts_.state->Summary(id); }
  void SeriesNames(const std::string& run, std::function<void(std::vector<std::string>)> then) override;
  void SeriesOf(const std::string& run, const std::string& name,
                std::function<void(std::vector<SeriesPoint>)> then) override;
  const LogEvents* log_events() const override { return &parts_.logs->events(); }
  std::vector<LogFile> LogFilesOf(const std::string& run) const override { return parts_.logs->FilesOf(run); }
  IncidentRegistry& incidents() override { return parts_.ledger->registry(); }
  void ChangesOf(const std::string& incident, std::function<void(std::vector<StoredChange>)> then) override;
  bool Acknowledge(const std::string& incident, const Acknowledgement& acknowledgement,
                   std::function<void()> then) override {
    return parts_.ledger->Acknowledge(incident, acknowledgement, std::move(then));
  }
  bool AddSilence(const Silence& silence, std::function<void()> then) override {
    return parts_.ledger->AddSilence(silence, std::move(then));
  }
  bool RemoveSilence(const std::string& id, std::function<void()> then) override {
    return parts_.ledger->RemoveSilence(id, std::move(then));
  }
  Deliveries* deliveries() override { return parts_.courier; }
  LogPosts* log_posts() override { return &parts_.logs->sent(); }
  DaemonCounts Counts() const;
  void Metrics(http::MetricsFormat format, std::function<void(std::string page)> then) override {
    parts_.metrics->Page(format, std::move(then));
  }
  void Targets(bool with_own, bool with_jobs, std::function<void(std::string json)> then) override {
    parts_.metrics->Targets(with_own, with_jobs, std::move(then));
  }
  Status Ready() const override;

 private:
  static constexpr double kBehindSeconds = 5;
  static constexpr size_t kLinesWaitingMax = 200000;

  const std::function<ClockLook()> look_at_clocks_;
  const Parts parts_;
  const double started_;  // of the clock that is never set
  std::string trouble_;
  int64_t lines_refused_ = 0;
  int64_t requests_left_out_ = 0;
};

}  // namespace stepwatch::operations
