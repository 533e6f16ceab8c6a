#include "src/sinks/png.h"

#include <png.h>

#include <stdexcept>

#include "src/base/check.h"

namespace stepwatch::sinks {

std::string PngOf(const PalettePicture& picture, const Palette& palette) {
  STEPWATCH_CHECK(picture.pixels.size() == size_t{picture.width} * picture.height && !picture.pixels.empty());
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.width;
  image.height = picture.height;
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = static_cast<png_uint_32>(palette.size());
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.pixels.data(),
                                static_cast<png_int_32>(picture.width), palette.data()) == 0) {
    const std::string why = image.message;
    png_image_free(&image);
    throw std::runtime_error("an image could not be encoded: " + why);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace stepwatch::sinks
