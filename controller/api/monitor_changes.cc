// Changes through the control socket, and the files beside the rows that it reads. Runs on the executors of the loop,
// which forwards requests without waiting.
#include <unistd.h>

#include <exception>
#include <utility>

#include "controller/api/monitor_impl.h"
#include "controller/api/monitor_job.h"
#include "src/output/applied_configs.h"
#include "src/output/run_directory.h"

namespace stepwatch::api {
namespace {

using status::ChangeReport;
using status::ConfigChange;
using OnReport = std::function<void(const ChangeReport&)>;

void ReportNotReady(ChangeReport report, const Status& why, const OnReport& then) {
  report.outcome = ChangeReport::Outcome::kNotReady;
  report.message = "the monitor cannot accept the change now: " + why.message() + "; try again";
  then(report);
}

// Calls `on_fault` if the work cannot be posted to the loop.
template <class Work, class OnFault>
void OrReport(const Work& work, const OnFault& on_fault) {
  try {
    work();
  } catch (const std::exception& error) {
    on_fault(Status(StatusCode::kUnavailable, error.what()));
  }
}

}  // namespace

void MonitorJob::ChangeConfig(ConfigChange change, OnReport then) {
  ChangeReport report;
  report.config_path = Absolute(impl_.options_.config_path);
  if (!impl_.dynamic_) {
    report.outcome = ChangeReport::Outcome::kStatic;
    return then(report);
  }
  impl_.loop_.Post([this, change = std::move(change), then = std::move(then), report = std::move(report)] {
    OrReport(
        [&] {
          change.verb == ConfigChange::Verb::kRollback ? RollBack(change, report, then) : Order(change, report, then);
        },
        [&](const Status& fault) { ReportNotReady(report, fault, then); });
  });
}

void MonitorJob::Order(const ConfigChange& change, const ChangeReport& begun, const OnReport& then) {
  const auto order = std::make_shared<reload::EditOrder>();
  order->change = change;
  order->on_written = [this, peer = change.peer](const std::string& sha256) {
    const base::MutexLock lock(&mutex_);
    tally_.Expect(sha256, peer);
  };
  impl_.reloader_.requests().Order(order, [this, then, begun](const ChangeReport& report) {
    impl_.PublishState();
    ChangeReport whole = report;
    whole.config_path = begun.config_path;
    whole.old_plan_id = begun.old_plan_id;
    then(whole);
  });
}

// Reads the histories of all runs of this config, including runs before a restart.
void MonitorJob::RollBack(const ConfigChange& change, const ChangeReport& report, const OnReport& then) {
  const auto found = std::make_shared<Result<output::OldConfig>>(Status(StatusCode::kNotFound, ""));
  impl_.reloader_.output_work().Do(
      [found, where = Absolute(output::OutputBase(impl_.options_.output_dir)), path = report.config_path,
       plan_id = change.plan_id] { *found = output::FindOldConfig(where, path, plan_id, ::geteuid()); },
      [this, found, change, report, then](const Status& fault) {
        if (!fault.ok()) return ReportNotReady(report, fault, then);
        ChangeReport next = report;
        if (!found->ok()) {
          next.outcome = ChangeReport::Outcome::kNoOldConfig;
          next.message = found->status().message();
          return then(next);
        }
        ConfigChange apply = change;
        apply.verb = ConfigChange::Verb::kApply;
        apply.text = found->value().text;
        next.old_plan_id = found->value().from.line.plan_id;
        OrReport([&] { Order(apply, next, then); }, [&](const Status& again) { ReportNotReady(report, again, then); });
      });
}

void MonitorJob::ReadHistory(std::function<void(const control_socket::HistoryReport&)> then) {
  const auto report = std::make_shared<control_socket::HistoryReport>();
  OnOutput(
      [report](const std::string& directory) {
        report->directory = directory;
        output::HistoryQuestion question = output::OwnHistory();
        question.lines_max = control_socket::HistoryReport::kLinesMax;
        const auto found = output::FindHistories(directory, question);
        report->status = found.status();
        if (found.ok() && !found.value().empty()) report->history = found.value().front().history;
      },
      [report, then = std::move(then)](const Status& fault) {
        if (!fault.ok()) report->status = fault;
        then(*report);
      });
}

void MonitorJob::ReadConfig(const std::string& sha256, std::function<void(const Result<std::string>&)> then) {
  const auto text = std::make_shared<Result<std::string>>(Status());
  OnOutput(
      [text, sha256](const std::string& directory) { *text = output::KeptConfig(directory, sha256, ::geteuid()); },
      [text, then = std::move(then)](const Status& fault) { then(fault.ok() ? *text : Result<std::string>(fault)); });
}

void MonitorJob::OnOutput(std::function<void(const std::string& directory)> work,
                          std::function<void(const Status& fault)> then) {
  impl_.loop_.Post([this, work = std::move(work), then = std::move(then)] {
    const std::string& directory = impl_.reloader_.journal().directory();
    if (directory.empty())
      return then(Status(StatusCode::kNotFound,
                         "this run has no history: no plan of it has written rows yet, or its format keeps no files"));
    OrReport([&] { impl_.reloader_.output_work().Do([work, path = Absolute(directory)] { work(path); }, then); }, then);
  });
}

}  // namespace stepwatch::api
