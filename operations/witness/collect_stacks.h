// The stacks of another process's threads, by any tool that is available.
//
// A look must not harm a training process. py-spy first reads its memory while it runs on (--nonblocking), which never
// holds it up and also works while it is stopped. Native frames need a moment in which its threads stand still (some 10
// ms with ptrace), so they are collected only as `Pause` allows; a tool that takes too long is ended, and the kernel
// then continues the threads. If no tool has access, /proc still shows the state of each thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operations/witness/process_ref.h"
#include "operations/witness/python_stacks.h"

namespace stepwatch::operations {

enum class Pause : uint8_t {
  kNever,
  kIfAsleep,  // only while its main thread waits for something: no progress is delayed
  kYes,       // it stands still, and the reason is needed
};

struct StackTools {
  // Empty: beside the process's interpreter if it is this user's own, beside this program, or in PATH.
  std::string py_spy;
  std::string debugger;                       // gdb or eu-stack; empty: in PATH
  bool native = true;                         // false: no process is ever paused
  std::chrono::milliseconds time_max{15000};  // of each tool
  int stop_fd = -1;                           // becomes readable: a running tool is ended at once
};

struct StackReport {
  std::string text;                         // for people: stacks, then the place where each thread waits
  std::vector<std::string> refusals;        // missing results, and the remedy
  bool was_seen = false;                    // a stack was collected: `collective` is valid
  std::optional<std::string> collective{};  // see CollectiveIn
};

// Blocks for at most a few times `time_max`.
StackReport CollectStacks(const ProcessRef& process, Pause pause, const StackTools& tools,
                          base::FileSystem& files = base::FileSystem::Real());

// Why the kernel forbids access to that process, and the remedy, in one sentence.
std::string WhyRefused(const ProcessRef& process, base::FileSystem& files);

}  // namespace stepwatch::operations
