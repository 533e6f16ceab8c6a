#include "controller/control_socket/metrics.h"

#include "stepwatch/version.h"

namespace stepwatch::control_socket {
namespace {

using status::JobStatus;
using status::kRunStateCount;
using status::MeasuringCost;
using Page = http::MetricsPage;

std::string Label(const std::string& text) {
  return Page::Escaped(text);
}

void AddState(Page* page, const JobStatus& status) {
  page->Family("stepwatch", "info", "The run and the rank of this page.");
  page->Sample(1, fmt::format("version=\"{}\",run_id=\"{}\",rank=\"{}\",world_size=\"{}\",config_path=\"{}\"", kVersion,
                              Label(status.reload.run_id), status.rank, status.world_size, Label(status.config_path)));
  page->Family("stepwatch_state", "gauge", "1 for the state that the monitor is in, 0 for the others.");
  for (size_t i = 0; i < kRunStateCount; ++i) {
    const auto state = static_cast<RunState>(i);
    page->Sample(status.monitor.state == state ? 1 : 0, fmt::format("state=\"{}\"", RunStateName(state)));
  }
  page->One("stepwatch_plan_id", "gauge", "Id of the plan in force; 0 without a plan.", status.monitor.plan_id);
  page->One("stepwatch_paused", "gauge", "1 if the plan in force is paused.", status.monitor.paused ? 1 : 0);
  page->Family("stepwatch_watch_mode", "gauge",
               "1 for the way of noticing edits: inotify events and polling, or polling alone.");
  const std::string& watch_mode = status.reload.watch_mode;
  const bool has_events = watch_mode == "inotify";
  page->Sample(has_events ? 1 : 0, "mode=\"inotify\"");
  page->Sample(!has_events && !watch_mode.empty() ? 1 : 0, "mode=\"poll\"");
  page->One("stepwatch_drift", "gauge", "1 if the config file differs from the config that runs.",
            status.drift().empty() ? 0 : 1);
  page->One("stepwatch_fault", "gauge", "1 if applying the newest edit fails and is retried.",
            status.monitor.fault.empty() ? 0 : 1);
}

void AddRanks(Page* page, const JobStatus& status) {
  if (!status.ranks) return;
  page->Family("stepwatch_ranks", "gauge", "Ranks of the job by last reported state; UNKNOWN: no recent report.");
  for (size_t i = 0; i < kRunStateCount; ++i)
    page->Sample(status.ranks->ranks[i], fmt::format("state=\"{}\"", RunStateName(static_cast<RunState>(i))));
  page->Sample(status.ranks->unknown, "state=\"UNKNOWN\"");
  page->One("stepwatch_ranks_asked_timestamp_seconds", "gauge",
            "Time of the last query of all ranks, in seconds since 1970; 0 if never.", status.ranks->asked_unix);
}

void AddSteps(Page* page, const JobStatus& status) {
  page->One("stepwatch_step", "gauge", "Number of the training step that runs.", status.monitor.step);
  page->One("stepwatch_collected_steps", "gauge", "Collected steps of the plan in force.", status.monitor.collected);
  if (status.step_seconds)
    page->One("stepwatch_step_seconds", "gauge", "Recent mean duration of a training step.", *status.step_seconds);
  page->One("stepwatch_measuring_seconds", "counter",
            "Time that threads of the trainer spent measuring, for plans that are drained.",
            status.counts.measuring_seconds);
  page->One("stepwatch_decision_waits", "counter",
            "Step boundaries at which the trainer waited for the job's decision.", status.monitor.decision_waits);
  page->One("stepwatch_decision_wait_seconds", "counter", "Time that the trainer waited at those boundaries.",
            status.monitor.decision_wait_seconds);
  page->One("stepwatch_decision_timeouts", "counter",
            "Step boundaries at which the wait for the job's decision timed out.", status.monitor.decision_timeouts);
}

void AddCost(Page* page, const JobStatus& status) {
  const MeasuringCost& cost = status.cost;
  if (cost.total.collected > 0) {
    page->Family("stepwatch_cost_seconds", "counter",
                 "Time that threads of the trainer and devices spent measuring, by kinds of sites; boundary: ends of "
                 "steps.");
    for (size_t i = 0; i < cost.total.ns.size(); ++i)
      if (cost.total.ns[i] > 0) page->Sample(cost.seconds_of(i), fmt::format("kind=\"{}\"", MeasuringCost::NameOf(i)));
    page->One("stepwatch_cost_device_seconds", "counter", "Part of stepwatch_cost_seconds that devices spent.",
              cost.device_seconds());
    page->One("stepwatch_cost_steps", "counter", "Steps in which a plan was in force, collected or not.",
              cost.total.steps);
    page->One("stepwatch_cost_step_seconds", "counter",
              "Time that the steps of stepwatch_cost_steps took without measuring.", cost.step_seconds());
  }
  if (!status.reload.budget) return;
  const status::BudgetStatus& budget = *status.reload.budget;
  page->One("stepwatch_budget_percent", "gauge", "Share of the training time that measuring may take.", budget.percent);
  if (budget.spent_percent)
    page->One("stepwatch_budget_spent_percent", "gauge", "Recent share of the training time that measuring took.",
              *budget.spent_percent);
  page->One("stepwatch_budget_acting", "gauge",
            "1 if exceeding the budget reduces the sampling, 0 if it is only reported.",
            budget.why_not.empty() ? 1 : 0);
  page->One("stepwatch_budget_interval_factor", "gauge", "Factor by which the budget lengthens step_interval.",
            budget.factor);
  page->One("stepwatch_budget_kinds_left_out", "gauge", "Kinds of sites that the budget excludes.",
            budget.left_out.size());
  page->One("stepwatch_budget_decisions", "counter",
            "Changes of factor or excluded kinds by the budget, for the edit in force.", budget.decisions);
}

void AddLedger(Page* page, const Ledger& ledger) {
  page->One("stepwatch_rows_produced", "counter", "Rows of plans that are drained.", ledger.produced);
  page->One("stepwatch_rows_written", "counter", "Rows of drained plans that were written.", ledger.written);
  page->Family("stepwatch_rows_dropped", "counter", "Rows of drained plans that were dropped, by reason.");
  for (int i = 0; i < kDropReasonCount; ++i)
    page->Sample(ledger.dropped[static_cast<size_t>(i)],
                 fmt::format("reason=\"{}\"", DropReasonName(static_cast<DropReason>(i))));
}

void AddEdits(Page* page, const JobStatus& status) {
  const status::EventCounts& counts = status.counts;
  page->Family("stepwatch_looks", "counter", "Looks at the config file, by cause.");
  page->Sample(status.looks.event, "cause=\"event\"");
  page->Sample(status.looks.slow, "cause=\"slow\"");
  page->Sample(status.looks.again, "cause=\"again\"");
  page->Sample(status.looks.refresh, "cause=\"refresh\"");
  page->Family("stepwatch_refusals", "counter", "Edits that were refused, by reason.");
  page->Sample(status.refusals.syntax, "reason=\"syntax\"");
  page->Sample(status.refusals.value, "reason=\"value\"");
  page->Sample(status.refusals.limit, "reason=\"limit\"");
  page->Sample(status.refusals.rank, "reason=\"rank\"");
  page->One("stepwatch_aborts", "counter", "Edits on whose step the ranks did not agree.", counts.aborts);
  if (!status.reload.file_sha256.empty())
    page->One("stepwatch_last_edit_success", "gauge",
              "1 if the newest edit was accepted, 0 if it was refused or aborted, or failed.",
              status.reload.refusal || counts.last_aborted || !status.monitor.fault.empty() ? 0 : 1);
  page->Family("stepwatch_decision_latency_seconds", "summary",
               "Time from the look that saw an edit until its plan was armed, including the decision of the ranks.");
  page->SumAndCount(counts.decisions.seconds, counts.decisions.count);
  page->Family("stepwatch_swap_seconds", "summary",
               "Time that the training thread spent between two steps on applying a plan or a stop.");
  page->SumAndCount(static_cast<double>(status.swaps.total_ns) * 1e-9, status.swaps.swaps);
  page->One("stepwatch_longest_swap_seconds", "gauge", "Longest single time of stepwatch_swap_seconds.",
            static_cast<double>(status.swaps.longest_ns) * 1e-9);
  page->Family("stepwatch_drain_seconds", "summary",
               "Time from the end of a plan until all its rows were written or counted as dropped.");
  page->SumAndCount(counts.drains.seconds, counts.drains.count);
  page->One("stepwatch_applied", "counter", "Plans that were applied.", counts.applied);
  page->One("stepwatch_last_applied_timestamp_seconds", "gauge",
            "Time at which the newest plan was applied, in seconds since 1970; 0 if never.", counts.last_applied_unix);
  page->One("stepwatch_events", "counter", "Reported events.", counts.events);
  page->One("stepwatch_uptime_seconds", "gauge", "Time since the monitor was created.", status.uptime_seconds);
}

// Reports only limits that are set.
void AddLimits(Page* page, const JobStatus& status) {
  const Limits& limits = status.limits;
  if (limits.bytes_max > 0) {
    page->One("stepwatch_disk_bytes", "gauge", "Bytes on disk that this rank of the run has written.",
              status.bytes_used);
    page->One("stepwatch_disk_bytes_max", "gauge", "Limit of stepwatch_disk_bytes (STEPWATCH_BYTES_MAX).",
              limits.bytes_max);
    page->One("stepwatch_disk_used_up", "gauge", "1 if the collection has ended because the disk bytes are used up.",
              status.bytes_used_up ? 1 : 0);
  }
  if (limits.rows_per_step_max > 0)
    page->One("stepwatch_rows_per_step_max", "gauge", "The most rows that a collected step may have.",
              limits.rows_per_step_max);
  if (limits.queue_bytes_max > 0)
    page->One("stepwatch_queue_bytes_max", "gauge", "Maximum memory for rows that are not in the files yet.",
              limits.queue_bytes_max);
}

}  // namespace

std::string MetricsText(const JobStatus& status, http::MetricsFormat format, const SiteValues& sites) {
  Page page(format);
  AddState(&page, status);
  AddRanks(&page, status);
  AddSteps(&page, status);
  AddCost(&page, status);
  AddLedger(&page, status.counts.ledger);
  AddEdits(&page, status);
  AddLimits(&page, status);
  AddSites(&page, sites);
  return std::move(page).Finish();
}

}  // namespace stepwatch::control_socket
