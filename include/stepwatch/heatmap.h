// Heat maps: how the elements of a tensor are spread over bins, a column for each collected step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stepwatch/site.h"

namespace stepwatch {

// Of equal width, from kHeatmapMin to kHeatmapMax; the last one holds its upper end as well.
inline constexpr size_t kHeatmapBins = 30;
inline constexpr double kHeatmapMin = -1;
inline constexpr double kHeatmapMax = 1;

// What one step adds to the heat map of a site of the kinds kAdamUpdate and kAdamRatio.
struct HeatmapColumn {
  SiteId site = 0;
  // Elements in each bin, the lowest bin first. Elements outside of all bins and NaN are in none.
  std::array<uint64_t, kHeatmapBins> counts{};
};

}  // namespace stepwatch
