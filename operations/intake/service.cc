#include "operations/intake/service.h"

#include <string_view>

#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

using http::MetricFamily;

void AddDeliveries(const std::map<std::string, DeliveryCounts>& deliveries, std::vector<MetricFamily>* families) {
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help,
                       int64_t DeliveryCounts::*count) {
    families->push_back({name, type, help, {}});
    for (const auto& [receiver, counts] : deliveries)
      families->back().Add(static_cast<double>(counts.*count), {{"receiver", receiver}});
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

std::vector<MetricFamily> DaemonFamilies(const DaemonCounts& counts) {
  std::vector<MetricFamily> families;
  const auto begin = [&](std::string_view name, std::string_view type, std::string_view help) {
    families.push_back({name, type, help, {}});
  };
  begin("stepwatchd_build", "info", "The version of stepwatchd.");
  families.back().Add(1, {{"version", kVersion}});
  begin("stepwatchd_runs", "gauge", "Runs by state.");
  for (const auto& [state, count] : counts.runs) families.back().Add(static_cast<double>(count), {{"state", state}});
  begin("stepwatchd_incidents_open", "gauge", "Open incidents by kind.");
  for (const auto& [kind, count] : counts.incidents_open)
    families.back().Add(static_cast<double>(count), {{"kind", kind}});
  begin("stepwatchd_incidents_opened", "counter", "Incidents that were opened.");
  for (const auto& [kinds, count] : counts.incidents_opened)
    families.back().Add(static_cast<double>(count),
                        {{"kind", std::string(NameOf(kinds.first))}, {"severity", std::string(NameOf(kinds.second))}});
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    begin(name, type, help);
    families.back().Add(static_cast<double>(value));
  };
  one("stepwatchd_uptime_seconds", "gauge", "Time since stepwatchd was started.", counts.uptime_seconds);
  one("stepwatchd_lines_taken", "counter", "Beats and events that were observed.", counts.lines_taken);
  one("stepwatchd_lines_refused", "counter", "Lines that were rejected.", counts.lines_refused);
  one("stepwatchd_lines_dropped", "counter",
      "Lines that were dropped because the maximum number of runs or ranks was reached.", counts.lines_dropped);
  one("stepwatchd_series_halved", "counter", "Times that the series of a run were halved to limit memory.",
      counts.series_halved);
  one("stepwatchd_jobs_left_out", "counter",
      "Responses, control sockets and processes of jobs that were left out to limit memory.", counts.jobs_left_out);
  one("stepwatchd_requests_left_out", "counter", "Requests that were answered with status 503 to limit memory.",
      counts.requests_left_out);
  one("stepwatchd_lines_never_stored", "counter", "Lines that were dropped before they were stored.",
      counts.lines_never_stored);
  one("stepwatchd_incident_changes_never_stored", "counter",
      "Changes of incidents that were dropped before they were stored.", counts.changes_never_stored);
  one("stepwatchd_store_changes_lost", "counter", "Changes of incidents that were stored and then lost.",
      counts.store_changes_lost);
  one("stepwatchd_store_set_aside", "counter", "Times that files of the store were damaged and set aside.",
      counts.store_set_aside);
  one("stepwatchd_log_lines_dropped", "counter", "Lines of the log that could not be written.",
      counts.log_lines_dropped);
  one("stepwatchd_store_bytes", "gauge", "Size of the store.", counts.store_bytes);
  one("stepwatchd_store_waiting_bytes", "gauge", "Bytes of lines that wait to be stored.", counts.store_waiting_bytes);
  one("stepwatchd_store_in_trouble", "gauge", "1 while the store cannot be written.", counts.store_in_trouble);
  one("stepwatchd_loop_delay_seconds", "gauge", "The longest delay of a tick in the last minute.",
      counts.loop_delay_seconds);
  one("stepwatchd_upstream_waiting_bytes", "gauge", "Bytes of lines that wait to be sent to the upstream.",
      counts.upstream_waiting_bytes);
  one("stepwatchd_upstream_dropped_bytes", "counter",
      "Bytes of lines that were dropped before the upstream accepted them.", counts.upstream_dropped_bytes);
  AddDeliveries(counts.deliveries, &families);
  return families;
}

}  // namespace stepwatch::operations
