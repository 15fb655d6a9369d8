// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/interop/module.h"

namespace lockstep::interop {

/// Brings a value to where a sharding of the module says: `axes` and `sizes` are the mesh's, `splits` the
/// axes of each dimension, `open` the dimensions of which nothing else is said.
using Constrain = std::function<Array(
    const Array& x, const std::vector<std::string>& axes, const std::vector<std::int64_t>& sizes,
    const std::vector<std::vector<std::string>>& splits, const std::vector<bool>& open)>;

/// The results of the module's public function `main` for these arrays, by Lockstep's own operations: to be
/// called in a trace. `platform_index` is the platform's place among those that it was exported for; main
/// takes it, as a first argument, where they are several. Throws Error, which names the operation and its
/// place in the Python program, where there is none like it here.
std::vector<Array> run_module(const Module& module, const std::vector<Array>& arguments, int platform_index,
                              const Constrain& constrain);

}  // namespace lockstep::interop
