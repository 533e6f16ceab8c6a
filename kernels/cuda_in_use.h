// What the CUDA side is in a process that may not want CUDA.
//
// The first call into the driver makes it ready for the process, for good: that takes up to seconds, settles what
// CUDA_VISIBLE_DEVICES says, and a child that is forked afterwards can use no device. Somebody who merely asks leaves
// that to the program.
#pragma once

#include "kernels/device_engine.h"

namespace stepwatch::kernels {

// As AskCuda, and without a call that would make the driver ready: in a process that has not done so there are no
// devices, and the reason says why. Any thread.
CudaReport AskCudaInUse();

}  // namespace stepwatch::kernels
