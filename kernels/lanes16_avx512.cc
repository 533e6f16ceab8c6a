#include "kernels/lanes16_body.h"

namespace stepwatch::kernels::lanes16 {

extern const Level kAvx512;
const Level kAvx512 = {"avx512", kLoops<Float64>, kLoops<Float32>, kLoops<Float16>, kLoops<BFloat16>};

}  // namespace stepwatch::kernels::lanes16
