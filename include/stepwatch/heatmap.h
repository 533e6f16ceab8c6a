// Heat maps: the distribution of a tensor's elements over bins, one column per collected step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stepwatch/site.h"

namespace stepwatch {

// Bins of equal width from kHeatmapMin to kHeatmapMax; the last bin includes its upper end.
inline constexpr size_t kHeatmapBins = 30;
inline constexpr double kHeatmapMin = -1;
inline constexpr double kHeatmapMax = 1;

// One step's column of the heat map of a kAdamUpdate or kAdamRatio site.
struct HeatmapColumn {
  SiteId site = 0;
  // Element counts, lowest bin first. NaN and elements outside the bins are not counted.
  std::array<uint64_t, kHeatmapBins> counts{};
};

}  // namespace stepwatch
