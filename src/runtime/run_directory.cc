#include "src/runtime/run_directory.h"

#include <sys/random.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "src/base/file.h"
#include "src/base/sha256.h"

namespace stepwatch::runtime {
namespace {

constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// Month, day, hour, minute, second as one number that orders times within a year.
std::optional<long> TimeOfYear(const std::string& text) {
  char month[4] = {};
  int day = 0, hour = 0, minute = 0, second = 0;
  if (std::sscanf(text.c_str(), "%3[A-Za-z]%2d_%2d-%2d-%2d", month, &day, &hour, &minute, &second) != 5)
    return std::nullopt;
  for (size_t i = 0; i < kMonths.size(); ++i)
    if (std::string(kMonths[i]) == month)
      return ((((static_cast<long>(i) * 32 + day) * 24 + hour) * 60) + minute) * 61 + second;
  return std::nullopt;
}

bool InRange(long time, long from, long to) {
  return from <= to ? from <= time && time <= to : time >= from || time <= to;
}

}  // namespace

std::string RandomRunId() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    std::timespec now{};
    std::timespec_get(&now, TIME_UTC);  // only distinctness matters
    return base::Sha256Hex(std::to_string(now.tv_sec) + "." + std::to_string(now.tv_nsec)).substr(0, 32);
  }
  return base::Sha256Hex(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())).substr(0, 32);
}

std::string ShortId(const std::string& run_id) {
  const std::string head = run_id.substr(0, 8);
  bool hex = head.size() == 8;
  for (char c : head) hex = hex && std::isxdigit(static_cast<unsigned char>(c)) != 0;
  return hex ? head : base::Sha256Hex(run_id).substr(0, 8);
}

std::string RunDirectoryName(std::time_t now, int rank, const std::string& id8) {
  std::tm local{};
  localtime_r(&now, &local);
  char text[96];
  std::snprintf(text, sizeof text, "%s%02d_%02d-%02d-%02d-rank%d-%s", kMonths[static_cast<size_t>(local.tm_mon)],
                local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, rank, id8.c_str());
  return text;
}

std::optional<std::string> FindRunDirectory(const std::string& base, int rank, const std::string& from,
                                            const std::string& to) {
  const auto first = TimeOfYear(from), last = TimeOfYear(to);
  if (!first || !last) return std::nullopt;
  std::optional<std::string> best;
  std::filesystem::file_time_type best_time;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(base, error)) {
    const std::string name = entry.path().filename().string();
    const auto time = TimeOfYear(name);
    if (!time || !InRange(*time, *first, *last)) continue;
    if (name.find("-rank" + std::to_string(rank) + "-") == std::string::npos || !entry.is_directory(error)) continue;
    const auto changed = entry.last_write_time(error);
    if (best && changed <= best_time) continue;
    best = entry.path().string();
    best_time = changed;
  }
  return best;
}

std::string OutputBase(const std::string& configured) {
  if (!configured.empty()) return configured;
  const char* from_environment = std::getenv("MONITOR_OUTPUT_DIR");
  return from_environment != nullptr && *from_environment != '\0' ? from_environment : "./monitor_output";
}

}  // namespace stepwatch::runtime
