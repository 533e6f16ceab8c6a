#include "bench/torch_parallel_for.h"

#include <sched.h>

#include <atomic>

namespace stepwatch::bench {
namespace {

struct Places {
  int processors[2];
  std::atomic<int> pinned{0};
};

// Finds the first two processors of the mask; false if there is only one.
bool FindTwo(const cpu_set_t& mask, Places* places) {
  int found = 0;
  for (int processor = 0; processor < CPU_SETSIZE && found < 2; ++processor)
    if (CPU_ISSET(processor, &mask)) places->processors[found++] = processor;
  return found == 2;
}

cpu_set_t MaskOfThisThread() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  return mask;
}

void PinRange(void* context, int64_t begin, int64_t end) {
  auto* places = static_cast<Places*>(context);
  if (end - begin != 1) return;  // a single thread runs the whole range
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(places->processors[begin], &mask);
  if (::sched_setaffinity(0, sizeof mask, &mask) == 0) ++places->pinned;
}

void UnpinRange(void* context, int64_t, int64_t) {
  ::sched_setaffinity(0, sizeof(cpu_set_t), static_cast<const cpu_set_t*>(context));
}

}  // namespace

PinnedPair::PinnedPair() : before_(MaskOfThisThread()) {
  Places places;
  if (!FindTwo(before_, &places)) {
    problem_ = "there is only one processor";
    return;
  }
  RunOnTwoThreads(2, PinRange, &places);
  if (places.pinned != 2) problem_ = "the pool gave no second thread, or it could not be pinned";
}

PinnedPair::~PinnedPair() {
  RunOnTwoThreads(2, UnpinRange, &before_);
}

}  // namespace stepwatch::bench
