// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// How indices out of bounds are treated.
enum class GatherScatterMode : std::uint8_t {
  kClip,             ///< clamped to the nearest index within bounds
  kFillOrDrop,       ///< a gather returns a fill value, a scatter drops the update
  kPromiseInBounds,  ///< the caller promises that there are none; treated as kClip in a gather and
                     ///< kFillOrDrop in a scatter
};

}  // namespace lockstep
