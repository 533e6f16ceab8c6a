// Replaces the CPU engine, which is not built here, for code that the checks share with its tests.
#include "kernels/reference.h"

namespace stepwatch::kernels {

Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics) {
  return reference::Measure(tensor, options, statistics);
}

}  // namespace stepwatch::kernels
