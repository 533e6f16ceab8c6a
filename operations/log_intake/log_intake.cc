#include "operations/log_intake/log_intake.h"

#include <utility>

namespace stepwatch::operations {

LogIntake::LogIntake(boost::asio::io_context& loop, LogIntakeOptions options, LogRecords::Callbacks callbacks)
    : loop_(loop), options_(std::move(options)), records_(std::move(callbacks)) {}

LogIntake::~LogIntake() = default;

void LogIntake::Apply(const LogSettings& settings) {
  const LogSettings before = std::exchange(settings_, settings);
  if (!has_begun_ || settings.outputs != before.outputs) StartOutputs();
  has_begun_ = true;
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
  records_.Tick(now, running);
}

void LogIntake::Stop() {
  records_.SetOutputs(nullptr);
}

std::vector<LogFile> LogIntake::FilesOf(const std::string& /*run*/) const {
  return {};
}

std::vector<http::MetricFamily> LogIntake::Families() const {
  return records_.Families();
}

}  // namespace stepwatch::operations
