// Converts device results into the statistics that all engines share.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/layout.h"
#include "kernels/totals.h"

namespace stepwatch::kernels::cuda {

// Host-side facts of a measurement, needed to read its result.
struct Note {
  int64_t count = 0;   // elements read; for an agreement, those of each tensor
  int64_t repeat = 1;  // for an agreement, 0: the shapes differ
  DType dtype = DType::kFloat32;
  bool agreement = false;
};
inline Note NoteOf(const Layout& layout, DType dtype) {
  return {layout.count, layout.repeat, dtype, false};
}

// The totals of an empty tensor.
Partial EmptyTotals();

Totals TotalsOf(const Partial& partial, DType dtype);
Statistics StatisticsOf(const Note& note, const Partial& totals);

// Converts the zero threshold of MeasureOptions to the form of the dtype's kernel.
ZeroRule ZeroRuleFor(DType dtype, const MeasureOptions& options);

// The kernel that measures the dtype; kAgreement for kOther. `trees`: fp64 is slow on this device.
KernelId KernelFor(DType dtype, bool trees);

}  // namespace stepwatch::kernels::cuda
