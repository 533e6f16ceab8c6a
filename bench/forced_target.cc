// Runs the benchmark in a child process that STEPWATCH_CPU_TARGET restricts to one instruction set: a process chooses
// its instruction set only once.

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/sections.h"

namespace stepwatch::bench {
namespace {

constexpr const char* kVariable = "STEPWATCH_CPU_TARGET";

// A file that is removed with this object.
class TemporaryFile {
 public:
  TemporaryFile() {
    const int descriptor = ::mkstemp(path_);
    if (descriptor >= 0) ::close(descriptor);
  }
  ~TemporaryFile() { ::unlink(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/stepwatch-bench-XXXXXX";
};

// Runs this program with `arguments` and the variable set, and discards its table; true on success.
bool RunChild(const char* target, std::vector<std::string> arguments) {
  const char* given = std::getenv(kVariable);
  const std::optional<std::string> before = given == nullptr ? std::nullopt : std::make_optional<std::string>(given);
  ::setenv(kVariable, target, 1);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const bool started = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ) == 0;
  ::posix_spawn_file_actions_destroy(&actions);
  before ? ::setenv(kVariable, before->c_str(), 1) : ::unsetenv(kVariable);
  int status = 0;
  return started && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

void MeasureForcedAvx2(const Settings& settings, Report* report) {
  constexpr const char* kName = "fp32_dram_avx2_over_read";
  report->Section(std::to_string(settings.dram_mb) + " MB, cold, " + kVariable + "=avx2 in a process of its own");
  const TemporaryFile file;
  const bool ran = RunChild(
      "avx2", {"stats_bench", "--only", "dram", "--dtypes", "fp32", "--rounds", std::to_string(settings.rounds),
               "--dram-mb", std::to_string(settings.dram_mb), "--json", file.path()});
  const auto found = nlohmann::json::parse(std::ifstream(file.path()), nullptr, /*allow_exceptions=*/false);
  if (!ran || !found.is_object()) return report->LeftOut(kName, "the child process failed");
  const std::string path = found["facts"]["cpu_target"];
  if (path != "avx2") return report->LeftOut(kName, "the child process used " + path);
  for (const auto& ratio : found["ratios"]) {
    if (ratio["name"] != "fp32_dram_over_read") continue;
    report->Ratio(kName, {ratio["ratio"], ratio["spread"][0], ratio["spread"][1]}, Style::kPercent, AtLeast(0.85));
  }
}

}  // namespace stepwatch::bench
