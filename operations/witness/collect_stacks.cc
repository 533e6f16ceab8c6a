#include "operations/witness/collect_stacks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "operations/witness/python_stacks.h"
#include "operations/witness/run_program.h"
#include "operations/witness/threads.h"
#include "src/base/file.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kSmallBytesMax = 4096;

std::string LinkAt(const std::string& path, base::FileSystem& files) {
  std::array<char, 4096> text{};
  const ssize_t size = files.ReadLink(path.c_str(), text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<size_t>(size)) : "";
}

bool CanRun(const std::string& path, base::FileSystem& files) {
  struct stat about {};
  return files.Stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && files.Access(path.c_str(), X_OK) == 0;
}

std::string InPath(std::string_view name, base::FileSystem& files) {
  const char* set = std::getenv("PATH");
  std::string_view rest = set == nullptr ? "/usr/bin:/bin" : set;
  while (!rest.empty()) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), directory.size() + 1));
    if (directory.empty() || directory.front() != '/') continue;
    if (std::string path = base::JoinPath(directory, name); CanRun(path, files)) return path;
  }
  return "";
}

// The directory of the interpreter as invoked: that of a virtual environment, not of its target.
std::string InterpreterDirectory(int pid, base::FileSystem& files) {
  const auto command = base::ReadFile(fmt::format("/proc/{}/cmdline", pid), size_t{1} << 20, files);
  if (!command.ok()) return "";
  const std::string program = command.value().substr(0, command.value().find('\0'));
  if (program.find('/') == std::string::npos) return "";
  if (program.front() == '/') return base::DirectoryOf(program);
  return base::JoinPath(LinkAt(fmt::format("/proc/{}/cwd", pid), files), base::DirectoryOf(program));
}

std::optional<uid_t> OwnerOf(int pid, base::FileSystem& files) {
  struct stat about {};
  if (files.Stat(fmt::format("/proc/{}", pid).c_str(), &about) != 0) return std::nullopt;
  return about.st_uid;
}

// A program beside another user's interpreter is not run.
std::string FindPySpy(int pid, const StackTools& tools, base::FileSystem& files) {
  if (!tools.py_spy.empty()) return CanRun(tools.py_spy, files) ? tools.py_spy : "";
  if (OwnerOf(pid, files) == ::geteuid())
    if (const std::string directory = InterpreterDirectory(pid, files); !directory.empty())
      if (std::string path = base::JoinPath(directory, "py-spy"); CanRun(path, files)) return path;
  if (std::string own = base::JoinPath(base::DirectoryOf(LinkAt("/proc/self/exe", files)), "py-spy");
      CanRun(own, files))
    return own;
  return InPath("py-spy", files);
}

std::string FindDebugger(const StackTools& tools, base::FileSystem& files) {
  if (!tools.debugger.empty()) return CanRun(tools.debugger, files) ? tools.debugger : "";
  std::string path = InPath("eu-stack", files);
  return path.empty() ? InPath("gdb", files) : path;
}

bool MayPause(const ProcessRef& process, Pause pause, const StackTools& tools, base::FileSystem& files) {
  const std::optional<char> state = StateOf(process, files);
  // A stopped or traced process must stay as it is for the program that stopped it.
  if (!tools.native || pause == Pause::kNever || !state || *state == 'T' || *state == 't' || *state == 'Z')
    return false;
  return pause == Pause::kYes || *state == 'S';
}

bool IsRefusal(std::string_view text) {
  constexpr std::array<std::string_view, 5> kSaid = {"ermission denied", "ermission Denied", "not permitted", "EPERM",
                                                     "EACCES"};
  return std::any_of(kSaid.begin(), kSaid.end(),
                     [&](std::string_view each) { return text.find(each) != std::string_view::npos; });
}

class Collector {
 public:
  Collector(const ProcessRef& process, const StackTools& tools, base::FileSystem& files)
      : process_(process), tools_(tools), files_(files), pid_(std::to_string(process.pid)) {}

  StackReport Collect(Pause pause) {
    const bool is_python = LookWithPySpy(pause);
    if (threads_.empty() && !is_python) LookWithDebugger(pause);
    report_.was_seen = !threads_.empty();
    report_.collective = CollectiveIn(threads_);
    report_.text = StacksText(threads_);
    const std::string waits = ThreadsText(LookAtThreads(process_.pid, files_));
    if (!waits.empty()) report_.text += "in the kernel:\n" + base::ValidUtf8(waits.substr(0, kWaitsBytesMax));
    return std::move(report_);
  }

 private:
  static constexpr size_t kWaitsBytesMax = 6 << 10;

