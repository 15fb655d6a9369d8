// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/optim/transformation.h"

/// Loss scaling for gradients in f16, with the names and numbers of DeepMind's jmp. The loss is multiplied by
/// a large number, so that small gradients do not become 0; afterwards the gradients are divided by it:
///
///   auto [loss, grads] = value_and_grad([&](const Model& m) { return scale.scale(loss_of(m)); })(model);
///   grads = scale.unscale(grads);
///   const Array finite = optim::all_finite(grads);
///   scale = scale.adjust(finite);
///   model = optim::select_tree(finite, apply_updates(model, updates), model);
namespace lockstep::optim {

namespace internal {
Array all_finite(std::span<const Array> arrays);
void check_choice(const Array& predicate);
}  // namespace internal

/// Whether all elements of all arrays are finite: a bool scalar.
template <class Tree>
Array all_finite(const Tree& tree, SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  return internal::all_finite(tree::leaves(tree));
}

/// a if the predicate is true, else b. Throws TraceError unless the predicate is a bool scalar.
template <class Tree>
Tree select_tree(const Array& predicate, const Tree& a, const Tree& b,
                 SourceLocation where = SourceLocation::current()) {
  CallSiteScope here(CallSite::from(where));
  internal::check_choice(predicate);
  return tree::map([&](const Array& x, const Array& y) { return lockstep::where(predicate, x, y); }, a, b);
}

/// A scale that is divided by `factor` if gradients are not finite, and multiplied by it after `period` steps
/// with finite gradients. It is a tree: pass it to a step and return it.
struct DynamicLossScale {
  Array loss_scale;  ///< an f32 scalar
  Array counter;     ///< steps since the scale changed: an i32 scalar
  std::int64_t period = 2000;
  double factor = 2, min_loss_scale = 1;

  /// scale: each array times the scale, in the array's dtype promoted with f32. unscale: divided by it.
  template <class Tree>
  Tree scale(const Tree& tree, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    return tree::map([&](const Array& x) { return x * loss_scale; }, tree);
  }
  template <class Tree>
  Tree unscale(const Tree& tree, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    const Array inverse = 1.0 / loss_scale;
    return tree::map([&](const Array& x) { return x * inverse; }, tree);
  }

  /// The next scale. Throws TraceError unless grads_finite is a bool scalar.
  DynamicLossScale adjust(const Array& grads_finite, SourceLocation where = SourceLocation::current()) const;
};

/// A dynamic scale that starts with `initial`.
DynamicLossScale dynamic_loss_scale(double initial = 32768, std::int64_t period = 2000, double factor = 2,
                                    double min_loss_scale = 1);

/// A scale that never changes.
struct StaticLossScale {
  double loss_scale = 32768;

  template <class Tree>
  Tree scale(const Tree& tree) const {
    return tree::map([&](const Array& x) { return x * loss_scale; }, tree);
  }
  template <class Tree>
  Tree unscale(const Tree& tree) const {
    return tree::map([&](const Array& x) { return x * (1 / loss_scale); }, tree);
  }
  StaticLossScale adjust(const Array&) const { return *this; }
};

}  // namespace lockstep::optim
