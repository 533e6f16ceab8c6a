// From what the device wrote to the statistics that all engines share.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/layout.h"
#include "kernels/totals.h"

namespace stepwatch::kernels::cuda {

// What the host knows of a measurement beside the answer.
struct Note {
  int64_t count = 0;   // elements that are read; of an agreement those of each tensor
  int64_t repeat = 1;  // of an agreement 0: the shapes differ
  DType dtype = DType::kFloat32;
  bool agreement = false;
};
inline Note NoteOf(const Layout& layout, DType dtype) {
  return {layout.count, layout.repeat, dtype, false};
}

// The totals of no elements.
Partial NothingRead();

Totals TotalsOf(const Partial& partial, DType dtype);
Statistics StatisticsOf(const Note& note, const Partial& totals);

// The comparison of MeasureOptions in the form of the dtype's kernel.
ZeroRule ZeroRuleFor(DType dtype, const MeasureOptions& options);

// The kernel that measures the dtype; kAgreement for none. `trees`: fp64 is slow on this device.
KernelId KernelFor(DType dtype, bool trees);

}  // namespace stepwatch::kernels::cuda
