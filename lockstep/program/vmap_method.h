#pragma once

#include <cstdint>

namespace lockstep {

/// What becomes of examples under vmap.
enum class VmapMethod : std::uint8_t {
  kSequential,    ///< a call for each
  kExpandDims,    ///< one call; each operand has a dimension in front, of size 1 where it is the same for all
  kBroadcastAll,  ///< the same with operands repeated
};

}  // namespace lockstep
