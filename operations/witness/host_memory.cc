#include "operations/witness/host_memory.h"

#include <charconv>
#include <cmath>

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

}  // namespace stepwatch::operations
