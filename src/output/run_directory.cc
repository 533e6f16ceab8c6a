#include "src/output/run_directory.h"

#include <sys/random.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <tuple>

#include "src/base/file.h"
#include "src/base/run_time.h"
#include "src/base/sha256.h"

namespace stepwatch::output {

std::string RandomRunId() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    std::timespec now{};
    std::timespec_get(&now, TIME_UTC);  // only needs to be distinct
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
                                            const std::string& to, base::FileSystem& files) {
  const auto first = base::TimeOfYear(from), last = base::TimeOfYear(to);
  if (!first || !last) return std::nullopt;
  std::optional<std::string> best;
  std::pair<time_t, long> best_time;
  const Result<std::vector<std::string>> names = base::ListDirectory(base, files);
  if (!names.ok()) return std::nullopt;
  for (const std::string& name : names.value()) {
    const auto time = base::TimeOfYear(name);
    if (!time || !base::InTimeRange(*time, *first, *last)) continue;
    if (name.find("-rank" + std::to_string(rank) + "-") == std::string::npos) continue;
    const std::string path = base::JoinPath(base, name);
    struct stat about = {};
    if (files.Stat(path.c_str(), &about) != 0 || !S_ISDIR(about.st_mode)) continue;
    const std::pair<time_t, long> changed(about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
    if (best && changed <= best_time) continue;
    best = path;
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
