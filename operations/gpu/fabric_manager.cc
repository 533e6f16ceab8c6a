#include "operations/gpu/fabric_manager.h"

#include <algorithm>
#include <iterator>

#include "operations/witness/run_program.h"
#include "src/base/file.h"

namespace stepwatch::operations {

std::optional<bool> IsFabricManagerActive(int stop_fd, base::FileSystem& files, const std::string& systemctl) {
  constexpr const char* kDirectories[] = {"/etc/systemd/system/", "/run/systemd/system/", "/usr/lib/systemd/system/",
                                          "/lib/systemd/system/"};
  constexpr const char* kUnit = "nvidia-fabricmanager.service";
  if (!base::IsDirectory("/run/systemd/system", files)) return std::nullopt;
  const bool has_unit = std::any_of(std::begin(kDirectories), std::end(kDirectories), [&](const char* directory) {
    return base::Exists(std::string(directory) + kUnit, files);
  });
  if (!has_unit) return std::nullopt;
  ProgramLimits limits;
  limits.time = std::chrono::milliseconds(3000);
  limits.bytes_max = 4096;
  limits.stop_fd = stop_fd;
  const Result<ProgramOutput> output = RunProgram({systemctl, "is-active", kUnit}, limits);
  if (!output.ok() || output.value().timed_out) return std::nullopt;
  const std::string state = output.value().out.substr(0, output.value().out.find('\n'));
  if (state.empty() || state == "unknown") return std::nullopt;
  return state == "active";
}

}  // namespace stepwatch::operations
