// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/array/array.h"

namespace lockstep::golden {

using Arrays = std::vector<Array>;
using Function = std::function<Arrays(const Arrays&)>;
using Functions = std::map<std::string, Function>;

/// The functions that golden.json has numbers of, by their names there.
void add_elementwise(Functions& all);
void add_special(Functions& all);
void add_reductions(Functions& all);
void add_linear_algebra(Functions& all);
void add_decompositions(Functions& all);
void add_signal(Functions& all);
void add_neural(Functions& all);
void add_arrays(Functions& all);
void add_windows(Functions& all);
void add_control_flow(Functions& all);
void add_random(Functions& all);
void add_optim(Functions& all);

/// The names that a user of jax.numpy, jax.lax, jax.nn, jax.random and optax may look for; and those of them
/// that are not here.
const std::vector<std::string>& vocabulary();
const std::vector<std::string>& lacking();

}  // namespace lockstep::golden
