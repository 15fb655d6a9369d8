// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"
#include "lockstep/tree/per_leaf.h"

namespace lockstep {

struct ShardMapOptions {
  Mesh mesh;

  /// For each argument, how its arrays are split, so that each device gets its part: one spec for all of
  /// them, one for each, or tree::Rules by path. A single value applies to all arguments.
  tree::Prefix<PartitionSpec> in_specs;

  /// The same for each result (each element of a tuple): how the devices' parts form the whole. Along an axis
  /// that a spec does not name, all devices must have the same value; values for which that is not certain
  /// are an error.
  tree::Prefix<PartitionSpec> out_specs;

  /// The axes along which the function sees single devices; empty: all. Along the others its values are
  /// global.
  std::vector<std::string> axis_names = {};
};

namespace internal {

/// A call of the function under shard_map; `cache` keeps its compiled forms. Throws as shard_map does.
CallResult shard_map_of(const TreeFunction& function, const ShardMapOptions& options, JitCache& cache,
                        std::span<TreeArgument> arguments);

template <class F>
struct ShardMapped {
  F function;
  ShardMapOptions options;
  std::shared_ptr<JitCache> cache;

  template <class... P, class... Args>
  auto call(std::type_identity<std::tuple<P...>> types, const Args&... args) {
    using Result = ResultType<F, std::tuple<P...>>;
    auto arguments = tree_arguments(types, args...);
    return shard_map_of(tree_function<Result>(function, types), options, *cache, arguments)
        .template take<Result>();
  }
};

}  // namespace internal

/// A function that runs `function` once on each device of the mesh with the device's part of the arguments;
/// the results are the parts of the global results. Inside, shapes are those of the parts, and collectives
/// run along the mesh's axes. Under jit, grad and vmap it is traced as part of the function around it;
/// outside it is a jit of its own. Throws ShardingError for an axis that the mesh does not have, a spec that
/// does not match, a size that the axes do not divide, a wrong number of specs, and a result that differs
/// along an axis that its spec does not name.
template <class F>
auto shard_map(F&& function, ShardMapOptions options,
               std::source_location where = std::source_location::current()) {
  using State = internal::ShardMapped<std::decay_t<F>>;
  const CallSite site = CallSite::from(where);
  std::shared_ptr<State> state(new State{std::forward<F>(function), std::move(options),
                                         internal::make_jit_cache({.name = "shard_map"}, site)});
  return [state = std::move(state)]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return state->call(internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}

}  // namespace lockstep
