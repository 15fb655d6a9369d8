// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ops/apply.h"

namespace lockstep::nn::internal {

/// body(operands) in the first operand's dtype; narrower operands than f32 are converted to f32 before, so
/// that statistics neither overflow nor lose digits. Within a trace.
template <class Body>
Array in_at_least_f32(ops::Tracers operands, Body body) {
  std::vector<Array> wide;
  for (const Array& x : operands) wide.push_back(ops::widened(x));
  return ops::convert(body(ops::Tracers(wide)), {operands[0].dtype(), operands[0].aval().weak_type});
}

}  // namespace lockstep::nn::internal
