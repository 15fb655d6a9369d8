// SPDX-License-Identifier: Apache-2.0
#include "examples/support/png.h"

#include <png.h>

#include <stdexcept>

void write_png(const std::string& path, const std::vector<std::uint8_t>& pixels, std::int64_t width,
               std::int64_t height) {
  if (width <= 0 || height <= 0 || static_cast<std::int64_t>(pixels.size()) != width * height) {
    throw std::invalid_argument("[write_png] expected " + std::to_string(width) + " x " +
                                std::to_string(height) + " pixels, got " + std::to_string(pixels.size()));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_GRAY;
  if (png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error("[write_png] cannot write " + path + ": " + image.message);
}
