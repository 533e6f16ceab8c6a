#include "src/sinks/heatmap.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/sinks/png.h"

namespace stepwatch::sinks {
namespace {

uint8_t Ramp(double level, double from, double to) {
  return static_cast<uint8_t>(std::lround(255 * std::clamp((level - from) / (to - from), 0.0, 1.0)));
}

// Black over red and yellow to white, like matplotlib's "hot": its red begins at 0.0416, and the positions of full red
// and full yellow are the same.
Palette HotPalette() {
  constexpr double kFullRed = 0.365079, kFullYellow = 0.746032, kDarkest = 0.0416;
  Palette palette;
  for (size_t i = 0; i < palette.size(); ++i) {
    const double level = static_cast<double>(i) / static_cast<double>(palette.size() - 1);
    palette[i] = {Ramp(kDarkest + (1 - kDarkest) * level / kFullRed, 0, 1), Ramp(level, kFullRed, kFullYellow),
                  Ramp(level, kFullYellow, 1)};
  }
  return palette;
}

}  // namespace

void Heatmap::Add(const std::array<uint64_t, kHeatmapBins>& counts) {
  if (columns_.size() == kColumnsMax) columns_.pop_front();
  std::array<float, kHeatmapBins>& column = columns_.emplace_back();
  std::transform(counts.begin(), counts.end(), column.begin(),
                 [](uint64_t count) { return static_cast<float>(count); });
}

std::string Heatmap::Png() const {
  static const Palette palette = HotPalette();
  static_assert(kHeight % kHeatmapBins == 0);
  float most = 1;
  for (const auto& column : columns_) most = std::max(most, *std::max_element(column.begin(), column.end()));
  PalettePicture picture{kWidth, kHeight, {}};
  picture.pixels.reserve(size_t{kWidth} * kHeight);
  for (size_t bin = kHeatmapBins; bin-- > 0;) {
    const size_t row = picture.pixels.size();
    for (size_t x = 0; x < kWidth; ++x) {
      // Empty if memory ran out for the first column.
      const float count = columns_.empty() ? 0 : columns_[x * columns_.size() / kWidth][bin];
      picture.pixels.push_back(static_cast<uint8_t>(std::lround(255 * count / most)));
    }
    for (size_t y = 1; y < kHeight / kHeatmapBins; ++y)
      for (size_t x = 0; x < kWidth; ++x) picture.pixels.push_back(picture.pixels[row + x]);
  }
  return PngOf(picture, palette);
}

}  // namespace stepwatch::sinks
