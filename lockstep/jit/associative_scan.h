// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>

#include "lockstep/jit/tree_function.h"

namespace lockstep {

struct AssociativeScanOptions {
  bool reverse = false;   ///< from the last element to the first
  std::int64_t axis = 0;  ///< the axis of the elements; a negative axis counts from the end
};

namespace internal {
tree::AnyTree associative_scan_of(const TreeFunction& function, tree::TreeRef elements,
                                  const AssociativeScanOptions& options, const CallSite& site);
}  // namespace internal

/// All partial sums x0, x0 + x1, ... of the elements along an axis of a tree's arrays, where + is any
/// associative function of two such trees: jax.lax.associative_scan. The function takes many elements at a
/// time. It is called about 2 log2(n) times during tracing, so the program has no loop and many elements are
/// computed in parallel. With `reverse` the later elements are its first argument. Throws ShapeError if the
/// arrays have different lengths along the axis, or no such axis, and if the function's result has other
/// shapes than its arguments.
///
/// Source: Blelloch, "Prefix Sums and Their Applications" (1990).
template <class F, class Tree>
Tree associative_scan(F&& function, const Tree& elements, AssociativeScanOptions options = {},
                      std::source_location where = std::source_location::current()) {
  std::decay_t<F> own = function;
  constexpr std::type_identity<std::tuple<Tree, Tree>> types;
  return internal::associative_scan_of(internal::tree_function<Tree>(own, types), tree::tree_ref(elements),
                                       options, CallSite::from(where))
      .template take<Tree>();
}

}  // namespace lockstep
