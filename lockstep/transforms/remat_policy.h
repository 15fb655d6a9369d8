// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/transforms/linearize.h"
#include "lockstep/transforms/nested_primitives.h"

/// Which values the derivative of a remat keeps, by the names of jax.checkpoint_policies:
///   nothing_saveable, everything_saveable
///   dots_saveable                       the results of dot_general
///   dots_with_no_batch_dims_saveable    those without batch dimensions
///   save_only_these_names               values with one of the names (lax::name)
///   save_any_names_but_these            values with another name
///   save_anything_except_these_names    everything except values with one of the names
namespace lockstep::transforms {

/// Throws Error for an unknown policy.
void check_policy(const std::string& policy);

/// A function that returns whether an equation's results are kept; null if nothing is kept.
EquationFilter saved_by(const RematParams& params);

}  // namespace lockstep::transforms
