#include <omp.h>

#include "bench/torch_parallel_for.h"

namespace stepwatch::bench {

const char* LentThreadsName() {
  return "OpenMP";
}

void RunOnTwoThreads(int64_t count, ParallelBody body, void* context) {
#pragma omp parallel num_threads(2)
  {
    const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;
    if (begin < end) body(context, begin, end);
  }
}

}  // namespace stepwatch::bench
