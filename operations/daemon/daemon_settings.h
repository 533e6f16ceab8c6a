// stepwatchd.json as values. Every key has a default, so an empty object, or a missing file, is valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operations/delivery/delivery_settings.h"
#include "operations/detectors/settings.h"
#include "operations/log_intake/log_settings.h"
#include "src/config/config.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

struct ListenSettings {
  std::string tcp;              // "127.0.0.1:9465"; empty: no TCP
  std::string token_file;       // with the token that TCP requests must contain
  std::string name;             // names of this machine that TCP clients may use
  std::string readers;          // the group whose users may read
  std::string public_url = {};  // address at which browsers reach the intake; empty: no links to acknowledge incidents

  bool operator==(const ListenSettings&) const = default;
};

struct StoreSettings {
  int64_t lines_minutes = 30;  // of open runs, to restore them
  int64_t lines_mib = 64;
  int64_t mib = 1024;  // of the database
  int64_t ended_days = 90;

  bool operator==(const StoreSettings&) const = default;
};

struct DiscoverySettings {
  bool enabled = true;
  std::vector<std::string> directories;  // empty: those of the user

  bool operator==(const DiscoverySettings&) const = default;
};

struct UpstreamSettings {
  std::string url;  // http://HOST:PORT of another stepwatchd; empty: none
  std::string token_file;
  int64_t spool_mib = 256;

  bool operator==(const UpstreamSettings&) const = default;
};

struct GpuSettings {
  std::string source = "nvml";  // "dcgm": a dcgm-exporter has their metrics; "none"
  double peak_flops = 0;        // of one GPU in the precision of the training; 0: as ranks report it

  bool operator==(const GpuSettings&) const = default;
};

struct HostSettings {
  std::vector<std::string> directories;  // of checkpoints

  bool operator==(const HostSettings&) const = default;
};

struct MetricsSettings {
  std::string directory;        // with files of metrics; empty: none
  int64_t file_seconds = 3600;  // age up to which they are on the page
  std::string targets_file;     // for Prometheus' discovery; empty: none

  bool operator==(const MetricsSettings&) const = default;
};

struct OtlpSettings {
  std::string url;           // http://HOST:PORT of a collector; empty: none
  std::string headers_file;  // with lines "Name: value"
  int64_t seconds = 15;      // between two requests

  bool operator==(const OtlpSettings&) const = default;
};

struct MaintenanceSettings {
  std::string scontrol;     // the path of Slurm's program; empty: Slurm is not asked
  std::string labels_file;  // of Kubernetes' downward API; empty: none
  int64_t seconds = 60;     // between two looks

  bool operator==(const MaintenanceSettings&) const = default;
};

struct DaemonSettings {
  ListenSettings listen;
  StoreSettings store;
  DiscoverySettings discovery;
  UpstreamSettings upstream;
  GpuSettings gpu;
  HostSettings host;
  MetricsSettings metrics;
  OtlpSettings otlp;
  LogSettings logs;
  MaintenanceSettings maintenance;
  Settings detectors;
  delivery::DeliverySettings delivery;  // with "links"
};

struct ParsedDaemonSettings {
  DaemonSettings settings;
  std::vector<config::Warning> warnings;
};

inline constexpr size_t kSettingsBytesMax = size_t{1} << 20;

// Pure. The text is JSON with // and /* */ comments. Invalid JSON, a value of a type that its key does not accept and a
// value out of range are refused with key, line and column. An unknown key is a warning that names the nearest known
// one.
Result<ParsedDaemonSettings> ParseDaemonSettings(std::string_view text_untrusted);

}  // namespace stepwatch::operations