  // False: the process has no Python.
  bool LookWithPySpy(Pause pause) {
    const std::string py_spy = FindPySpy(process_.pid, tools_, files_);
    if (py_spy.empty()) {
      report_.refusals.push_back(
          tools_.py_spy.empty() ? "py-spy is not installed, so Python stacks are missing: pip install py-spy"
                                : base::Printable(tools_.py_spy, 200) + " cannot be run, so Python stacks are missing");
      return false;
    }
    if (!RunPySpy({py_spy, "dump", "--json", "--nonblocking", "--pid", pid_})) return is_python_;
    if (MayPause(process_, pause, tools_, files_))
      (void)RunPySpy({py_spy, "dump", "--json", "--native", "--pid", pid_});
    return true;
  }

  bool RunPySpy(const std::vector<std::string>& arguments) {
    if (!StateOf(process_, files_)) return Refuse("the process is gone");
    const auto ran = RunProgram(arguments, {.time = tools_.time_max, .stop_fd = tools_.stop_fd});
    if (!ran.ok()) return Refuse(ran.status().message());
    const ProgramOutput& output = ran.value();
    if (output.timed_out) return Refuse("py-spy took too long and was ended");
    if (output.exit_code == 0) {
      auto parsed = ParsePySpy(output.out);
      if (!parsed.ok()) return Refuse(parsed.status().message());
      threads_ = std::move(parsed).value();
      return true;
    }
    is_python_ = output.err.find("Failed to find python") == std::string::npos;
    if (!is_python_) return false;
    return Refuse(IsRefusal(output.err)
                      ? WhyRefused(process_, files_)
                      : "py-spy: " + base::Printable(output.err.substr(0, output.err.find('\n')), 300));
  }

  // Takes seconds for a large program, so only where stacks are needed.
  void LookWithDebugger(Pause pause) {
    if (pause != Pause::kYes || !MayPause(process_, pause, tools_, files_)) return;
    const std::string debugger = FindDebugger(tools_, files_);
    if (debugger.empty()) {
      report_.refusals.emplace_back("neither eu-stack nor gdb is installed, so native stacks are missing");
      return;
    }
    // Files of the program itself are not executed: no scripts, no symbols from the network.
    const std::vector<std::string> arguments = base::BaseName(debugger) == "gdb"
                                                   ? std::vector<std::string>{debugger,
                                                                              "-nx",
                                                                              "-batch",
                                                                              "-iex",
                                                                              "set auto-load off",
                                                                              "-iex",
                                                                              "set debuginfod enabled off",
                                                                              "-p",
                                                                              pid_,
                                                                              "-ex",
                                                                              "thread apply all bt 64"}
                                                   : std::vector<std::string>{debugger, "-n", "64", "-p", pid_};
    if (!StateOf(process_, files_)) return (void)Refuse("the process is gone");
    const auto ran = RunProgram(arguments, {.time = tools_.time_max, .stop_fd = tools_.stop_fd});
    if (!ran.ok()) return (void)Refuse(ran.status().message());
    threads_ = ParseDebugger(ran.value().out, process_.pid);
    if (!threads_.empty()) return;
    if (ran.value().timed_out) return (void)Refuse(base::BaseName(debugger) + " took too long and was ended");
    (void)Refuse(IsRefusal(ran.value().err) || IsRefusal(ran.value().out)
                     ? WhyRefused(process_, files_)
                     : base::BaseName(debugger) + " found no stack");
  }

  bool Refuse(std::string why) {
    report_.refusals.push_back(std::move(why));
    return false;
  }

  const ProcessRef process_;
  const StackTools& tools_;
  base::FileSystem& files_;
  const std::string pid_;
  bool is_python_ = true;
  std::vector<ThreadStack> threads_;
  StackReport report_;
};

}  // namespace

StackReport CollectStacks(const ProcessRef& process, Pause pause, const StackTools& tools, base::FileSystem& files) {
  return Collector(process, tools, files).Collect(pause);
}

std::string WhyRefused(const ProcessRef& process, base::FileSystem& files) {
  const std::optional<uid_t> owner = OwnerOf(process.pid, files);
  if (owner && *owner != ::geteuid())
    return fmt::format(
        "the process belongs to uid {} and stepwatchd runs as uid {}: run stepwatchd as that user, or with "
        "CAP_SYS_PTRACE, to get stacks",
        *owner, ::geteuid());
  const auto yama = base::ReadFile("/proc/sys/kernel/yama/ptrace_scope", kSmallBytesMax, files);
  if (yama.ok() && yama.value()[0] >= '1' && yama.value()[0] <= '3')
    return fmt::format(
        "kernel.yama.ptrace_scope is {}, so only the parent of a process may inspect it: run stepwatchd with "
        "CAP_SYS_PTRACE, or set it to 0, to get stacks",
        yama.value()[0]);
  return "the kernel does not permit inspection of the process, such as in a container without CAP_SYS_PTRACE, or of a "
         "program that is set-uid or not dumpable: run stepwatchd with CAP_SYS_PTRACE to get stacks";
}

}  // namespace stepwatch::operations
