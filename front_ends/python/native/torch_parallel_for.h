// The trainer's own threads, lent for large tensors: those of the OpenMP library that torch has brought along.
#pragma once

#include "stepwatch/parallel_for.h"

namespace stepwatch::python {

// Null where torch has no OpenMP library that can be found: all is then measured on the caller's thread.
ParallelFor TrainersThreads();

}  // namespace stepwatch::python
