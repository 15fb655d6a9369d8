#pragma once

#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>

#include "lockstep/jit/tree_function.h"

namespace lockstep {

struct AssociativeScanOptions {
  bool reverse = false;   ///< from the last element to the first
  std::int64_t axis = 0;  ///< along which the elements stand; negative ones count from the end
};

namespace internal {
tree::AnyTree associative_scan_of(const TreeFunction& function, tree::TreeRef elements,
                                  const AssociativeScanOptions& options, const CallSite& site);
}  // namespace internal

/// All sums x0, x0 + x1, ... of elements along an axis of a tree's arrays, where + is any associative
/// function of two such trees, which it takes with many elements at a time: jax.lax.associative_scan. It is
/// called about 2 log2(n) times, so that the program has no loop and devices compute many elements at a time;
/// with `reverse` the function gets the later elements first. Throws ShapeError for arrays that differ in
/// length along the axis, or have no such axis, and for a function that gives other shapes than it takes.
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
