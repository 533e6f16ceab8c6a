#include "operations/witness/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "src/base/file.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kMeminfoBytesMax = 64 << 10;

std::optional<double> NumberAt(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  return number;
}

constexpr size_t kCgroupBytesMax = 1 << 20;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return parts;
}

bool Holds(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Mount {
  std::string_view root;  // of the hierarchy, as far as it is mounted
  std::string_view point;
};

// `is_wanted` is called with the file system's type and its options.
template <class IsWanted>
std::optional<Mount> FindMount(std::string_view mountinfo, IsWanted is_wanted) {
  for (const std::string_view line : Split(mountinfo, '\n')) {
    const std::vector<std::string_view> words = Split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    if (is_wanted(dash[1], dash[3])) return Mount{words[3], words[4]};
  }
  return std::nullopt;
}

// The root cgroup holds the whole machine: its memory is the host's.
std::string Below(const std::optional<Mount>& mount, std::string_view path) {
  if (!mount || path.empty() || path == "/" || path.find("/..") != std::string_view::npos) return "";
  if (mount->root != "/") {
    if (!path.starts_with(mount->root)) return "";
    path.remove_prefix(mount->root.size());
  }
  return std::string(mount->point) + std::string(path);
}

}  // namespace

std::optional<double> NumberOfKey(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    if (text.starts_with(key) && text.size() > key.size() && text[key.size()] == ' ')
      return NumberAt(text.substr(key.size() + 1));
    const size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::nullopt;
}

std::optional<double> SomeAvg10(std::string_view text) {
  constexpr std::string_view kBefore = "some avg10=";
  return text.starts_with(kBefore) ? NumberAt(text.substr(kBefore.size())) : std::nullopt;
}

HostMemory ReadHostMemory(base::FileSystem& files) {
  HostMemory memory;
  if (const auto text = base::ReadFile("/proc/vmstat", kMeminfoBytesMax, files); text.ok())
    memory.oom_kill = NumberOfKey(text.value(), "oom_kill");
  if (const auto text = base::ReadFile("/proc/pressure/memory", kMeminfoBytesMax, files); text.ok())
    memory.psi = SomeAvg10(text.value());
  return memory;
}

std::string CgroupDirectoryIn(std::string_view cgroup, std::string_view mountinfo) {
  std::string unified;
  for (const std::string_view line : Split(cgroup, '\n')) {  // "0::/a/b", "4:memory:/a/b"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (Holds(Split(controllers, ','), "memory"))
      return Below(FindMount(mountinfo,
                             [](std::string_view type, std::string_view options) {
                               return type == "cgroup" && Holds(Split(options, ','), "memory");
                             }),
                   path);
    if (controllers.empty())
      unified =
          Below(FindMount(mountinfo, [](std::string_view type, std::string_view) { return type == "cgroup2"; }), path);
  }
  return unified;
}

std::string CgroupDirectory(int pid, base::FileSystem& files) {
  const auto cgroup = base::ReadFile(fmt::format("/proc/{}/cgroup", pid), kCgroupBytesMax, files);
  const auto mounts = base::ReadFile("/proc/self/mountinfo", kCgroupBytesMax, files);
  return cgroup.ok() && mounts.ok() ? CgroupDirectoryIn(cgroup.value(), mounts.value()) : "";
}

CgroupMemory ReadCgroupMemory(const std::string& directory, base::FileSystem& files) {
  constexpr double kNoLimit = 1e18;  // version 1 reports nearly 2^63
  CgroupMemory memory;
  if (directory.empty()) return memory;
  const auto text = [&](const char* name) {
    const auto read = base::ReadFile(base::JoinPath(directory, name), kCgroupBytesMax, files);
    return read.ok() ? read.value() : std::string();
  };
  const auto number = [&](const char* name) { return NumberOfKey("is " + text(name), "is"); };
  if (const std::string events = text("memory.events"); !events.empty()) {
    memory = {NumberOfKey(events, "oom_kill"), number("memory.current"), number("memory.max")};
  } else {
    memory = {NumberOfKey(text("memory.oom_control"), "oom_kill"), number("memory.usage_in_bytes"),
              number("memory.limit_in_bytes")};
  }
  if (memory.max_bytes && *memory.max_bytes > kNoLimit) memory.max_bytes.reset();
  return memory;
}

double OomCounter::Count(std::optional<double> host, const std::map<std::string, std::optional<double>>& cgroups) {
  const double of_host = host && host_ ? std::max(0.0, *host - *host_) : 0;
  double of_cgroups = 0;
  bool is_one_unread = cgroups.empty();
  for (const auto& [directory, count] : cgroups) {
    if (!count) {
      is_one_unread = true;
      continue;
    }
    const auto [last, is_new] = cgroups_.emplace(directory, *count);
    if (!is_new) of_cgroups += std::max(0.0, *count - last->second);
    last->second = *count;
  }
  std::erase_if(cgroups_, [&](const auto& each) { return cgroups.count(each.first) == 0; });
  if (host) host_ = host;
  in_cgroups_ += of_cgroups;
  total_ += is_one_unread ? std::max(of_host, of_cgroups) : of_cgroups;
  return total_;
}

}  // namespace stepwatch::operations
