#pragma once

#include <string>

#include "lockstep/transforms/control_flow.h"
#include "lockstep/transforms/linearize.h"

/// What the derivative of a remat keeps, by jax.checkpoint_policies' names:
///   nothing_saveable, everything_saveable
///   dots_saveable                       what dot_general gives
///   dots_with_no_batch_dims_saveable    of those, the ones without batch dimensions
///   save_only_these_names               what has one of the names (lax::name)
///   save_any_names_but_these            what has a name that is none of them
///   save_anything_except_these_names    everything but what has one of the names
namespace lockstep::transforms {

/// Throws Error for a policy that there is not.
void check_policy(const std::string& policy);

/// Whether the equation's results are kept; null where nothing is.
EquationFilter saved_by(const RematParams& params);

}  // namespace lockstep::transforms
