#include "operations/logs/outputs/outputs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "operations/logs/outputs/file_output.h"
#include "operations/logs/outputs/http_output.h"
#include "src/base/file.h"

namespace stepwatch::operations::outputs {

Outputs::Outputs(boost::asio::io_context& loop, OutputsOptions options) {
  for (const OutputSettings& settings : options.settings) {
    const auto log = [log = options.log, name = settings.name](const std::string& why) {
      log("output \"" + name + "\": " + why);
    };
    if (settings.type == OutputType::kFile) {
      FileOutputOptions of_file;
      of_file.settings = settings;
      of_file.log = log;
      outputs_.push_back({settings.name, Form::kEcs, std::make_unique<FileOutput>(loop, std::move(of_file))});
      continue;
    }
    if (transport_ == nullptr) transport_ = options.make_transport();
    HttpOutputOptions over_http;
    over_http.settings = settings;
    over_http.directory = base::JoinPath(options.state_directory, "log_output_" + settings.name);
    over_http.transport = transport_.get();
    over_http.dice = [this] { return std::uniform_real_distribution<double>(0, 1)(dice_); };
    over_http.log = log;
    const Form form = settings.type == OutputType::kOtlp ? Form::kOtel : Form::kEcs;
    outputs_.push_back({settings.name, form, std::make_unique<HttpOutput>(loop, std::move(over_http))});
  }
}

void Outputs::Add(std::string_view id, const std::function<std::string(Form form)>& make_json) {
  ++added_;
  std::optional<std::string> texts[2];
  for (const Named& each : outputs_) {
    std::optional<std::string>& text = texts[static_cast<size_t>(each.form)];
    if (!text) text = make_json(each.form);
    each.output->Add(id, *text);
  }
}

void Outputs::Tick(double running) {
  for (const Named& each : outputs_) each.output->Tick(running);
}

int64_t Outputs::safe() const {
  int64_t safe = added_;
  for (const Named& each : outputs_) safe = std::min(safe, each.output->safe());
  return safe;
}

std::vector<http::MetricFamily> Outputs::Families() const {
  if (outputs_.empty()) return {};
  http::MetricFamily records{
      "stepwatchd_log_output_records", "counter", "Records of logs, by the result of an output.", {}};
  http::MetricFamily failures{"stepwatchd_log_output_failures", "counter", "Requests or writes to be repeated.", {}};
  http::MetricFamily waiting{"stepwatchd_log_output_waiting_bytes", "gauge", "Records that wait for an output.", {}};
  http::MetricFamily dropped{
      "stepwatchd_log_output_dropped_bytes", "counter", "Records for which there was no room.", {}};
  for (const Named& each : outputs_) {
    const OutputCounts counts = each.output->counts();
    const auto add = [&](std::string result, int64_t count) {
      records.Add(static_cast<double>(count), {{"output", each.name}, {"result", std::move(result)}});
    };
    add("accepted", counts.accepted);
    add("duplicate", counts.duplicates);
    add("rejected", counts.rejected);
    failures.Add(static_cast<double>(counts.failures), {{"output", each.name}});
    waiting.Add(static_cast<double>(counts.waiting_bytes), {{"output", each.name}});
    dropped.Add(static_cast<double>(counts.dropped_bytes), {{"output", each.name}});
  }
  return {std::move(records), std::move(failures), std::move(waiting), std::move(dropped)};
}

}  // namespace stepwatch::operations::outputs
