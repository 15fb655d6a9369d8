#pragma once

#include <cstdint>
#include <limits>
#include <source_location>
#include <span>

#include "lockstep/base/call_site.h"
#include "lockstep/ops/ops.h"
#include "lockstep/tree/tree.h"

/// Optimizers, with optax's names and numbers. An optimizer is a value with two functions for any tree of
/// parameters:
///
///   State state = optimizer.init(params);
///   auto [updates, new_state] = optimizer.update(grads, state, params);
///   params = optim::apply_updates(params, updates);
///
/// Both work inside of jit and outside. The state is a tree, so it may be an argument of jit. Its arrays for
/// a parameter have the parameter's sharding. Trees of different structure throw a ShapeError.
namespace lockstep::optim {

using SourceLocation = std::source_location;

/// params + updates, in the parameters' dtypes.
template <class Params>
Params apply_updates(const Params& params, const Params& updates,
                     SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  return tree::map([](const Array& p, const Array& u) { return astype(p + u, p.dtype()); }, params, updates);
}

/// The square root of the sum of the squares of all elements of all arrays: a scalar.
template <class Tree>
Array global_norm(const Tree& tree, SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  Array total;
  for (const Array& leaf : tree::leaves(tree)) {
    Array squares = sum(square(leaf));
    total = total.valid() ? total + squares : squares;
  }
  return total.valid() ? sqrt(total) : zeros({});
}

/// The gradients, scaled down to the global norm max_norm if their global norm is larger.
template <class Params>
Params clip_by_global_norm(const Params& grads, double max_norm,
                           SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  const Array norm = global_norm(grads);
  return tree::map(
      [&](const Array& g) {
        return lockstep::where(norm < max_norm, g, astype(g / norm, g.dtype()) * max_norm);
      },
      grads);
}

namespace internal {

template <class Params>
Params zeros_of(const Params& params) {
  return tree::map([](const Array& p) { return zeros_like(p); }, params);
}

/// A count of 0 on all devices of the parameters, so that a jitted step compiles once for the first state and
/// the later ones.
Array zero_count(std::span<const Array> params);

/// count + 1, up to the largest i32.
Array incremented(const Array& count);

/// 1 / (1 - decay^count), which corrects the bias of an average that began with 0. A factor: a division of
/// each element takes longer.
Array bias_scale(double decay, const Array& count);

}  // namespace internal
}  // namespace lockstep::optim
