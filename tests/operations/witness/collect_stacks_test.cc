// With the real py-spy where it is installed (requirements.txt), and with tools made of shell where it is not needed.
#include "operations/witness/collect_stacks.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "tests/catch.h"
#include "tests/operations/child.h"
#include "tests/operations/fake_proc.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

using testing::Child;
using testing::TemporaryDirectory;

std::string Tool(const TemporaryDirectory& directory, const std::string& name, const std::string& script) {
  const std::string path = directory / name;
  testing::WriteInPlace(path, "#!/bin/sh\n" + script);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

bool Mentions(const std::vector<std::string>& sentences, const std::string& part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& each) { return each.find(part) != std::string::npos; });
}

TEST_CASE("a process is looked into while it runs, and paused only if it may be") {
  const Child child;
  REQUIRE(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'S'; }));
  const TemporaryDirectory directory;
  StackTools tools;
  tools.py_spy = Tool(directory, "py-spy",
                      "echo \"$@\" >>" + directory / "calls" +
                          "\necho '[{\"thread_name\": \"MainThread\", \"os_thread_id\": 1, \"frames\": []}]'\n");
  const std::string pid = std::to_string(child.pid());
  const std::string running = "dump --json --nonblocking --pid " + pid + "\n";
  const std::string pausing = "dump --json --native --pid " + pid + "\n";
  const auto calls = [&](Pause pause) {
    std::filesystem::remove(directory / "calls");
    CHECK(CollectStacks(child.ref(), pause, tools).was_seen);
    return testing::Contents(directory / "calls");
  };
  CHECK(calls(Pause::kNever) == running);
  CHECK(calls(Pause::kIfAsleep) == running + pausing);
  CHECK(calls(Pause::kYes) == running + pausing);
  tools.native = false;
  CHECK(calls(Pause::kYes) == running);
  tools.native = true;
  child.Send(SIGSTOP);
  REQUIRE(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'T'; }));
  CHECK(calls(Pause::kYes) == running);
}

TEST_CASE("a process that computes is not paused for a mere suspicion") {
  const Child child([] {
    for (std::atomic<int> i = 0;;) ++i;
  });
  REQUIRE(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'R'; }));
  const TemporaryDirectory directory;
  StackTools tools;
  tools.py_spy = Tool(directory, "py-spy", "echo \"$@\" >>" + directory / "calls" + "\necho '[]'\n");
  (void)CollectStacks(child.ref(), Pause::kIfAsleep, tools);
  CHECK(testing::Contents(directory / "calls").find("--native") == std::string::npos);
}

TEST_CASE("the reason why no tool may look is reported with its remedy, and /proc is still read") {
  const Child child;
  const TemporaryDirectory directory;
  StackTools tools;
  tools.py_spy = Tool(directory, "py-spy", "echo 'Error: Permission Denied: Try running again as root' >&2; exit 1\n");
  const StackReport report = CollectStacks(child.ref(), Pause::kYes, tools);
  CHECK_FALSE(report.was_seen);
  CHECK(Mentions(report.refusals, "CAP_SYS_PTRACE"));
  CHECK(report.text.find("thread " + std::to_string(child.pid())) != std::string::npos);
}

TEST_CASE("a refusal names yama, or the other user, where these are the reason") {
  const Child child;
  testing::FakeProc files;
  CHECK(WhyRefused(child.ref(), files).find("in a container without CAP_SYS_PTRACE") != std::string::npos);
  files.Set("/proc/sys/kernel/yama/ptrace_scope", "1\n");
  CHECK(WhyRefused(child.ref(), files).starts_with("kernel.yama.ptrace_scope is 1"));
}

TEST_CASE("a tool that hangs, prints nonsense or is missing is a sentence, and nothing else") {
  const Child child;
  const TemporaryDirectory directory;
  StackTools tools;
  tools.time_max = std::chrono::milliseconds(100);
  tools.py_spy = Tool(directory, "hangs", "exec sleep 1000\n");
  CHECK(Mentions(CollectStacks(child.ref(), Pause::kNever, tools).refusals, "took too long"));
  tools.time_max = std::chrono::minutes(1);
  tools.py_spy = Tool(directory, "nonsense", "echo hello\n");
  CHECK(Mentions(CollectStacks(child.ref(), Pause::kNever, tools).refusals, "did not print a list"));
  tools.py_spy = directory / "missing";
  CHECK(Mentions(CollectStacks(child.ref(), Pause::kNever, tools).refusals, "cannot be run"));
}

