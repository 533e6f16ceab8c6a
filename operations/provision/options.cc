#include "operations/provision/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "src/base/parse_number.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kBytesMax = 200;
constexpr size_t kListMax = 1000;
constexpr int64_t kMinorMin = 42;  // the first Prometheus 2 with keep_firing_for
constexpr std::string_view kComponents[] = {"gpu", "training", "system", "monitoring"};

// Letters, digits and the bytes of `more`.
bool IsMadeOf(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= kBytesMax && std::all_of(text.begin(), text.end(), [more](char byte) {
    return std::isalnum(static_cast<unsigned char>(byte)) != 0 || more.find(byte) != std::string_view::npos;
  });
}

bool IsName(std::string_view text) {
  return IsMadeOf(text, "_.-");
}

bool IsAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || !IsMadeOf(text, "_.-:[]")) return false;
  const std::optional<int64_t> port = base::ParseNumber<int64_t>(text.substr(colon + 1));
  return port && *port > 0 && *port < 65536;
}

bool IsMail(std::string_view text) {
  const size_t at = text.find('@');
  return at != std::string_view::npos && at > 0 && at + 1 < text.size() && text.find('@', at + 1) == text.npos &&
         IsMadeOf(text, "_.+-@");
}

bool IsUrl(std::string_view text) {
  return (text.starts_with("http://") || text.starts_with("https://")) && IsMadeOf(text, "_.-:/~#[]") &&
         text.size() > 8;
}

bool IsPath(std::string_view text) {
  return text.starts_with('/') && IsMadeOf(text, "_.-/");
}

// A path whose last part may have asterisks.
bool IsPattern(std::string_view text) {
  const size_t slash = text.rfind('/');
  return text.starts_with('/') && slash > 0 && slash + 1 < text.size() && IsPath(text.substr(0, slash)) &&
         IsMadeOf(text.substr(slash + 1), "_.-*");
}

bool IsChannel(std::string_view text) {
  return IsMadeOf(text, "_-#");
}

bool IsTeam(std::string_view text) {
  const auto [component, mail] = TeamOf(text);
  return std::find(std::begin(kComponents), std::end(kComponents), component) != std::end(kComponents) && IsMail(mail);
}

// "MAJOR.MINOR", with a patch number perhaps.
bool IsKnownPrometheus(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view rest = text.substr(dot + 1);
  const size_t second = rest.find('.');
  const std::optional<int64_t> major = base::ParseNumber<int64_t>(text.substr(0, dot));
  const std::optional<int64_t> minor = base::ParseNumber<int64_t>(rest.substr(0, second));
  const bool has_patch =
      second == std::string_view::npos || base::ParseNumber<uint16_t>(rest.substr(second + 1)).has_value();
  if (!major || !minor || *minor < 0 || *minor > 999 || !has_patch) return false;
  return *major == 3 || (*major == 2 && *minor >= kMinorMin);
}

Status Refused(std::string_view option, std::string_view found, std::string_view accepted) {
  return Status(StatusCode::kInvalid, fmt::format("{}: found \"{}\", accepted is {}; no file was written", option,
                                                  base::Printable(found), accepted));
}

struct Check {
  std::string_view option;
  std::string_view text;
  bool (*is_right)(std::string_view);
  std::string_view accepted;
  bool is_optional = false;
};

Status CheckOne(const Check& check) {
  if (check.is_optional && check.text.empty()) return {};
  return check.is_right(check.text) ? Status() : Refused(check.option, check.text, check.accepted);
}

Status CheckList(std::string_view option, const std::vector<std::string>& texts, bool (*is_right)(std::string_view),
                 std::string_view accepted) {
  if (texts.size() > kListMax)
    return Refused(option, fmt::format("{} values", texts.size()), fmt::format("at most {}", kListMax));
  for (const std::string& text : texts)
    if (!is_right(text)) return Refused(option, text, accepted);
  return {};
}

}  // namespace

std::pair<std::string, std::string> TeamOf(std::string_view team) {
  const size_t equals = team.find('=');
  if (equals == std::string_view::npos) return {};
  return {std::string(team.substr(0, equals)), std::string(team.substr(equals + 1))};
}

Status CheckProvisionOptions(const ProvisionOptions& options) {
  constexpr std::string_view kName = "up to 200 letters, digits and _.-";
  constexpr std::string_view kAddress = "HOST:PORT";
  constexpr std::string_view kMail = "an address such as oncall@example.org";
  constexpr std::string_view kUrl = "a URL that begins with http:// or https://";
  const Check checks[] = {
      {"--prometheus", options.prometheus, IsKnownPrometheus, "2.42 or later, or 3.0 or later"},
      {"--cluster", options.cluster, IsName, kName},
      {"--replica", options.replica, IsName, kName},
      {"--secrets", options.secrets, IsPath, "an absolute path of letters, digits and _.-/"},
      {"--notify", options.notify, IsName, kName},
      {"--email", options.email, IsMail, kMail, true},
      {"--email-from", options.email_from, IsMail, kMail, true},
      {"--smtp", options.smtp, IsAddress, kAddress, true},
      {"--slack", options.slack, IsChannel, "a channel of letters, digits and #_-", true},
      {"--grafana", options.grafana, IsUrl, kUrl, true},
      {"--runbook", options.runbook, IsUrl, kUrl, true},
      {"--watchdog", options.watchdog, IsUrl, kUrl, true},
      {"--logs", options.logs, IsPattern, "an absolute path whose last part may contain *"},
      {"--syslog", options.syslog, IsAddress, kAddress},
      {"--elasticsearch", options.elasticsearch, IsUrl, kUrl},
  };
  for (const Check& check : checks)
    if (Status status = CheckOne(check); !status.ok()) return status;
  const bool has_mail = !options.email.empty() || !options.teams.empty();
  if (has_mail && (options.smtp.empty() || options.email_from.empty()))
    return Refused("--email", options.email, "--email and --team only together with --smtp and --email-from");
  if (options.interval_seconds < 1 || options.interval_seconds > 300)
    return Refused("--interval", std::to_string(options.interval_seconds), "1 to 300 seconds");
  if (options.stepwatchd.empty() || options.alertmanagers.empty())
    return Refused(options.stepwatchd.empty() ? "--stepwatchd" : "--alertmanager", "", "at least one HOST:PORT");
  const struct {
    std::string_view option;
    const std::vector<std::string>& addresses;
  } lists[] = {{"--stepwatchd", options.stepwatchd},
               {"--node", options.nodes},
               {"--dcgm", options.dcgm},
               {"--alertmanager", options.alertmanagers}};
  for (const auto& list : lists)
    if (Status status = CheckList(list.option, list.addresses, IsAddress, kAddress); !status.ok()) return status;
  return CheckList("--team", options.teams, IsTeam, "COMPONENT=ADDRESS with gpu, training, system or monitoring");
}

}  // namespace stepwatch::operations
