// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/accumulation.h"

namespace lockstep::optim::internal {

Array mixed(const Array& now, const Array& old, const Operand& step_size) {
  if (!step_size.is_number()) {
    const Array step = step_size.as_array();
    return step * now + (1.0 - step) * old;
  }
  // In double, so that f64 weights get all digits of 1 - step_size.
  const double step =
      step_size.is_integer_number() ? static_cast<double>(step_size.integer()) : step_size.real();
  return step * now + (1 - step) * old;
}

}  // namespace lockstep::optim::internal
