// The metrics of stepwatchd, runs, jobs and the machine on their ways out: the page, the targets of scrapes, and OTLP.
//
// On the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operations/daemon/clock_watch.h"
#include "operations/daemon/daemon_settings.h"
#include "operations/daemon/otlp_sender.h"
#include "operations/incidents/observer.h"
#include "operations/intake/service.h"
#include "operations/metrics/drop_directory.h"
#include "operations/metrics/scrape_targets.h"
#include "src/http/metric_family.h"
#include "src/http/metrics_format.h"

namespace stepwatch::operations {

class IncidentRegistry;
class LocalJobs;
class Log;
class MachineWatch;

class MetricsOutput {
 public:
  struct Parts {
    std::function<DaemonCounts()> counts;
    std::function<std::vector<http::MetricFamily>()> log_outputs;
    const Observer* observer;
    const IncidentRegistry* incidents;
    const MachineWatch* machine;
    LocalJobs* jobs;
    Log* log;
  };

  // The parts must outlive it. `tcp_address`: of the intake; empty: none.
  MetricsOutput(boost::asio::io_context& loop, std::function<ClockLook()> look_at_clocks,
                std::function<std::string()> tcp_address, Parts parts);

  // Begins, or continues with other settings.
  void Apply(const MetricsSettings& metrics, const OtlpSettings& otlp, const ListenSettings& listen);
  // About once a second; `tick` counts the calls.
  void Tick(int64_t tick);

  // The page of /metrics.
  void Page(http::MetricsFormat format, std::function<void(std::string page)> then) const;
  void Targets(bool with_own, bool with_jobs, std::function<void(std::string json)> then) const;

 private:
  void ApplyMetrics();
  void ApplyOtlp();
  // All but those of jobs and of pages in files.
  std::vector<http::MetricFamily> Families() const;

  boost::asio::io_context& loop_;
  const std::function<ClockLook()> look_at_clocks_;
  const std::function<std::string()> tcp_address_;
  const Parts parts_;
  const double started_;  // of the clock that is never set
  std::string listens_as_;
  MetricsSettings metrics_settings_;
  OtlpSettings otlp_settings_;
  std::optional<DropDirectory> drop_;        // nullopt: it is disabled
  std::optional<TargetsFile> targets_file_;  // likewise
  std::optional<OtlpSender> otlp_;           // likewise
};

}  // namespace stepwatch::operations
