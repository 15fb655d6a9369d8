// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/program.h"

namespace lockstep::sharding {

/// Moves each reduce-scatter that the partitioner added to the earliest place at which its operand can be
/// computed, in a device's program and in the programs that it holds. Light operations
/// between the terms of the sum and the reduce-scatter, such as a product with the learning rate, move along.
/// Each term, which is as large as the whole gradient, is freed at once. Otherwise a training step would keep
/// the terms of all gradients until it updates the parameters at its end.
ir::Program scatter_early(ir::Program program);

}  // namespace lockstep::sharding
