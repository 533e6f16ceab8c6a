// Encodes pictures as PNG. Pure; writes no files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stepwatch::sinks {

using Palette = std::array<std::array<uint8_t, 3>, 256>;  // red, green, blue

// A picture of palette indices: rows from the top, pixels from the left.
struct PalettePicture {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> pixels;  // width * height of them
};

// Returns the bytes of the file. Throws if memory runs out.
std::string PngOf(const PalettePicture& picture, const Palette& palette);

}  // namespace stepwatch::sinks
