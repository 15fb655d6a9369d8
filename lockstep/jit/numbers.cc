// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/numbers.h"

#include "lockstep/ops/operand.h"

namespace lockstep::internal {

Array number_array(bool value) { return Operand(value).as_array(); }

Array number_array(double value) { return Operand(value).as_array(); }

Array number_array(std::int64_t value) { return Operand(value).as_array(); }

Array number_array(std::uint64_t value) { return Operand(value).as_array(); }

}  // namespace lockstep::internal
