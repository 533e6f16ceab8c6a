#include "src/base/process_identity.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

#include "src/base/file.h"

namespace stepwatch::base {
namespace {

constexpr size_t kProcBytesMax = 4096;

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string BootId(FileSystem& files) {
  const Result<std::string> text = ReadFile("/proc/sys/kernel/random/boot_id", kProcBytesMax, files);
  return text.ok() ? text.value().substr(0, text.value().find('\n')) : "";
}

std::string PidNamespace(FileSystem& files) {
  std::array<char, 64> text{};
  const ssize_t size = files.ReadLink("/proc/self/ns/pid", text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<size_t>(size)) : "";
}

}  // namespace

std::optional<ProcessStat> StatOf(int pid, FileSystem& files) {
  constexpr size_t kState = 1;        // after the name: a blank, and the letter
  constexpr int kFieldsBetween = 20;  // the start time is field 22, the name in brackets field 2
  const Result<std::string> text = ReadFile("/proc/" + std::to_string(pid) + "/stat", kProcBytesMax, files);
  if (!text.ok()) return std::nullopt;
  std::string_view rest = text.value();
  const size_t name_end = rest.rfind(')');  // a name may contain brackets and blanks
  if (name_end == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(name_end + 1);
  ProcessStat stat;
  if (rest.size() > kState) stat.state = rest[kState];
  for (int field = 0; field < kFieldsBetween; ++field) {
    const size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(blank + 1);
  }
  std::from_chars(rest.data(), rest.data() + rest.size(), stat.started);
  return stat;
}

ProcessIdentity ThisProcess(FileSystem& files) {
  const int pid = static_cast<int>(::getpid());
  return {HostName(), BootId(files), PidNamespace(files), pid, StatOf(pid, files).value_or(ProcessStat()).started};
}

std::optional<bool> IsRunning(const ProcessIdentity& process, FileSystem& files) {
  const ProcessIdentity own = ThisProcess(files);
  const bool is_here = !own.boot_id.empty() && !own.pid_namespace.empty() && own.started != 0 &&
                       process.host == own.host && process.boot_id == own.boot_id &&
                       process.pid_namespace == own.pid_namespace;
  if (!is_here || process.pid <= 0 || process.started == 0) return std::nullopt;
  const std::optional<ProcessStat> found = StatOf(process.pid, files);
  return found && found->started == process.started;
}

}  // namespace stepwatch::base
