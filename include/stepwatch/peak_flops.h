// Peak rates of devices, the basis of the model FLOPs utilization (MFU).
#pragma once

#include <optional>
#include <string_view>

#include "stepwatch/tensor_view.h"

namespace stepwatch {

// Returns the manufacturer's peak of dense matrix products, in FLOP/s, of a device with this name
// ("NVIDIA H100 80GB HBM3", as in cudaDeviceProp::name): kBFloat16 and kFloat16 with accumulation in 32 bits, kFloat32
// without TF32. Absent for an unknown device, for a dtype that it does not support, and for a part of a device (MIG, a
// virtual GPU), whose share of the rate the name does not contain.
std::optional<double> PeakFlops(std::string_view device_name, DType dtype);

}  // namespace stepwatch
