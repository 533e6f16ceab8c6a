// The sources of logs that others fill: requests, syslog, the journal, the kernel's log, and NCCL's RAS.
//
// On the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations/log_intake/http_logs.h"
#include "operations/log_intake/journal_reader.h"
#include "operations/log_intake/kernel_log_reader.h"
#include "operations/log_intake/log_settings.h"
#include "operations/log_intake/nccl_ras.h"
#include "operations/log_intake/sent_line_reader.h"
#include "operations/log_intake/syslog_server.h"
#include "src/http/metric_family.h"

namespace stepwatch::operations {

struct SentLogsOptions {
  std::string state_directory;
  std::shared_ptr<LazyRecogniser> recogniser;
  std::function<double()> wall;  // seconds; any thread
  std::function<void(const std::string& text)> log;
  std::function<void(std::vector<RunRecord> records, std::function<void()> then)> take;
  std::function<ProcessesOfRuns()> processes;
  // False: another part of stepwatchd reports what the driver of the GPUs writes to the kernel's log.
  std::function<bool()> reports_xids = [] { return true; };
  // The answer of NCCL's RAS about a run.
  std::function<void(const std::string& run, const std::string& text)> report_ras = {};
};

class SentLogs final : public LogPosts {
 public:
  SentLogs(boost::asio::io_context& loop, SentLogsOptions options) : loop_(loop), options_(std::move(options)) {}

  // Begins, or continues with other settings: only what changed restarts.
  void Apply(const SentLogSettings& settings);
  // About once a second; `running`: seconds of a clock that is never set.
  void Tick(double running);
  void Stop();

  bool Take(Post post, http::OnAnswer then) override;
  // A run that may be on this machine is stuck.
  void OnStuck(const std::string& run);
  std::vector<http::MetricFamily> Families() const;

 private:
  void StartReader();

  boost::asio::io_context& loop_;
  const SentLogsOptions options_;
  std::optional<SentLogSettings> settings_;  // nullopt: stopped, or not begun
  std::unique_ptr<SentLineReader> reader_;   // outlives those below
  std::unique_ptr<HttpLogs> http_;
  std::unique_ptr<SyslogServer> syslog_;
  std::unique_ptr<JournalReader> journal_;
  std::unique_ptr<KernelLogReader> kernel_;
  std::unique_ptr<NcclRas> ras_;
};

}  // namespace stepwatch::operations
