#include "operations/log_intake/log_intake.h"

#include <utility>

namespace stepwatch::operations {

LogIntake::LogIntake(boost::asio::io_context& loop, LogIntakeOptions options, LogRecords::Callbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      records_(std::move(callbacks)),
      sent_(loop, OptionsOfSent()),
      files_(loop, {options_.state_directory, options_.wall, options_.log}, recogniser_, &records_) {}

LogIntake::~LogIntake() = default;

SentLogsOptions LogIntake::OptionsOfSent() {
  SentLogsOptions sent;
  sent.state_directory = options_.state_directory;
  sent.recogniser = recogniser_;
  sent.wall = options_.wall;
  sent.log = options_.log;
  sent.take = [this](std::vector<RunRecord> records, std::function<void()> then) {
    records_.Take(std::move(records), std::move(then));
  };
  sent.processes = options_.processes;
  sent.reports_xids = options_.reports_xids;
  sent.report_ras = options_.report_ras;
  return sent;
}

void LogIntake::Apply(const LogSettings& settings) {
  const LogSettings before = std::exchange(settings_, settings);
  if (!has_begun_ || settings.outputs != before.outputs) StartOutputs();
  if (!has_begun_ || settings.files != before.files) files_.Apply(settings.files);
  has_begun_ = true;
  sent_.Apply(settings.sent);
}

void LogIntake::StartOutputs() {
  outputs::OutputsOptions options;
  options.settings = settings_.outputs;
  options.state_directory = options_.state_directory;
  options.make_transport = options_.make_transport;
  options.log = options_.log;
  // Those before may use the same files.
  records_.SetOutputs(nullptr);
  records_.SetOutputs(std::make_unique<outputs::Outputs>(loop_, std::move(options)));
}

void LogIntake::Tick(double now, double running) {
  sent_.Tick(running);
  records_.Tick(now, running);
  files_.Tick(running);
}

void LogIntake::Stop() {
  sent_.Stop();
  // The records that wait are written, so that the positions in their files can be stored.
  records_.SetOutputs(nullptr);
  files_.Stop();
}

std::vector<http::MetricFamily> LogIntake::Families() const {
  std::vector<http::MetricFamily> families = records_.Families();
  for (http::MetricFamily& family : sent_.Families()) families.push_back(std::move(family));
  for (http::MetricFamily& family : files_.Families()) families.push_back(std::move(family));
  return families;
}

}  // namespace stepwatch::operations
