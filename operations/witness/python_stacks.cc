#include "operations/witness/python_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "src/base/text.h"
#include "src/json/members.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kNameBytesMax = 160;
constexpr size_t kFileBytesMax = 200;

ThreadStack ThreadOf(const Json& json) {
  ThreadStack thread;
  thread.id = json::Whole(json, "os_thread_id", 0);
  thread.name = json::PrintableText(json, "thread_name", kNameBytesMax);
  thread.holds_gil = json::IsTrue(json, "owns_gil");
  thread.is_main = thread.name == "MainThread" || (thread.id != 0 && thread.id == json::Whole(json, "pid", 0));
  for (const Json& frame : json::List(json, "frames")) {
    if (thread.frames.size() == kStackFramesMax) break;
    thread.frames.push_back({json::PrintableText(frame, "name", kNameBytesMax),
                             json::PrintableText(frame, "filename", kFileBytesMax), json::Whole(frame, "line", 0)});
  }
  return thread;
}

void MainFirst(std::vector<ThreadStack>* threads) {
  std::stable_partition(threads->begin(), threads->end(), [](const ThreadStack& thread) { return thread.is_main; });
}

// The number after a word: "LWP 4711", "TID 4711".
int64_t NumberBehind(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + word.size());
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// A frame from `#1  0x00007f… in c10d::Work::wait (this=…) from /lib/…` or `#0  0x00007f… clock_nanosleep`: from the
// name on.
StackFrame FrameOf(std::string_view line) {
  line.remove_prefix(std::min(line.size(), line.find_first_not_of("#0123456789 \t")));
  if (const size_t in = line.find(" in "); in != std::string_view::npos && in < 24) line.remove_prefix(in + 4);
  if (line.starts_with("x") || line.starts_with("0x")) line.remove_prefix(std::min(line.size(), line.find(' ') + 1));
  StackFrame frame;
  if (const size_t from = line.rfind(" from "); from != std::string_view::npos) {
    frame.file = base::Printable(line.substr(from + 6), kFileBytesMax);
    line = line.substr(0, from);
  }
  frame.function = base::Printable(line, kNameBytesMax);
  return frame;
}

std::string StackText(const ThreadStack& thread) {
  std::string text;
  for (const StackFrame& frame : thread.frames) {
    text += "  " + frame.function;
    if (!frame.file.empty())
      text += frame.line > 0 ? fmt::format(" ({}:{})", frame.file, frame.line) : fmt::format(" ({})", frame.file);
    text += '\n';
  }
  return text;
}

// Functions of torch.distributed that return when all ranks have come.
constexpr std::array<std::string_view, 24> kPythonOperations = {"all_reduce",
                                                                "all_reduce_coalesced",
                                                                "all_gather",
                                                                "all_gather_into_tensor",
                                                                "all_gather_object",
                                                                "broadcast",
                                                                "broadcast_object_list",
                                                                "reduce",
                                                                "reduce_scatter",
                                                                "reduce_scatter_tensor",
                                                                "all_to_all",
                                                                "all_to_all_single",
                                                                "gather",
                                                                "gather_object",
                                                                "scatter",
                                                                "scatter_object_list",
                                                                "barrier",
                                                                "monitored_barrier",
                                                                "send",
                                                                "recv",
                                                                "batch_isend_irecv",
                                                                "init_process_group",
                                                                "new_group",
                                                                "_store_based_barrier"};
constexpr std::array<std::string_view, 4> kPythonFiles = {"torch/distributed/distributed_c10d.py",
                                                          "torch/distributed/_functional_collectives.py",
                                                          "deepspeed/comm/", "horovod/"};
struct NativeName {
  std::string_view part;
  std::string_view operation;
};
// The first match is used: functions that name the operation come before those that wait for any.
constexpr std::array<NativeName, 25> kNativeNames = {{
    {"gloo::allreduce", "all_reduce"},
    {"gloo::allgather", "all_gather"},
    {"gloo::broadcast", "broadcast"},
    {"gloo::barrier", "barrier"},
    {"gloo::reduce", "reduce"},
    {"gloo::alltoall", "all_to_all"},
    {"ncclAllReduce", "all_reduce"},
    {"ncclAllGather", "all_gather"},
    {"ncclReduceScatter", "reduce_scatter"},
    {"ncclBroadcast", "broadcast"},
    {"ncclRecv", "recv"},
    {"ncclSend", "send"},
    {"MPI_Allreduce", "all_reduce"},
    {"MPI_Barrier", "barrier"},
    {"c10d::Reducer::finalize_backward", "all_reduce"},
    {"c10d::TCPStore::", "store"},
    {"c10d::FileStore::", "store"},
    {"c10d::Work::wait", "collective"},
    {"c10d::ProcessGroup", "collective"},
    {"AsyncWork::wait", "collective"},
    {"WorkNCCL::wait", "collective"},
    {"WorkNCCL::synchronize", "collective"},
    {"ncclGroupEnd", "collective"},
    {"ncclCommInitRank", "init_process_group"},
    {"gloo::", "collective"},
}};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<std::string> PythonOperation(const StackFrame& frame) {
  if (std::none_of(kPythonFiles.begin(), kPythonFiles.end(), [&](auto file) { return Contains(frame.file, file); }))
    return std::nullopt;
  // py-spy prints "Class.method" if it knows the class.
  const std::string_view function = std::string_view(frame.function).substr(frame.function.rfind('.') + 1);
  if (std::find(kPythonOperations.begin(), kPythonOperations.end(), function) == kPythonOperations.end())
    return std::nullopt;
  return std::string(function);
}

