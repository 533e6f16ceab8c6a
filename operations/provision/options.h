// The options of `stepwatchd provision`, and their check.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::operations {

enum class GpuSource : uint8_t { kNvml, kDcgm };

struct ProvisionOptions {
  std::string prometheus = "2.42";  // the oldest version that must read the files
  GpuSource gpu_source = GpuSource::kNvml;
  std::string cluster = "training";
  std::string replica = "a";
  int64_t interval_seconds = 15;  // of scrapes and of the rules
  bool has_http_sd = true;        // each stepwatchd lists itself; otherwise targets/stepwatchd.yml does
  std::vector<std::string> stepwatchd = {"127.0.0.1:9465"};  // HOST:PORT
  std::vector<std::string> nodes = {"127.0.0.1:9100"};
  std::vector<std::string> dcgm = {"127.0.0.1:9400"};
  std::vector<std::string> alertmanagers = {"127.0.0.1:9093"};
  std::string secrets = "/etc/stepwatch/secrets";  // directory of token and password files
  std::string notify = "chat";                     // the receiver of stepwatchd that gets every alert
  std::string email, email_from, smtp;             // smtp: HOST:PORT
  std::string slack;                               // channel
  bool has_pagerduty = false;
  std::vector<std::string> teams;                // COMPONENT=ADDRESS
  std::string grafana;                           // URL, for links in alerts
  std::string runbook;                           // URL, to which the name of the alert is added
  std::string watchdog;                          // URL of a dead man's switch; empty: stepwatchd is one
  std::string logs = "/var/log/training/*.log";  // the files of logs that agents read
  std::string syslog = "127.0.0.1:5514";         // HOST:PORT where stepwatchd accepts syslog
  std::string elasticsearch = "https://127.0.0.1:9200";
};

// Every text of the options goes into YAML and JSON, so each has a narrow alphabet.
Status CheckProvisionOptions(const ProvisionOptions& options);

// "training=a@b" -> {"training", "a@b"}; two empty texts without "=".
std::pair<std::string, std::string> TeamOf(std::string_view team);

}  // namespace stepwatch::operations
