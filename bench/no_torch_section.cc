#include "bench/sections.h"

namespace stepwatch::bench {

void MeasureAgainstTorch(const Settings&, Report* report) {
  report->Section("against torch");
  report->LeftOut("six_torch_ops_over_ours", "this build has no LibTorch (STEPWATCH_TORCH=OFF)");
}

}  // namespace stepwatch::bench
