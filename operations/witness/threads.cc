#include "operations/witness/threads.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "src/base/file.h"
#include "src/base/process_identity.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kThreadFileBytesMax = 8192;
constexpr size_t kFramesMax = 16;

// In which threads of training wait.
constexpr std::pair<long, std::string_view> kSystemCalls[] = {
    {SYS_futex, "futex"},
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_openat, "openat"},
    {SYS_ioctl, "ioctl"},
    {SYS_fsync, "fsync"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect6"},
    {SYS_epoll_pwait, "epoll_pwait"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
#endif
};

std::string_view FirstLine(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

std::string Line(const std::string& path, base::FileSystem& files) {
  const Result<std::string> text = base::ReadFile(path, kThreadFileBytesMax, files);
  return text.ok() ? base::Printable(FirstLine(text.value()), 100) : "";
}

// The system call in "202 0x7f… …"; "running" or "-1 …" has no system call.
std::string SystemCallOf(std::string_view text) {
  long number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return "";
  for (const auto& [known, name] : kSystemCalls)
    if (known == number) return std::string(name);
  return fmt::format("system call {}", number);
}

// Functions in lines such as "[<0>] futex_wait_queue+0x63/0x90".
std::vector<std::string> KernelFrames(std::string_view text) {
  std::vector<std::string> frames;
  while (!text.empty() && frames.size() < kFramesMax) {
    std::string_view line = FirstLine(text);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (const size_t blank = line.find(' '); blank != std::string_view::npos) line.remove_prefix(blank + 1);
    line = line.substr(0, line.find('+'));
    if (!line.empty()) frames.push_back(base::Printable(line, 100));
  }
  return frames;
}

ThreadLook LookAt(const std::string& directory, int id, base::FileSystem& files) {
  ThreadLook thread;
  thread.id = id;
  thread.name = Line(directory + "comm", files);
  if (const auto text = base::ReadFile(directory + "stat", kThreadFileBytesMax, files); text.ok()) {
    const size_t name_end = text.value().rfind(')');
    if (name_end != std::string::npos && name_end + 2 < text.value().size()) thread.state = text.value()[name_end + 2];
  }
  thread.system_call = SystemCallOf(Line(directory + "syscall", files));
  thread.waits_in = Line(directory + "wchan", files);
  if (thread.waits_in == "0") thread.waits_in.clear();
  if (const auto text = base::ReadFile(directory + "stack", kThreadFileBytesMax, files); text.ok())
    thread.kernel_stack = KernelFrames(text.value());
  return thread;
}

std::string WhatItDoes(const ThreadLook& thread) {
  std::string text = fmt::format("state {}", thread.state);
  if (!thread.system_call.empty()) text += ", in " + thread.system_call;
  if (!thread.waits_in.empty()) text += ", waits in " + thread.waits_in;
  if (!thread.kernel_stack.empty()) text += fmt::format(", kernel: {}", fmt::join(thread.kernel_stack, " < "));
  return text;
}

}  // namespace

std::vector<ThreadLook> LookAtThreads(int pid, base::FileSystem& files) {
  const std::string tasks = fmt::format("/proc/{}/task/", pid);
  const Result<std::vector<std::string>> listed = base::ListDirectory(tasks, files);
  std::vector<ThreadLook> threads;
  if (!listed.ok()) return threads;
  std::vector<int> ids;
  for (const std::string& name : listed.value()) {
    int id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ec == std::errc()) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end(), [pid](int a, int b) { return std::pair(a != pid, a) < std::pair(b != pid, b); });
  for (const int id : ids) {
    if (threads.size() == kThreadsMax) break;
    threads.push_back(LookAt(tasks + std::to_string(id) + "/", id, files));
  }
  return threads;
}

std::string ThreadsText(const std::vector<ThreadLook>& threads) {
  std::vector<std::pair<std::string, std::vector<int>>> alike;
  for (const ThreadLook& thread : threads) {
    const std::string text = fmt::format("\"{}\": {}", thread.name, WhatItDoes(thread));
    const auto same = std::find_if(alike.begin(), alike.end(), [&](const auto& each) { return each.first == text; });
    if (same == alike.end())
      alike.push_back({text, {thread.id}});
    else
      same->second.push_back(thread.id);
  }
  std::string text;
  for (const auto& [what, ids] : alike)
    text += ids.size() == 1 ? fmt::format("thread {} {}\n", ids[0], what)
                            : fmt::format("{} threads, the first {}, {}\n", ids.size(), ids[0], what);
  return text;
}

}  // namespace stepwatch::operations
