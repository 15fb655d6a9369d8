// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/program/axis_names.h"
#include "lockstep/tree/per_leaf.h"

namespace lockstep {

struct VmapOptions {
  /// For each argument of the function, the mapped dimension of its arrays: one for all of them, one for
  /// each, or tree::Rules by path; nullopt: the same array for all examples. Missing: 0. A value that is not
  /// in a list applies to all arguments.
  tree::Prefix<std::optional<int>> in_axes = {};

  /// The same for each result (each element of a tuple or pair): the dimension of the examples. An empty
  /// list: 0 for all.
  tree::Prefix<int> out_axes = {};

  /// The name of the axis of examples for collectives (psum, pmean, axis_index, ...) in the function.
  std::string axis_name = {};

  /// The mesh axes over which the examples are split where the function has sharding constraints, or specs of
  /// shard_maps, for one example. Without it, both leave the dimension of the examples open: a shard_map
  /// keeps it split over the mesh axes that neither its specs nor its collectives name.
  AxisNames spmd_axis_name = std::vector<std::string>();
};

namespace internal {

/// The function for all examples. A number is the same for all.
tree::AnyTree vmap_of(const TreeFunction& function, const VmapOptions& options, const CallSite& site,
                      std::span<TreeArgument> arguments);

template <class F, class... P, class... Args>
auto call_vmap(F& function, const VmapOptions& options, const CallSite& site,
               std::type_identity<std::tuple<P...>> types, const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  auto arguments = tree_arguments(types, args...);
  return vmap_of(tree_function<Result>(function, types), options, site, arguments).template take<Result>();
}

}  // namespace internal

/// A function that computes `function` for each example in its arguments. A number argument is the same for
/// all examples, and is traced as in jit. Throws ShapeError if the mapped dimensions differ in size, and
/// ShardingError if a spec inside names an axis of spmd_axis_name.
template <class F>
auto vmap(F&& function, VmapOptions options = {},
          std::source_location where = std::source_location::current()) {
  return [
    held = internal::Held<std::decay_t<F>>{std::forward<F>(function)}, options = std::move(options),
    site = CallSite::from(where)
  ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return internal::call_vmap(held.function, options, site,
                               internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}

}  // namespace lockstep
