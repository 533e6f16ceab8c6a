// One heat map: the distribution of a tensor's elements over bins, one column per step, as a picture that grows to the
// right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "stepwatch/heatmap.h"

namespace stepwatch::sinks {

class Heatmap {
 public:
  // In pixels, for any number of columns.
  static constexpr uint32_t kWidth = 640;
  static constexpr uint32_t kHeight = 480;
  // The newest columns are kept: every column is at least a pixel wide.
  static constexpr size_t kColumnsMax = kWidth;

  void Add(const std::array<uint64_t, kHeatmapBins>& counts);
  // Returns a PNG file: steps from left to right, the highest bin on top. The largest count is white, an empty cell
  // nearly black. There must be at least one column.
  std::string Png() const;

 private:
  // A float holds a count at the resolution of the colours, in half the memory.
  std::deque<std::array<float, kHeatmapBins>> columns_;
};

}  // namespace stepwatch::sinks
