// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// How a call of user code is mapped by vmap.
enum class VmapMethod : std::uint8_t {
  kSequential,    ///< one call for each example
  kExpandDims,    ///< one call; each operand gets a first dimension for the examples, of size 1 if it is the
                  ///< same for all
  kBroadcastAll,  ///< as kExpandDims, but operands are repeated for all examples
};

}  // namespace lockstep
