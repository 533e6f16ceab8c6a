// One heat map: how the elements of a tensor were spread over bins in each step, as a picture that grows to the right.
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
  // In pixels, however many columns there are.
  static constexpr uint32_t kWidth = 640;
  static constexpr uint32_t kHeight = 480;
  // The newest are kept: every column is at least a pixel wide.
  static constexpr size_t kColumnsMax = kWidth;

  void Add(const std::array<uint64_t, kHeatmapBins>& counts);
  // A PNG file: steps from left to right, the highest bin on top. The fullest cell of all is white, an empty one all
  // but black. There is at least one column.
  std::string Png() const;

 private:
  // A float holds a count as finely as colours can show it, in half the memory.
  std::deque<std::array<float, kHeatmapBins>> columns_;
};

}  // namespace stepwatch::sinks
