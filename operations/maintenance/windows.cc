#include "operations/maintenance/windows.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "src/base/pod_info.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr std::string_view kIdPrefix = "maintenance:";
constexpr size_t kNameBytesMax = 200;
// Slurm allows several brackets in the name of a node; each multiplies the work.
constexpr int kBracketsMax = 8;
constexpr size_t kDigitsMax = 9;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Cuts the text before the first `end`, removes both from `rest`, and returns it.
std::string_view Cut(std::string_view* rest, char end) {
  const std::string_view head = rest->substr(0, rest->find(end));
  rest->remove_prefix(std::min(rest->size(), head.size() + 1));
  return head;
}

// The value of KEY=VALUE in a line whose values have no blanks; empty: it is missing.
std::string_view ValueIn(std::string_view line, std::string_view key) {
  while (!line.empty()) {
    std::string_view value = Cut(&line, ' ');
    if (Cut(&value, '=') == key) return value;
  }
  return "";
}

std::optional<double> Seconds(std::string_view text) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<double>(seconds);
}

bool HasFlag(std::string_view flags, std::string_view wanted) {
  while (!flags.empty())
    if (Cut(&flags, ',') == wanted) return true;
  return false;
}

// Whether "01-16,20" has these digits, which are padded with zeros to the width of the lower bound.
bool HasNumber(std::string_view ranges, std::string_view digits) {
  uint32_t number = 0;
  (void)std::from_chars(digits.data(), digits.data() + digits.size(), number);
  while (!ranges.empty()) {
    std::string_view range = Cut(&ranges, ',');
    const std::string_view low = Cut(&range, '-');
    const std::string_view high = range.empty() ? low : range;
    const bool is_padded = digits.size() == low.size() || (digits.size() > low.size() && digits[0] != '0');
    const std::optional<double> from = Seconds(low), to = Seconds(high);
    if (is_padded && from && to && *from <= number && number <= *to) return true;
  }
  return false;
}

// Whether one name of a list, perhaps with ranges in brackets, stands for the host as well.
bool IsNode(std::string_view name, std::string_view host, int brackets_left) {
  while (!name.empty() && name[0] != '[') {
    if (name[0] == '.') return host.empty();
    if (host.empty() || host[0] != name[0]) return false;
    name.remove_prefix(1);
    host.remove_prefix(1);
  }
  if (name.empty()) return host.empty();
  if (brackets_left == 0) return false;
  name.remove_prefix(1);
  const std::string_view ranges = Cut(&name, ']');
  for (size_t digits = 1; digits <= std::min(host.size(), kDigitsMax) && IsDigit(host[digits - 1]); ++digits)
    if (HasNumber(ranges, host.substr(0, digits)) && IsNode(name, host.substr(digits), brackets_left - 1)) return true;
  return false;
}

// The first name of a list; a comma in brackets does not end it.
std::string_view CutNode(std::string_view* nodes) {
  size_t end = 0;
  for (bool is_inside = false; end < nodes->size() && (is_inside || (*nodes)[end] != ','); ++end) {
    if ((*nodes)[end] == '[') is_inside = true;
    if ((*nodes)[end] == ']') is_inside = false;
  }
  const std::string_view name = nodes->substr(0, end);
  nodes->remove_prefix(std::min(nodes->size(), end + 1));
  return name;
}

bool Concerns(const MaintenanceWindow& window, const RunOnHosts& run) {
  return window.nodes.empty() || std::any_of(run.hosts.begin(), run.hosts.end(),
                                             [&](const std::string& host) { return HasNode(window.nodes, host); });
}

}  // namespace

std::vector<MaintenanceWindow> ReservationsIn(std::string_view text_untrusted) {
  std::vector<MaintenanceWindow> windows;
  while (!text_untrusted.empty() && windows.size() < kWindowsMax) {
    const std::string_view line = Cut(&text_untrusted, '\n');
    const std::string_view name = ValueIn(line, "ReservationName"), nodes = ValueIn(line, "Nodes");
    const std::optional<double> begin = Seconds(ValueIn(line, "StartTime")), end = Seconds(ValueIn(line, "EndTime"));
    const bool has_nodes = !nodes.empty() && nodes != "(null)";
    if (name.empty() || !has_nodes || !begin || !end || !HasFlag(ValueIn(line, "Flags"), "MAINT")) continue;
    windows.push_back({"Slurm", base::Printable(name, kNameBytesMax), std::string(nodes), *begin, *end});
  }
  return windows;
}

std::vector<MaintenanceWindow> LabelledIn(std::string_view text_untrusted, double begin_t, double end_t) {
  const std::string name = base::Printable(base::PodValue(text_untrusted, "maintenance"), kNameBytesMax);
  if (name.empty() || name == "false" || name == "no") return {};
  return {{"Kubernetes", name, "", begin_t, end_t}};
}

bool HasNode(std::string_view nodes, std::string_view host) {
  host = host.substr(0, host.find('.'));
  while (!nodes.empty())
    if (IsNode(CutNode(&nodes), host, kBracketsMax)) return true;
  return false;
}

SilenceChanges SilencesFor(const std::vector<MaintenanceWindow>& windows, const std::vector<RunOnHosts>& runs,
                           const std::vector<Silence>& present, double t) {
  std::map<std::string, Silence> wanted;
  for (const MaintenanceWindow& window : windows) {
    if (t < window.begin_t || t >= window.end_t) continue;
    for (const RunOnHosts& run : runs) {
      if (wanted.size() >= kMaintenanceSilencesMax || !Concerns(window, run)) continue;
      Silence silence;
      silence.id = std::string(kIdPrefix) + window.name + ":" + run.run;
      silence.run = run.run;
      silence.by = window.source;
      silence.note = "maintenance " + window.name;
      silence.created_t = t;
      silence.until_t = window.end_t;
      wanted.insert_or_assign(silence.id, std::move(silence));
    }
  }
  SilenceChanges changes;
  for (const Silence& each : present) {
    if (!each.id.starts_with(kIdPrefix)) continue;
    const auto found = wanted.find(each.id);
    if (found == wanted.end()) changes.removed.push_back(each.id);
    if (found != wanted.end() && found->second.until_t == each.until_t) wanted.erase(found);
  }
  for (auto& [id, silence] : wanted) changes.set.push_back(std::move(silence));
  return changes;
}

}  // namespace stepwatch::operations
