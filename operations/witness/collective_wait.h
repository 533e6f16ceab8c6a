// Whether a stack waits for other ranks. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operations/witness/python_stacks.h"

namespace stepwatch::operations {

// The operation, "all_reduce", in which the main thread, or one of autograd, waits for its peers: by the functions of
// torch.distributed, c10d, gloo, NCCL and MPI in its stack; "collective" if no name says which. Nothing: in none. Of a
// stack without native frames nothing may also mean that it waits in the backward pass.
std::optional<std::string> CollectiveIn(const std::vector<ThreadStack>& threads);

}  // namespace stepwatch::operations
