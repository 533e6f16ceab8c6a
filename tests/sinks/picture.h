// Reads pictures back: a PNG file as red, green and blue, or a failed test.
#pragma once

#include <png.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::sinks::test {

using Colour = std::array<int, 3>;

struct Picture {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint8_t> bytes;  // three for each pixel

  Colour At(size_t x, size_t y) const {
    const size_t i = 3 * (y * width + x);
    return {bytes[i], bytes[i + 1], bytes[i + 2]};
  }
};

inline Picture ReadPng(const std::string& png) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_memory(&image, png.data(), png.size()) != 0);
  image.format = PNG_FORMAT_RGB;
  Picture picture{image.width, image.height, std::vector<uint8_t>(PNG_IMAGE_SIZE(image))};
  REQUIRE(png_image_finish_read(&image, nullptr, picture.bytes.data(), 0, nullptr) != 0);
  return picture;
}

}  // namespace stepwatch::sinks::test
