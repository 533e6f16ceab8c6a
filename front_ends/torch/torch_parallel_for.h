// LibTorch's threads, lent to the monitor.
#pragma once

#include "stepwatch/parallel_for.h"

namespace stepwatch::torch_front {

// at::parallel_for: inside a parallel region of the caller, and with one thread, everything runs on the caller.
void RunOnTorchThreads(int64_t count, ParallelBody body, void* context);

}  // namespace stepwatch::torch_front
