// Interface through which a front end lends the trainer's threads to the monitor, which starts no threads for
// measuring.
#pragma once

#include <cstdint>

namespace stepwatch {

// Runs `body(context, begin, end)` on ranges that together are [0, count), each once, and returns when all have run;
// the caller's thread may take part. Null: no threads are lent. Inside a parallel region it may run everything on the
// caller's thread. Neither it nor `body` throws.
using ParallelBody = void (*)(void* context, int64_t begin, int64_t end);
using ParallelFor = void (*)(int64_t count, ParallelBody body, void* context);

}  // namespace stepwatch
