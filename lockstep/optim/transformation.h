// SPDX-License-Identifier: Apache-2.0
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

namespace internal {

/// The functions below change trees in place, whatever their types, and are compiled once.
void add_updates(tree::TreeRef params, tree::TreeRef updates);
Array global_norm(tree::TreeRef tree);
void clip_to_global_norm(tree::TreeRef grads, double max_norm);
void make_zeros(tree::TreeRef tree);

template <class Params>
Params zeros_of(const Params& params) {
  Params zeros = params;
  make_zeros(tree::tree_ref(zeros));
  return zeros;
}

/// A count of 0 on all devices of the parameters, so that a jitted step compiles once for the first state and
/// the later ones.
Array zero_count(std::span<const Array> params);

/// count + 1, up to the largest i32.
Array incremented(const Array& count);

/// The dtype of the numbers that scale arrays of this dtype: f64 for f64 and c128, otherwise f32.
DType scale_dtype(DType dtype);

/// 1 / (1 - decay^count), in this dtype, which corrects the bias of an average that began with 0. A factor: a
/// division of each element takes longer.
Array bias_scale(double decay, const Array& count, DType dtype);

}  // namespace internal

/// params + updates, in the parameters' dtypes.
template <class Params>
Params apply_updates(const Params& params, const Params& updates,
                     SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  Params next = params;
  internal::add_updates(tree::tree_ref(next), tree::tree_ref(updates));
  return next;
}

/// The square root of the sum of the squares of all elements of all arrays: a scalar, of f32 for narrower
/// arrays.
template <class Tree>
Array global_norm(const Tree& tree, SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  return internal::global_norm(tree::tree_ref(tree));
}

/// The gradients, scaled down to the global norm max_norm if their global norm is larger.
template <class Params>
Params clip_by_global_norm(const Params& grads, double max_norm,
                           SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  Params clipped = grads;
  internal::clip_to_global_norm(tree::tree_ref(clipped), max_norm);
  return clipped;
}

}  // namespace lockstep::optim
