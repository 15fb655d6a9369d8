// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

const Primitive& threefry2x32_p();

namespace lax {

/// The Threefry-2x32 block function with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", 2011): two words of key and two of counter give two words, element by element. All are u32 of one
/// shape.
template <Operand V>
std::pair<V, V> threefry2x32(const V& key0, const V& key1, const V& count0, const V& count1) {
  const V operands[] = {key0, key1, count0, count1};
  auto words = apply_primitive(threefry2x32_p(), OpParams(), std::span<const V>(operands));
  return {words[0], words[1]};
}

}  // namespace lax
}  // namespace lockstep::ir
