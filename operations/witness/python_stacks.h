// Parsers of stacks of threads, as py-spy and debuggers print them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::operations {

struct StackFrame {
  std::string function;
  std::string file;  // or the library
  int64_t line = 0;  // 0: not known
};

struct ThreadStack {
  int64_t id = 0;  // of the operating system
  std::string name;
  bool is_main = false;
  bool holds_gil = false;
  std::vector<StackFrame> frames;  // innermost first
};

inline constexpr size_t kStackThreadsMax = 256;
inline constexpr size_t kStackFramesMax = 64;
inline constexpr size_t kStackTextBytesMax = 24 << 10;

// Parses `py-spy dump --json`; the main thread first. Threads and frames beyond the limits are left out.
Result<std::vector<ThreadStack>> ParsePySpy(std::string_view json_untrusted);
// Parses gdb's `thread apply all bt` and the output of eu-stack; the main thread, whose id is the pid, first.
std::vector<ThreadStack> ParseDebugger(std::string_view text_untrusted, int64_t pid);

// For people, the main thread first, threads with equal stacks once; at most kStackTextBytesMax bytes.
std::string StacksText(const std::vector<ThreadStack>& threads);

// The operation, such as "all_reduce", in which the main thread, or one of autograd, waits for its peers: by the
// functions of torch.distributed, c10d, gloo, NCCL and MPI in its stack; "collective" if no name identifies it. Empty:
// no operation; with a stack without native frames it may still wait in the backward pass.
std::optional<std::string> CollectiveIn(const std::vector<ThreadStack>& threads);

}  // namespace stepwatch::operations
