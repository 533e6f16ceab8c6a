#include "kernels/lanes16_body.h"

namespace stepwatch::kernels::lanes16 {

extern const Level kBaseline;
const Level kBaseline = {"baseline", kLoops<Float64>, kLoops<Float32>, kLoops<Float16>, kLoops<BFloat16>};

}  // namespace stepwatch::kernels::lanes16