std::optional<std::string> NativeOperation(const StackFrame& frame) {
  for (const NativeName& name : kNativeNames)
    if (Contains(frame.function, name.part)) return std::string(name.operation);
  return std::nullopt;
}

bool MayTrain(const ThreadStack& thread) {
  return thread.is_main || thread.name.starts_with("pt_autograd");
}

// The outermost name is that of the called operation.
std::optional<std::string> OperationOf(const ThreadStack& thread) {
  std::optional<std::string> operation;
  for (const StackFrame& frame : thread.frames) {
    if (std::optional<std::string> found = PythonOperation(frame)) return found;
    std::optional<std::string> found = NativeOperation(frame);
    if (found && (!operation || *operation == "collective")) operation = std::move(found);
  }
  return operation;
}

}  // namespace

Result<std::vector<ThreadStack>> ParsePySpy(std::string_view json_untrusted) {
  const Result<Json> parsed = json::Parse(json_untrusted);
  if (!parsed.ok() || !parsed.value().is_array())
    return Status(StatusCode::kInvalid, "py-spy did not print a list of threads");
  std::vector<ThreadStack> threads;
  for (const Json& thread : parsed.value()) {
    if (threads.size() == kStackThreadsMax) break;
    threads.push_back(ThreadOf(thread));
  }
  MainFirst(&threads);
  return threads;
}

std::vector<ThreadStack> ParseDebugger(std::string_view text_untrusted, int64_t pid) {
  std::vector<ThreadStack> threads;
  while (!text_untrusted.empty()) {
    const size_t end = std::min(text_untrusted.find('\n'), text_untrusted.size());
    const std::string_view line = text_untrusted.substr(0, end);
    text_untrusted.remove_prefix(std::min(text_untrusted.size(), end + 1));
    if (line.starts_with("Thread ") || line.starts_with("TID ")) {
      if (threads.size() == kStackThreadsMax) break;
      ThreadStack thread;
      thread.id = line.starts_with("TID ") ? NumberBehind(line, "TID ") : NumberBehind(line, "LWP ");
      thread.is_main = thread.id == pid;
      threads.push_back(std::move(thread));
    } else if (line.starts_with('#') && !threads.empty() && threads.back().frames.size() < kStackFramesMax) {
      threads.back().frames.push_back(FrameOf(line));
    }
  }
  MainFirst(&threads);
  return threads;
}

std::string StacksText(const std::vector<ThreadStack>& threads) {
  struct Alike {
    const ThreadStack* first;
    size_t count;
    std::string stack;
  };
  std::vector<Alike> stacks;
  for (const ThreadStack& thread : threads) {
    std::string stack = StackText(thread);
    const auto same = std::find_if(stacks.begin(), stacks.end(), [&](const Alike& each) {
      return each.stack == stack && !thread.holds_gil && !each.first->holds_gil;
    });
    if (same == stacks.end())
      stacks.push_back({&thread, 1, std::move(stack)});
    else
      ++same->count;
  }
  std::string text;
  for (const Alike& each : stacks) {
    std::string part = fmt::format(
        "thread {} \"{}\"{}{}\n{}", each.first->id, each.first->name, each.first->holds_gil ? ", holds the GIL" : "",
        each.count > 1 ? fmt::format(", and {} more with this stack", each.count - 1) : "", each.stack);
    if (text.size() + part.size() > kStackTextBytesMax) {
      text += "more threads are left out\n";
      break;
    }
    text += part;
  }
  return text;
}

std::optional<std::string> CollectiveIn(const std::vector<ThreadStack>& threads) {
  for (const ThreadStack& thread : threads)
    if (MayTrain(thread))
      if (std::optional<std::string> operation = OperationOf(thread)) return operation;
  return std::nullopt;
}

}  // namespace stepwatch::operations
