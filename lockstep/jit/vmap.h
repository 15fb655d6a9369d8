#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/primitives/apply.h"

namespace lockstep {

struct VmapOptions {
  /// For each argument of the function, the dimension of all arrays in it to map over; nullopt: the same for
  /// all examples. Missing: 0.
  std::vector<std::optional<int>> in_axes = {};

  /// The dimension of all results at which the examples stand.
  int out_axes = 0;

  /// The name by which collectives (psum, pmean, axis_index, ...) in the function reach the other examples.
  std::string axis_name = {};

  /// The mesh axes over which the examples are split where the function says how an example lies: in its
  /// sharding constraints, and in the specs of its shard_maps. Without one a constraint says nothing of the
  /// examples, and a shard_map splits them over no axis that is manual.
  lax::AxisNames spmd_axis_name = std::vector<std::string>();
};

namespace internal {

/// The outputs of a program for one example, for all examples. `inputs` are arrays of the current trace;
/// `axes` says which dimension is mapped. Throws as count_examples.
std::vector<Array> map_program(const Program& program, const std::vector<Array>& inputs,
                               const std::vector<std::optional<int>>& axes, const VmapOptions& options,
                               const CallSite& site);

/// The number of examples. Throws ShapeError where the mapped sizes differ or nothing is mapped.
std::int64_t count_examples(const std::vector<Array>& inputs, const std::vector<std::optional<int>>& axes,
                            const CallSite& site);

/// The aval of one example.
Aval example_aval(const Aval& aval, std::optional<int> axis, const CallSite& site);

}  // namespace internal

namespace internal {

/// `number` says of each argument whether it was given as a number, which is the same for all examples.
template <class F, class... Args>
auto vmap_in_trace(F& function, const VmapOptions& options, const std::vector<bool>& number,
                   const CallSite& site, const Args&... args) {
  using Result = std::decay_t<std::invoke_result_t<F&, Args...>>;
  std::vector<Array> inputs;
  std::vector<std::optional<int>> axes;
  std::size_t argument = 0;
  [[maybe_unused]] auto collect = [&](const auto& tree) {
    const std::size_t i = argument++;
    for (Array& leaf : tree::leaves(tree)) {
      inputs.push_back(std::move(leaf));
      axes.push_back(number[i] ? std::nullopt : i < options.in_axes.size() ? options.in_axes[i] : 0);
    }
  };
  (collect(args), ...);

  Program program;
  Result result = [&] {
    std::optional<AxisEnvScope> named;
    if (!options.axis_name.empty()) {
      const std::int64_t examples = count_examples(inputs, axes, site);
      named.emplace(AxisEnv::current().with_mapped(options.axis_name, examples));
    }
    Trace trace("vmap");
    std::size_t next = 0;
    auto replace = [&](Array& array) { array = trace.input(example_aval(array.aval(), axes[next++], site)); };
    std::tuple<Args...> tracers{args...};
    std::apply([&](auto&... tree) { (tree::for_each_leaf(tree, replace), ...); }, tracers);
    Result traced = std::apply([&](auto&... tree) { return function(std::move(tree)...); }, tracers);
    program = trace.finish(tree::leaves(traced));
    for (const Array& capture : trace.captures()) {
      inputs.push_back(capture);
      axes.push_back(std::nullopt);
    }
    return traced;
  }();
  std::vector<Array> outputs = map_program(program, inputs, axes, options, site);
  auto out = outputs.begin();
  tree::replace_leaves(result, out);
  return result;
}

}  // namespace internal

/// A function that does what `function` does for each example, where its arguments hold many. A number that
/// is an argument is the same for all, and traced as jit does it. Throws ShapeError where the mapped
/// dimensions differ in size, and ShardingError where a spec within names an axis of spmd_axis_name.
template <class F>
auto vmap(F&& function, VmapOptions options = {},
          std::source_location where = std::source_location::current()) {
  return [
    function = std::decay_t<F>(std::forward<F>(function)), options = std::move(options),
    site = CallSite::from(where)
  ]<class... Args>(const Args&... args) mutable requires internal::Takes<F, Args...> {
    const std::vector<bool> number = {Number<Args>...};
    auto body = [&](const auto&... each) {
      return internal::vmap_in_trace(function, options, number, site, each...);
    };
    return internal::with_numbers_passed<std::decay_t<F>&>(
        [&](const auto&... each) { return internal::in_trace(body, "vmap", site, each...); }, args...);
  };
}

}  // namespace lockstep
