#include "kernels/kernels.h"

#include "kernels/lanes16.h"
#include "kernels/reference.h"

namespace stepwatch::kernels {
namespace {

// Asked of the processor once, at the first use.
const lanes16::Level& BestLevel() {
  static const lanes16::Level* const level = lanes16::AvailableLevels().front();
  return *level;
}

}  // namespace

Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics) {
  if (lanes16::Handles(tensor.dtype)) return lanes16::Measure(BestLevel(), tensor, options, statistics);
  return reference::Measure(tensor, options, statistics);
}

void MeasureBatch(BatchItem* items, size_t count, const MeasureOptions& options, ParallelFor) {
  for (size_t i = 0; i < count; ++i) items[i].code = Measure(items[i].tensor, options, &items[i].statistics).code();
}

Status SignAgreement(const TensorView& a, const TensorView& b, double* agreement) {
  if (a.dtype == b.dtype && lanes16::Handles(a.dtype)) return lanes16::SignAgreement(BestLevel(), a, b, agreement);
  return reference::SignAgreement(a, b, agreement);
}

const char* MeasurePathName() {
  return BestLevel().name;
}

}  // namespace stepwatch::kernels
