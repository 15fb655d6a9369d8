// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/sharding/sharding.h"

namespace lockstep {

struct PictureOptions {
  bool colour = false;  ///< give each part a background colour, by ANSI escapes
};

/// A picture of an array's sharding: a box for each part, at its position in the array, with its devices
/// ("CPU 0,1") and their processes. For one or two dimensions, not counting dimensions that are not split.
/// Throws ShardingError if more dimensions are split, and as check_divisible does.
std::string sharding_picture(const Shape& shape, const Sharding& sharding, PictureOptions options = {});

/// The same picture as SVG: write it to a file, and a browser shows it. Parts on the same devices have the
/// same colour.
std::string sharding_svg(const Shape& shape, const Sharding& sharding);

/// Prints the picture to standard output; in colour on a terminal, unless NO_COLOR is set.
void visualize_sharding(const Shape& shape, const Sharding& sharding);

}  // namespace lockstep
