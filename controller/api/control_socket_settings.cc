#include "controller/api/control_socket_settings.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "src/base/file.h"
#include "src/base/parse_number.h"
#include "src/base/text.h"

namespace stepwatch::api {
namespace {

// About 15 MB of metrics.
constexpr size_t kSeriesMax = 100000;

std::string_view Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The value of STEPWATCH_SOCKET{suffix}; if that is unset, of the variable's name in the last release.
std::string_view SocketVariable(const std::string& suffix) {
  const std::string_view value = Variable(("STEPWATCH_SOCKET" + suffix).c_str());
  return value.empty() ? Variable(("STEPWATCH_DOOR" + suffix).c_str()) : value;
}

std::string FirstSet(const std::string& option, const std::string& former_option, const char* suffix) {
  if (!option.empty()) return option;
  return former_option.empty() ? std::string(SocketVariable(suffix)) : former_option;
}

}  // namespace

ControlSocketSettings SettingsOfControlSocket(const Options& options, base::FileSystem& files) {
  ControlSocketSettings settings;
  settings.is_wanted = options.control_socket && options.door && SocketVariable("") != "0";
  const ControlSocketOptions &own = options.control_socket_options, &former = options.door_options;
  settings.options.tcp = FirstSet(own.tcp, former.tcp, "_TCP");
  std::string& token_file = settings.options.token_file;
  token_file = FirstSet(own.token_file, former.token_file, "_TOKEN_FILE");
  std::string here;
  if (!token_file.empty() && token_file.front() != '/' && files.CurrentDirectory(&here) == 0)
    token_file = base::JoinPath(here, token_file);
  settings.options.tcp_name = FirstSet(own.tcp_name, former.tcp_name, "_TCP_NAME");
  settings.options.group = FirstSet(own.group, former.group, "_GROUP");
  size_t& series = settings.options.metrics_sites_max;
  series = own.metrics_sites_max > 0 ? own.metrics_sites_max : former.metrics_sites_max;
  const std::string_view wanted = Variable("STEPWATCH_METRICS_SITES_MAX");
  if (series == 0 && !wanted.empty()) {
    const std::optional<size_t> number = base::ParseNumber<size_t>(wanted);
    series = number.value_or(0);
    if (!number) {
      settings.trouble = "STEPWATCH_METRICS_SITES_MAX is \"" + base::Printable(wanted) +
                         "\", which is not a whole number; /metrics shows no sites";
    }
  }
  series = std::min(series, kSeriesMax);
  return settings;
}

}  // namespace stepwatch::api
