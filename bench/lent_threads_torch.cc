#include <ATen/Parallel.h>

#include "bench/lent_threads.h"
#include "src/torch/lent_threads.h"

namespace stepwatch::bench {

const char* LentThreadsName() {
  return "at::parallel_for";
}

void RunOnTwoThreads(int64_t count, ParallelBody body, void* context) {
  if (at::get_num_threads() != 2) at::set_num_threads(2);
  torch_front::RunOnTorchThreads(count, body, context);
}

}  // namespace stepwatch::bench
