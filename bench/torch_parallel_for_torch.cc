#include <ATen/Parallel.h>

#include "bench/torch_parallel_for.h"
#include "front_ends/torch/torch_parallel_for.h"

namespace stepwatch::bench {

const char* LentThreadsName() {
  return "at::parallel_for";
}

void RunOnTwoThreads(int64_t count, ParallelBody body, void* context) {
  if (at::get_num_threads() != 2) at::set_num_threads(2);
  torch_front::RunOnTorchThreads(count, body, context);
}

}  // namespace stepwatch::bench
