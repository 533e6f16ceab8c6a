// The trainer's own threads, lent for large tensors: those of the OpenMP library that torch has loaded.
#pragma once

#include "stepwatch/parallel_for.h"

namespace stepwatch::python {

// Returns null if no OpenMP library of torch is found; the caller's thread then measures everything.
ParallelFor TrainersThreads();

}  // namespace stepwatch::python
