// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/vmap.h"

#include "lockstep/array/exact_number.h"
#include "lockstep/base/fail.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/jit/tree_option.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/vmap.h"

namespace lockstep::internal {

namespace {

/// x with dimension `from` moved to `to`; the others keep their order.
ir::Value move_axis(const ir::Value& x, std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> permutation;
  for (std::int64_t i = 0; i < x.aval().rank(); ++i) {
    if (i != from) permutation.push_back(i);
  }
  permutation.insert(permutation.begin() + to, from);
  return ir::lax::transpose(x, permutation);
}

std::int64_t checked(int axis, std::int64_t rank, const Aval& aval, const CallSite& site) {
  std::int64_t counted = axis < 0 ? axis + rank : axis;
  if (counted < 0 || counted >= rank) {
    fail<ShapeError>("[vmap] axis {} is out of range for {} (at {})", axis, to_string(aval),
                     site.to_string());
  }
  return counted;
}

/// The aval of one example.
Aval example_aval(const Aval& aval, std::optional<int> axis, const CallSite& site) {
  Aval example = aval;
  if (axis) example.shape.erase(example.shape.begin() + checked(*axis, aval.rank(), aval, site));
  return example;
}

/// The number of examples. Throws ShapeError if the mapped sizes differ or nothing is mapped.
std::int64_t count_examples(const std::vector<Array>& inputs, const std::vector<std::optional<int>>& axes,
                            const CallSite& site) {
  std::optional<std::int64_t> size;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!axes[i]) continue;
    const Aval& aval = inputs[i].aval();
    const std::int64_t here =
        aval.shape[static_cast<std::size_t>(checked(*axes[i], aval.rank(), aval, site))];
    if (size.value_or(here) != here) {
      fail<ShapeError>("[vmap] the mapped dimensions have different sizes, {} and {} (in {}; at {})", *size,
                       here, to_string(aval), site.to_string());
    }
    size = here;
  }
  if (!size) {
    fail<ShapeError>(
        "[vmap] no argument is mapped: give at least one array with an in_axes other than nullopt (at {})",
        site.to_string());
  }
  return *size;
}

/// The outputs for all examples of a program for one example. `inputs` are arrays of the current trace;
/// `axes` is the mapped dimension of each, `out_axes` the dimension of the examples in each output. Throws as
/// count_examples does.
std::vector<Array> map_program(const ir::Program& program, const std::vector<Array>& inputs,
                               const std::vector<std::optional<int>>& axes, const std::vector<int>& out_axes,
                               const VmapOptions& options, const CallSite& site) {
  Trace& trace = *Trace::current();
  const std::int64_t size = count_examples(inputs, axes, site);
  std::vector<ir::Value> values;
  std::vector<bool> batched;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ir::Value value = trace.value_of(inputs[i]);
    batched.push_back(axes[i].has_value());
    if (axes[i]) value = move_axis(value, checked(*axes[i], value.aval().rank(), value.aval(), site), 0);
    values.push_back(value);
  }
  const ir::Program mapped =
      transforms::vmap(program, batched, {size, options.axis_name, options.spmd_axis_name.names});
  std::vector<Array> outputs;
  for (const ir::Value& value : transforms::inline_program(trace.builder(), mapped, values)) {
    const int axis = out_axes[outputs.size()];
    outputs.push_back(
        trace.wrap(move_axis(value, 0, checked(axis, value.aval().rank(), value.aval(), site))));
  }
  return outputs;
}

/// For each array of the result, the dimension of the examples.
std::vector<int> out_axes_of(const VmapOptions& options, tree::TreeRef result, const CallSite& site) {
  const TreeOption option{"vmap", "out_axes", "result", site.to_string()};
  const std::size_t results = result.num_elements();
  std::vector<int> all;
  for (std::size_t i = 0; i < results; ++i) {
    const auto these = option.values_or<ShapeError>(options.out_axes, i, result.element(i), results, 0);
    all.insert(all.end(), these.begin(), these.end());
  }
  return all;
}

}  // namespace

tree::AnyTree vmap_of(const TreeFunction& function, const VmapOptions& options, const CallSite& site,
                      std::span<TreeArgument> arguments) {
  const std::vector<tree::TreeRef> trees = with_numbers_as_arrays(arguments);
  const TreeOption option{"vmap", "in_axes", "argument", site.to_string()};
  option.check_at_most<ShapeError>(options.in_axes, trees.size());
  std::vector<std::optional<int>> axis_of_array;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const auto these = arguments[i].is_number()
                           ? std::vector<std::optional<int>>{std::nullopt}
                           : option.values<ShapeError>(options.in_axes, i, trees[i], std::optional<int>(0));
    axis_of_array.insert(axis_of_array.end(), these.begin(), these.end());
  }
  return run_trees_in_trace("vmap", site, trees, [&](const std::vector<tree::TreeRef>& given) {
    std::vector<Array> inputs = all_leaves(given);
    std::vector<std::optional<int>> axes = axis_of_array;
    TracedFunction call;
    {
      std::optional<ir::AxisEnvScope> named;
      if (!options.axis_name.empty()) {
        const std::int64_t examples = count_examples(inputs, axes, site);
        named.emplace(ir::AxisEnv::current().with_mapped(options.axis_name, examples));
      }
      call = trace_function("vmap", function, given, [&](Trace& trace, const Array& array, std::size_t k) {
        Array example = trace.input(example_aval(array.aval(), axes[k], site));
        // A number is taken from outside, where its double is known.
        return !axes[k] && may_be_number(array.aval()) ? array : example;
      });
    }
    inputs.insert(inputs.end(), call.traced.captures.begin(), call.traced.captures.end());
    axes.resize(inputs.size(), std::nullopt);
    const std::vector<int> out_axes = out_axes_of(options, call.result.ref(), site);
    call.result->replace_leaves(map_program(call.traced.program, inputs, axes, out_axes, options, site));
    return std::move(call.result);
  });
}

}  // namespace lockstep::internal
