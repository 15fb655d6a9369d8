#pragma once

#include <string>

#include "lockstep/sharding/sharding.h"

namespace lockstep {

struct PictureOptions {
  bool colour = false;  ///< a background colour for each part, as ANSI escapes
};

/// A picture of where the parts of an array of this shape lie: a box for each part, in the place that it has
/// in the array, with its devices ("CPU 0,1") and their processes. Of one or two dimensions; a dimension of
/// the shape that nothing splits is not counted. Throws ShardingError where more are split, and as
/// check_divisible.
std::string sharding_picture(const Shape& shape, const Sharding& sharding, PictureOptions options = {});

/// Prints the picture on standard output; in colour on a terminal, unless NO_COLOR is set.
void visualize_sharding(const Shape& shape, const Sharding& sharding);

}  // namespace lockstep
