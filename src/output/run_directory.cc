#include "src/output/run_directory.h"

#include <sys/random.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "src/base/file.h"
#include "src/base/run_time.h"
#include "src/base/sha256.h"

namespace stepwatch::output {
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
  return base::RunTimeText(now) + "-rank" + std::to_string(rank) + "-" + id8;
}

std::optional<std::string> FindRunDirectory(const std::string& base, int rank, const std::string& from,
                                            const std::string& to) {
  const auto first = base::TimeOfYear(from), last = base::TimeOfYear(to);
  if (!first || !last) return std::nullopt;
  std::optional<std::string> best;
  std::filesystem::file_time_type best_time;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(base, error)) {
    const std::string name = entry.path().filename().string();
    const auto time = base::TimeOfYear(name);
    if (!time || !base::InTimeRange(*time, *first, *last)) continue;
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

}  // namespace stepwatch::output
