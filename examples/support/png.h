// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Writes a picture as a PNG file, over one that is there: height rows of width pixels, from 0 (black) to 255
/// (white). Throws std::runtime_error, with the path, for a file that cannot be written, and
/// std::invalid_argument unless there are as many pixels as that.
void write_png(const std::string& path, const std::vector<std::uint8_t>& pixels, std::int64_t width,
               std::int64_t height);
