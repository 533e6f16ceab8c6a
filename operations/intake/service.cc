#include "operations/intake/service.h"

#include "src/http/metrics_page.h"
#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

using http::MetricsPage;

std::string Label(const char* name, const std::string& value) {
  return std::string(name) + "=\"" + MetricsPage::Escaped(value) + "\"";
}

void AddDeliveries(const std::map<std::string, DeliveryCounts>& deliveries, MetricsPage* page) {
  if (deliveries.empty()) return;
  const auto add = [&](const char* name, const char* type, const char* help, int64_t DeliveryCounts::*count) {
    page->Family(name, type, help);
    for (const auto& [receiver, counts] : deliveries) page->Sample(counts.*count, Label("receiver", receiver));
  };
  add("stepwatchd_delivery_sent", "counter", "Requests with messages that the receiver accepted.",
      &DeliveryCounts::sent);
  add("stepwatchd_delivery_failed", "counter", "Requests with messages that failed or were rejected.",
      &DeliveryCounts::failed);
  add("stepwatchd_delivery_digested", "counter", "Messages that were only counted in a digest.",
      &DeliveryCounts::digested);
  add("stepwatchd_delivery_dead_letters", "gauge", "Messages that were given up.", &DeliveryCounts::dead);
  add("stepwatchd_delivery_waiting", "gauge", "Messages that wait.", &DeliveryCounts::waiting);
}

}  // namespace

std::string DaemonMetricsText(const DaemonCounts& counts, http::MetricsFormat format) {
  MetricsPage page(format);
  page.Family("stepwatchd_build", "info", "The version of stepwatchd.");
  page.Sample(1, Label("version", kVersion));
  page.One("stepwatchd_uptime_seconds", "gauge", "Time since stepwatchd was started.", counts.uptime_seconds);
  page.Family("stepwatchd_runs", "gauge", "Runs by state.");
  for (const auto& [state, count] : counts.runs) page.Sample(count, Label("state", state));
  page.Family("stepwatchd_incidents_open", "gauge", "Open incidents by kind.");
  for (const auto& [kind, count] : counts.incidents_open) page.Sample(count, Label("kind", kind));
  page.Family("stepwatchd_incidents_opened", "counter", "Incidents that were opened.");
  for (const auto& [what, count] : counts.incidents_opened)
    page.Sample(count, Label("kind", std::string(NameOf(what.first))) + "," +
                           Label("severity", std::string(NameOf(what.second))));
  page.One("stepwatchd_lines_taken", "counter", "Beats and events that were observed.", counts.lines_taken);
  page.One("stepwatchd_lines_refused", "counter", "Lines that were rejected.", counts.lines_refused);
  page.One("stepwatchd_lines_dropped", "counter",
           "Lines that were dropped because the maximum number of runs or ranks was reached.", counts.lines_dropped);
  page.One("stepwatchd_series_halved", "counter", "Times that the series of a run were halved to limit memory.",
           counts.series_halved);
  page.One("stepwatchd_jobs_left_out", "counter",
           "Responses, control sockets and processes of jobs that were left out to limit memory.",
           counts.jobs_left_out);
  page.One("stepwatchd_requests_left_out", "counter", "Requests that were answered with status 503 to limit memory.",
           counts.requests_left_out);
  page.One("stepwatchd_lines_never_stored", "counter", "Lines that were dropped before they were stored.",
           counts.lines_never_stored);
  page.One("stepwatchd_incident_changes_never_stored", "counter",
           "Changes of incidents that were dropped before they were stored.", counts.changes_never_stored);
  page.One("stepwatchd_store_changes_lost", "counter", "Changes of incidents that were stored and then lost.",
           counts.store_changes_lost);
  page.One("stepwatchd_store_set_aside", "counter", "Times that files of the store were damaged and set aside.",
           counts.store_set_aside);
  page.One("stepwatchd_log_lines_dropped", "counter", "Lines of the log that could not be written.",
           counts.log_lines_dropped);
  page.One("stepwatchd_store_bytes", "gauge", "Size of the store.", counts.store_bytes);
  page.One("stepwatchd_store_waiting_bytes", "gauge", "Bytes of lines that wait to be stored.",
           counts.store_waiting_bytes);
  page.One("stepwatchd_store_in_trouble", "gauge", "1 while the store cannot be written.",
           static_cast<int64_t>(counts.store_in_trouble));
  page.One("stepwatchd_loop_delay_seconds", "gauge", "The longest delay of a tick in the last minute.",
           counts.loop_delay_seconds);
  page.One("stepwatchd_upstream_waiting_bytes", "gauge", "Bytes of lines that wait to be sent to the upstream.",
           counts.upstream_waiting_bytes);
  page.One("stepwatchd_upstream_dropped_bytes", "counter",
           "Bytes of lines that were dropped before the upstream accepted them.", counts.upstream_dropped_bytes);
  AddDeliveries(counts.deliveries, &page);
  return std::move(page).Begin();
}

}  // namespace stepwatch::operations
