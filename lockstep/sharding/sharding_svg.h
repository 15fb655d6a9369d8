// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/sharding/sharding.h"

namespace lockstep {

/// The picture of `visualize_sharding` as SVG: write it to a file, and a browser shows it. Parts on the same
/// devices have the same colour. Throws ShardingError as sharding_picture does.
std::string sharding_svg(const Shape& shape, const Sharding& sharding);

}  // namespace lockstep
