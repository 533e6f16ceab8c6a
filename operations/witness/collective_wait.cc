#include "operations/witness/collective_wait.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace stepwatch::operations {
namespace {

// Functions of torch.distributed that return when all have come.
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
// The first that a function holds: those that name the operation, then those that wait for any.
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
  // py-spy says "Class.method" where it knows the class.
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

// The outermost name says best what was called.
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

std::optional<std::string> CollectiveIn(const std::vector<ThreadStack>& threads) {
  for (const ThreadStack& thread : threads)
    if (MayTrain(thread))
      if (std::optional<std::string> operation = OperationOf(thread)) return operation;
  return std::nullopt;
}

}  // namespace stepwatch::operations
