// The trainer's own threads, lent for large tensors: those of the OpenMP library that torch has brought along.
#pragma once

#include "stepwatch/parallel_for.h"

namespace stepwatch::python {

// Returns null where torch has no OpenMP library that can be found; the caller's thread then measures everything.
ParallelFor TrainersThreads();

}  // namespace stepwatch::python
