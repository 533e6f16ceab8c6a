// Compiled with OpenMP where LibTorch is: without it at::parallel_for is a plain loop.
#include "front_ends/torch/torch_parallel_for.h"

#include <ATen/Parallel.h>

namespace stepwatch::torch_front {

void RunOnTorchThreads(int64_t count, ParallelBody body, void* context) {
  at::parallel_for(0, count, 1, [body, context](int64_t begin, int64_t end) { body(context, begin, end); });
}

}  // namespace stepwatch::torch_front
