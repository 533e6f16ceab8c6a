// The logs of runs: their sources, the records, and the outputs.
//
// On the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operations/delivery/transport.h"
#include "operations/log_intake/lazy_recogniser.h"
#include "operations/log_intake/log_files.h"
#include "operations/log_intake/log_records.h"
#include "operations/log_intake/log_settings.h"
#include "operations/log_intake/sent_logs.h"
#include "operations/logs/log_file.h"
#include "src/http/metric_family.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

struct LogIntakeOptions {
  std::string state_directory;
  std::function<std::unique_ptr<delivery::Transport>()> make_transport = delivery::MakeCurlTransport;
  std::function<double()> wall;
  std::function<void(const std::string& text)> log;
  // See SentLogsOptions.
  std::function<ProcessesOfRuns()> processes = {};
  std::function<bool()> reports_xids = [] { return true; };
  std::function<void(const std::string& run, const std::string& text)> report_ras = {};
};

class LogIntake {
 public:
  LogIntake(boost::asio::io_context& loop, LogIntakeOptions options, LogRecords::Callbacks callbacks);
  ~LogIntake();
  LogIntake(const LogIntake&) = delete;
  LogIntake& operator=(const LogIntake&) = delete;

  // Begins, or continues with other settings: only sources and outputs whose settings changed restart.
  void Apply(const LogSettings& settings);
  // About once a second; `now` by the wall clock, `running` by a clock that is never set.
  void Tick(double now, double running);
  // Ends the sources, then the outputs.
  void Stop();

  LogRecords& records() { return records_; }
  SentLogs& sent() { return sent_; }
  const LogEvents& events() const { return records_.events(); }
  // The files that are followed for the run.
  std::vector<LogFile> FilesOf(const std::string& run) const { return files_.FilesOf(run); }
  const std::shared_ptr<LazyRecogniser>& recogniser() const { return recogniser_; }
  std::vector<http::MetricFamily> Families() const;

 private:
  void StartOutputs();
  SentLogsOptions OptionsOfSent();

  boost::asio::io_context& loop_;
  const LogIntakeOptions options_;
  LogSettings settings_;
  bool has_begun_ = false;
  const std::shared_ptr<LazyRecogniser> recogniser_ = std::make_shared<LazyRecogniser>();
  LogRecords records_;
  SentLogs sent_;
  LogFiles files_;
};

}  // namespace stepwatch::operations
