// Torch loads its OpenMP library for the whole process, so its functions can be looked up by name; linking one here
// would load a second library with a second pool of threads. LLVM's and Intel's libraries also have GNU's entry points.
#include "front_ends/python/native/torch_parallel_for.h"

#include <dlfcn.h>

#include <algorithm>

namespace stepwatch::python {
namespace {

struct OpenMp {
  void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*max_threads)() = nullptr;
  int (*thread)() = nullptr;
  int (*threads)() = nullptr;
  int (*in_parallel)() = nullptr;

  bool whole() const {
    return parallel != nullptr && max_threads != nullptr && thread != nullptr && threads != nullptr &&
           in_parallel != nullptr;
  }
};

template <class F>
void Find(const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

OpenMp FindOpenMp() {
  OpenMp found;
  Find("GOMP_parallel", &found.parallel);
  Find("omp_get_max_threads", &found.max_threads);
  Find("omp_get_thread_num", &found.thread);
  Find("omp_get_num_threads", &found.threads);
  Find("omp_in_parallel", &found.in_parallel);
  return found;
}

const OpenMp& TorchsOpenMp() {
  static const OpenMp kFound = FindOpenMp();
  return kFound;
}

struct Work {
  int64_t count;
  ParallelBody body;
  void* context;
};

void RunShare(void* data) {
  const Work& work = *static_cast<Work*>(data);
  const int64_t threads = TorchsOpenMp().threads();
  const int64_t thread = TorchsOpenMp().thread();
  const int64_t begin = work.count * thread / threads;
  const int64_t end = work.count * (thread + 1) / threads;
  if (begin < end) work.body(work.context, begin, end);
}

void RunOnTrainersThreads(int64_t count, ParallelBody body, void* context) {
  const OpenMp& openmp = TorchsOpenMp();
  const int64_t threads = std::min<int64_t>(count, openmp.max_threads());
  if (threads <= 1 || openmp.in_parallel() != 0) {
    if (count > 0) body(context, 0, count);
    return;
  }
  Work work{count, body, context};
  openmp.parallel(RunShare, &work, static_cast<unsigned>(threads), 0);
}

}  // namespace

ParallelFor TrainersThreads() {
  return TorchsOpenMp().whole() ? RunOnTrainersThreads : nullptr;
}

}  // namespace stepwatch::python
