// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <vector>

#include "lockstep/array/lowered_computation.h"
#include "lockstep/base/error.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/sharding/device.h"

namespace lockstep::internal {

/// The error of a computation that does not fit into the memory of one of the devices: an OutOfMemoryError
/// that also says what it needs, what is in use on the fullest device, and its largest values.
std::exception_ptr explained(const OutOfMemoryError& error, const LoweredComputation& computation,
                             const pjrt::MemoryStats& needs, const std::vector<Device>& devices);

}  // namespace lockstep::internal