TEST_CASE("a program without Python is shown by a debugger, and only when that may pause it") {
  const Child child;
  const TemporaryDirectory directory;
  StackTools tools;
  tools.py_spy =
      Tool(directory, "py-spy", "echo 'Error: Failed to find python version from target process' >&2; exit 1\n");
  tools.debugger =
      Tool(directory, "gdb",
           "echo 'Thread 1 (LWP '\"$8\"' \"train\"):'\necho '#0  0x1 in gloo::barrier () from /lib/x.so'\n");
  REQUIRE(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'S'; }));
  const StackReport report = CollectStacks(child.ref(), Pause::kYes, tools);
  CHECK(report.collective == "barrier");
  CHECK(report.refusals.empty());
  CHECK_FALSE(CollectStacks(child.ref(), Pause::kIfAsleep, tools).was_seen);
}

void Skip(const std::string& why) {
  const char* all = std::getenv("STEPWATCH_REQUIRE_ALL");
  if (all != nullptr && *all != '\0' && std::string(all) != "0") FAIL(why + ", and STEPWATCH_REQUIRE_ALL is set");
  WARN(why);
}

// The interpreter of the checkout, or the system's.
std::string Python() {
  const std::string own = STEPWATCH_SOURCE_DIR "/.venv/bin/python";
  return ::access(own.c_str(), X_OK) == 0 ? own : "/usr/bin/python3";
}

TEST_CASE("the real py-spy shows where a Python process stands, also while it is stopped, and leaves it so") {
  const std::string python = Python();
  const Child child([&] {
    ::execl(python.c_str(), python.c_str(), "-c",
            "import time\ndef standing_here():\n    time.sleep(1000)\nstanding_here()\n", nullptr);
  });
  const auto stands_there = [&](const StackReport& report) {
    return report.was_seen && report.text.find("standing_here") != std::string::npos;
  };
  StackTools tools;
  // The interpreter of a virtual environment is a link to one elsewhere.
  const std::string own = STEPWATCH_SOURCE_DIR "/.venv/bin/py-spy";
  if (::access(own.c_str(), X_OK) == 0) tools.py_spy = own;
  StackReport report;
  const bool is_seen = testing::Eventually([&] {
    report = CollectStacks(child.ref(), Pause::kNever, tools);
    return stands_there(report) || Mentions(report.refusals, "py-spy is not installed") ||
           Mentions(report.refusals, "CAP_SYS_PTRACE");
  });
  REQUIRE(is_seen);
  if (!report.was_seen) return Skip(report.refusals.front());
  CHECK_FALSE(report.collective);
  child.Send(SIGSTOP);
  REQUIRE(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'T'; }));
  CHECK(stands_there(CollectStacks(child.ref(), Pause::kYes, tools)));
  CHECK(StateOf(child.ref(), base::FileSystem::Real()) == 'T');
  child.Send(SIGCONT);
  CHECK(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'S'; }));
  const StackReport native = CollectStacks(child.ref(), Pause::kYes, tools);
  CHECK(stands_there(native));
  CHECK(testing::Eventually([&] { return StateOf(child.ref(), base::FileSystem::Real()) == 'S'; }));
}

TEST_CASE("a process that is gone, or whose pid was used again, is not looked into") {
  const Child child;
  const TemporaryDirectory directory;
  StackTools tools;
  tools.py_spy = Tool(directory, "py-spy", "touch " + directory / "called" + "\n");
  const StackReport report = CollectStacks({child.pid(), child.ref().started + 1}, Pause::kYes, tools);
  CHECK(Mentions(report.refusals, "the process is gone"));
  CHECK_FALSE(std::filesystem::exists(directory / "called"));
}

}  // namespace
}  // namespace stepwatch::operations
