#include "controller/door/metrics.h"

#include <fmt/format.h>

#include "src/base/text.h"
#include "stepwatch/version.h"

namespace stepwatch::door {
namespace {

// A label's value, as the format wants it: UTF-8, with \\, \" and \n.
std::string Label(const std::string& text) {
  std::string escaped;
  for (const char c : base::ValidUtf8(text)) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

class Page {
 public:
  void Family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  template <class Number>
  void Sample(Number value, const std::string& labels = "") {
    text_ += labels.empty() ? fmt::format("{} {}\n", name_, value) : fmt::format("{}{{{}}} {}\n", name_, labels, value);
  }
  template <class Number>
  void One(const char* name, const char* type, const char* help, Number value) {
    Family(name, type, help);
    Sample(value);
  }
  std::string text() && { return std::move(text_); }

 private:
  const char* name_ = "";
  std::string text_;
};

void AddState(Page* page, const JobStatus& status) {
  page->Family("stepwatch_info", "gauge", "The run and this rank of it.");
  page->Sample(1, fmt::format("version=\"{}\",run_id=\"{}\",rank=\"{}\",world_size=\"{}\",config_path=\"{}\"", kVersion,
                              Label(status.run_id), status.rank, status.world_size, Label(status.config_path)));
  page->Family("stepwatch_state", "gauge", "1 for the state that the monitor is in, 0 for the others.");
  for (int i = 0; i <= static_cast<int>(RunState::kFailed); ++i) {
    const auto state = static_cast<RunState>(i);
    page->Sample(status.monitor.state == state ? 1 : 0, fmt::format("state=\"{}\"", RunStateName(state)));
  }
  page->One("stepwatch_plan_id", "gauge", "The plan in force, 0 for none.", status.monitor.plan_id);
  page->One("stepwatch_paused", "gauge", "1 if the plan in force collects nothing until it is resumed.",
            status.monitor.paused ? 1 : 0);
  page->One("stepwatch_drift", "gauge", "1 if the config file says something else than what runs.",
            status.drift.empty() ? 0 : 1);
  page->One("stepwatch_fault", "gauge", "1 if the newest edit is not taken over although it is tried.",
            status.monitor.fault.empty() ? 0 : 1);
}

void AddSteps(Page* page, const JobStatus& status) {
  page->One("stepwatch_step", "gauge", "The number of the training step that runs.", status.monitor.step);
  page->One("stepwatch_collected_steps", "gauge", "Collected steps of the plan in force.", status.monitor.collected);
  if (status.step_seconds)
    page->One("stepwatch_step_seconds", "gauge", "How long a training step took lately, on average.",
              *status.step_seconds);
  page->One("stepwatch_measuring_seconds_total", "counter",
            "Time that threads of the trainer spent measuring, for plans that are drained.", status.measuring_seconds);
  page->One("stepwatch_decision_waits_total", "counter", "Boundaries at which the job's decision was waited for.",
            status.monitor.decision_waits);
  page->One("stepwatch_decision_timeouts_total", "counter", "Of those, in vain.", status.monitor.decision_timeouts);
}

void AddLedger(Page* page, const Ledger& ledger) {
  page->One("stepwatch_rows_produced_total", "counter", "Rows of plans that are drained.", ledger.produced);
  page->One("stepwatch_rows_written_total", "counter", "Of those, written.", ledger.written);
  page->Family("stepwatch_rows_dropped_total", "counter", "Of those, dropped, by reason.");
  for (int i = 0; i < kDropReasonCount; ++i)
    page->Sample(ledger.dropped[static_cast<size_t>(i)],
                 fmt::format("reason=\"{}\"", DropReasonName(static_cast<DropReason>(i))));
}

void AddEdits(Page* page, const JobStatus& status) {
  page->One("stepwatch_looks_total", "counter", "Looks at the config file.", status.looks);
  page->One("stepwatch_refusals_total", "counter", "Edits that were refused.", status.refusals);
  page->One("stepwatch_applied_total", "counter", "Plans that were applied.", status.applied);
  page->One("stepwatch_last_applied_timestamp_seconds", "gauge",
            "When the newest plan was applied, in seconds since 1970; 0 if none was.", status.last_applied_unix);
  page->One("stepwatch_events_total", "counter", "Events that were told.", status.events);
  page->One("stepwatch_uptime_seconds", "gauge", "Time since the monitor was created.", status.uptime_seconds);
}

}  // namespace

std::string MetricsText(const JobStatus& status) {
  Page page;
  AddState(&page, status);
  AddSteps(&page, status);
  AddLedger(&page, status.ledger);
  AddEdits(&page, status);
  return std::move(page).text();
}

}  // namespace stepwatch::door
