#pragma once

#include <cstdint>

namespace lockstep {

/// What becomes of indices that are out of bounds.
enum class GatherScatterMode : std::uint8_t {
  kClip,             ///< the nearest index within bounds is taken
  kFillOrDrop,       ///< a gather gives a fill value, a scatter leaves out the update
  kPromiseInBounds,  ///< there are none, the caller says; as kClip and kFillOrDrop if there are
};

}  // namespace lockstep
