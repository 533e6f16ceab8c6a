#include "controller/api/door_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "src/base/file.h"
#include "src/base/text.h"

namespace stepwatch::api {
namespace {

// A page of metrics of about 15 MB.
constexpr size_t kSeriesMax = 100000;

std::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void FillIn(std::string* option, const char* name) {
  if (option->empty()) *option = Variable(name);
}

}  // namespace

DoorSettings SettingsOfDoor(const Options& options, base::FileSystem& files) {
  DoorSettings settings;
  settings.is_wanted = options.door && Variable("STEPWATCH_DOOR") != "0";
  settings.options = options.door_options;
  FillIn(&settings.options.tcp, "STEPWATCH_DOOR_TCP");
  FillIn(&settings.options.token_file, "STEPWATCH_DOOR_TOKEN_FILE");
  std::string& token_file = settings.options.token_file;
  std::string here;
  if (!token_file.empty() && token_file.front() != '/' && files.CurrentDirectory(&here) == 0)
    token_file = base::JoinPath(here, token_file);
  FillIn(&settings.options.tcp_name, "STEPWATCH_DOOR_TCP_NAME");
  FillIn(&settings.options.group, "STEPWATCH_DOOR_GROUP");
  size_t& series = settings.options.metrics_sites_max;
  const std::string_view wanted = Variable("STEPWATCH_METRICS_SITES_MAX");
  if (series == 0 && !wanted.empty()) {
    const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), series);
    if (error != std::errc() || end != wanted.data() + wanted.size()) {
      series = 0;
      settings.trouble = "STEPWATCH_METRICS_SITES_MAX is \"" + base::Printable(wanted) +
                         "\", which is not a whole number; /metrics shows no sites";
    }
  }
  series = std::min(series, kSeriesMax);
  return settings;
}

}  // namespace stepwatch::api
