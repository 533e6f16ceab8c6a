#include "src/plan/plan.h"

#include <algorithm>

namespace stepwatch::plan {

uint64_t Plan::RowsPerStep(int micro_batches) const {
  const auto each_micro_batch = static_cast<uint64_t>(std::max(micro_batches, 1));
  uint64_t rows = 0;
  for (const PlannedSite& site : layout.sites) {
    const bool repeated = site.kind == SiteKind::kActv || site.kind == SiteKind::kActvGrad ||
                          (site.kind == SiteKind::kGradUnreduced && layout.micro_step_in_grad_unreduced);
    rows += repeated ? each_micro_batch : 1;
  }
  return rows;
}

}  // namespace stepwatch::plan
