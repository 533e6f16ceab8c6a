// From what the device wrote to the Totals that all engines share.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/totals.h"

namespace stepwatch::kernels::cuda {

Totals TotalsOf(const Partial& partial, DType dtype);

// The comparison of MeasureOptions in the form of the dtype's kernel.
ZeroRule ZeroRuleFor(DType dtype, const MeasureOptions& options);

// The kernel that measures the dtype; kAgreement for none. `trees`: fp64 is slow on this device.
KernelId KernelFor(DType dtype, bool trees);

}  // namespace stepwatch::kernels::cuda
