#include "operations/provision/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "operations/provision/dashboards.h"
#include "operations/provision/gpu_names.h"
#include "operations/provision/render.h"
#include "operations/provision/templates.h"
#include "src/base/file.h"

namespace stepwatch::operations {
namespace {

constexpr int64_t kTimeoutSecondsMax = 10;

std::vector<TemplateTexts> AddressItems(const std::vector<std::string>& addresses) {
  std::vector<TemplateTexts> items;
  for (const std::string& address : addresses) items.push_back({{"address", address}});
  return items;
}

std::string WithoutLastSlash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

// "2.42" -> "2.42.0".
std::string ImageTag(const std::string& version) {
  return std::count(version.begin(), version.end(), '.') == 1 ? version + ".0" : version;
}

// "[::1]:514" -> {"::1", "514"}.
std::pair<std::string, std::string> HostAndPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {std::move(host), address.substr(colon + 1)};
}

TemplateValues ValuesOf(const ProvisionOptions& options) {
  const GpuNames gpu = GpuNamesOf(options.gpu_source);
  TemplateValues values;
  values.texts = {{"prometheus", options.prometheus},
                  {"image_prometheus", ImageTag(options.prometheus)},
                  {"cluster", options.cluster},
                  {"replica", options.replica},
                  {"interval", std::to_string(options.interval_seconds)},
                  {"timeout", std::to_string(std::min(options.interval_seconds, kTimeoutSecondsMax))},
                  {"stepwatchd_first", options.stepwatchd.front()},
                  {"secrets", options.secrets},
                  {"peers", std::to_string(options.alertmanagers.size())},
                  {"notify", options.notify},
                  {"email", options.email},
                  {"email_from", options.email_from},
                  {"smtp", options.smtp},
                  {"slack", options.slack},
                  {"grafana", WithoutLastSlash(options.grafana)},
                  {"runbook", options.runbook},
                  {"watchdog", options.watchdog},
                  {"gpu_temperature", gpu.temperature},
                  {"gpu_slowdown_temperature", gpu.slowdown_temperature},
                  {"gpu_memory_ratio", gpu.memory_ratio},
                  {"gpu_activity_10m", gpu.activity_10m}};
  auto [stepwatchd_host, stepwatchd_port] = HostAndPort(options.stepwatchd.front());
  auto [syslog_host, syslog_port] = HostAndPort(options.syslog);
  values.texts.insert({{"logs", options.logs},
                       {"logs_directory", base::DirectoryOf(options.logs)},
                       {"elasticsearch", WithoutLastSlash(options.elasticsearch)},
                       {"stepwatchd_host", std::move(stepwatchd_host)},
                       {"stepwatchd_port", std::move(stepwatchd_port)},
                       {"syslog_host", std::move(syslog_host)},
                       {"syslog_port", std::move(syslog_port)}});
  values.flags = {{"dcgm", options.gpu_source == GpuSource::kDcgm},
                  {"http_sd", options.has_http_sd},
                  {"mail", !options.email.empty() || !options.teams.empty()},
                  {"email", !options.email.empty()},
                  {"peers", options.alertmanagers.size() > 1},
                  {"slack", !options.slack.empty()},
                  {"pagerduty", options.has_pagerduty},
                  {"grafana", !options.grafana.empty()},
                  {"watchdog", !options.watchdog.empty()},
                  {"runbook", !options.runbook.empty()}};
  values.lists = {{"alertmanagers", AddressItems(options.alertmanagers)},
                  {"node", AddressItems(options.nodes)},
                  {"dcgm", AddressItems(options.dcgm)},
                  {"stepwatchd", AddressItems(options.stepwatchd)},
                  {"teams", {}}};
  for (const std::string& team : options.teams) {
    auto [component, address] = TeamOf(team);
    values.lists["teams"].push_back({{"component", std::move(component)}, {"address", std::move(address)}});
  }
  return values;
}

bool IsUnused(std::string_view path, const ProvisionOptions& options) {
  if (path == "prometheus/targets/dcgm.yml") return options.gpu_source != GpuSource::kDcgm;
  return path == "prometheus/targets/stepwatchd.yml" && options.has_http_sd;
}

}  // namespace

Result<std::vector<ProvisionedFile>> MakeFiles(const ProvisionOptions& options) {
  const TemplateValues values = ValuesOf(options);
  std::vector<ProvisionedFile> files;
  for (const Template& each : Templates()) {
    if (IsUnused(each.path, options)) continue;
    Result<std::string> text = Render(each.text, values);
    if (!text.ok())
      return Status(text.status().code(), fmt::format("template {}: {}", each.path, text.status().message()));
    files.push_back({std::string(each.path), std::move(text).value()});
  }
  for (const Dashboard& dashboard : Dashboards(GpuNamesOf(options.gpu_source), options.runbook))
    files.push_back(
        {fmt::format("grafana/dashboards/{}.json", dashboard.uid), DashboardJson(dashboard).dump(2) + "\n"});
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace stepwatch::operations
