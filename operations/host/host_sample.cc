#include "operations/host/host_sample.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <charconv>

#include "operations/witness/memory.h"
#include "src/base/file.h"

namespace stepwatch::operations {

std::optional<DiskSpace> DiskSpaceOf(const std::string& path) {
  struct statvfs about {};
  if (::statvfs(path.c_str(), &about) != 0) return std::nullopt;
  const auto unit = static_cast<double>(about.f_frsize);
  return DiskSpace{static_cast<double>(about.f_bavail) * unit, static_cast<double>(about.f_blocks) * unit};
}

std::optional<double> PressureIn(std::string_view text, std::string_view kind) {
  constexpr std::string_view kKey = " avg10=";
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (!line.starts_with(kind) || !line.substr(kind.size()).starts_with(kKey)) continue;
    line.remove_prefix(kind.size() + kKey.size());
    double percent = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), percent);
    if (error != std::errc() || !(percent >= 0 && percent <= 100)) return std::nullopt;
    return percent / 100;
  }
  return std::nullopt;
}

HostSample ReadHost(base::FileSystem& files) {
  constexpr size_t kBytesMax = 4096;
  HostSample sample;
  for (const char* resource : {"cpu", "memory", "io"}) {
    const Result<std::string> text = base::ReadFile(fmt::format("/proc/pressure/{}", resource), kBytesMax, files);
    if (!text.ok()) continue;
    for (const char* kind : {"some", "full"})
      if (const std::optional<double> share = PressureIn(text.value(), kind))
        sample.pressure[{resource, kind}] = *share;
  }
  sample.oom_kills = ReadHostMemory(files).oom_kill;
  return sample;
}

}  // namespace stepwatch::operations
