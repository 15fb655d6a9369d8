// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/shard_map.h"

#include <algorithm>

#include "lockstep/array/trace.h"
#include "lockstep/base/fail.h"
#include "lockstep/jit/jit_cache.h"
#include "lockstep/jit/tree_option.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/sharding/placement.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/transforms/replay.h"

namespace lockstep::internal {
namespace {

/// One call of a function under shard_map: converts its arrays. Throws as shard_map does.
class ShardMapCall {
 public:
  ShardMapCall(const ShardMapOptions& options, const CallSite& site);

  /// Replaces each array of argument i by each device's part of it.
  void to_local(tree::TreeRef argument, std::size_t i, std::size_t num_arguments) const;

  /// The axes that collectives in the function may name.
  ir::AxisEnv axes() const;

  /// Makes of each array of result i the whole.
  void to_global(tree::TreeRef result, std::size_t i, std::size_t num_results) const;

 private:
  /// The spec of each array of tree i of `count`, arguments ("in") or results ("out").
  std::vector<PartitionSpec> specs_of(const tree::Prefix<PartitionSpec>& all, tree::TreeRef tree,
                                      std::size_t i, std::size_t count, std::string_view kind) const;
  void check(const PartitionSpec& spec, std::size_t i, std::string_view kind) const;
  Array local(const Array& array, const PartitionSpec& spec, std::size_t argument) const;
  Array global(const Array& array, const PartitionSpec& spec, std::size_t result) const;

  const ShardMapOptions& options_;
  std::vector<std::string> manual_;
  std::string site_;
};

ShardMapCall::ShardMapCall(const ShardMapOptions& options, const CallSite& site)
    : options_(options), manual_(options.axis_names), site_(site.to_string()) {
  if (manual_.empty()) manual_ = options.mesh.axis_names();
  CallSiteScope scope(site);
  for (const std::string& axis : manual_) options.mesh.axis_size(axis);
}

std::vector<PartitionSpec> ShardMapCall::specs_of(const tree::Prefix<PartitionSpec>& all, tree::TreeRef tree,
                                                  std::size_t i, std::size_t count,
                                                  std::string_view kind) const {
  const bool in = kind == "in";
  const TreeOption option{"shard_map", in ? "in_specs" : "out_specs", in ? "argument" : "result", site_};
  const auto specs = option.required_values<ShardingError>(all, i, tree, count);
  for (const PartitionSpec& spec : specs) check(spec, i, kind);
  return specs;
}

void ShardMapCall::check(const PartitionSpec& spec, std::size_t i, std::string_view kind) const {
  if (!spec.unconstrained().empty()) {
    fail<ShardingError>(
        "[shard_map] {}_specs of {} {} is {}, with an unconstrained dimension (at {}); name axes, "
        "or none",
        kind, kind == "in" ? "argument" : "result", i, spec.to_string(), site_);
  }
  for (const auto& axes : spec.entries()) {
    for (const std::string& axis : axes) {
      options_.mesh.axis_size(axis);
      if (std::ranges::find(manual_, axis) != manual_.end()) continue;
      fail<ShardingError>(
          "[shard_map] {}_specs of {} {} names the axis '{}', which is not among axis_names (at {})", kind,
          kind == "in" ? "argument" : "result", i, axis, site_);
    }
  }
}

ir::AxisEnv ShardMapCall::axes() const { return transforms::with_mapped_axes(options_.mesh.axis_env()); }

void ShardMapCall::to_local(tree::TreeRef argument, std::size_t i, std::size_t num_arguments) const {
  const std::vector<PartitionSpec> specs = specs_of(options_.in_specs, argument, i, num_arguments, "in");
  std::size_t k = 0;
  argument.change_leaves([&](Array& array) { array = local(array, specs[k++], i); });
}

void ShardMapCall::to_global(tree::TreeRef result, std::size_t i, std::size_t num_results) const {
  const std::vector<PartitionSpec> specs = specs_of(options_.out_specs, result, i, num_results, "out");
  std::size_t k = 0;
  result.change_leaves([&](Array& array) { array = global(array, specs[k++], i); });
}

Array ShardMapCall::local(const Array& array, const PartitionSpec& spec, std::size_t argument) const {
  sharding::check_divisible(array.aval(), spec, options_.mesh,
                            fmt::format("shard_map, argument {} (at {})", argument, site_));
  return ir::lax::to_local(array, sharding::placement(options_.mesh, spec, manual_));
}

Array ShardMapCall::global(const Array& array, const PartitionSpec& spec, std::size_t result) const {
  if (spec.normalized().entries().size() > array.shape().size()) {
    fail<ShardingError>(
        "[shard_map] the out_spec {} of result {} has more entries than {} has dimensions (at {})",
        spec.to_string(), result, to_string(array.aval()), site_);
  }
  std::vector<std::string> named, missing;
  for (const auto& axes : spec.entries()) named.insert(named.end(), axes.begin(), axes.end());
  const std::vector<std::string>& varying = array.aval().varying;
  for (const std::string& axis : varying) {
    if (std::ranges::find(named, axis) != named.end() || std::ranges::find(manual_, axis) == manual_.end())
      continue;
    fail<ShardingError>(
        "[shard_map] result {} ({}) differs between the devices along '{}', but its out_spec {} says that it "
        "is the same on all of them (at {}); name '{}' in the spec, or reduce over it with psum or pmean",
        result, to_string(array.aval()), axis, spec.to_string(), site_, axis);
  }
  for (const std::string& axis : named) {
    if (std::ranges::find(varying, axis) == varying.end()) missing.push_back(axis);
  }
  ir::AxisEnvScope in_force(axes());
  return ir::lax::to_global(missing.empty() ? array : ir::lax::pvary(array, missing),
                            sharding::placement(options_.mesh, spec, manual_));
}

/// The user's function with the conversion of its arrays, as a function of the same trees.
struct ShardMapFunction {
  const TreeFunction& function;
  const ShardMapOptions& options;
  CallSite site;

  static void* call(void* self, void* const* arguments) {
    return static_cast<const ShardMapFunction*>(self)->run(arguments).release();
  }
  tree::AnyTree run(void* const* arguments) const;
};

tree::AnyTree ShardMapFunction::run(void* const* arguments) const {
  const ShardMapCall call(options, site);
  const std::size_t num_arguments = function.parameters.size();
  {
    CallSiteScope scope(site);  // the function's own operations come from its lines
    for (std::size_t i = 0; i < num_arguments; ++i)
      call.to_local({arguments[i], function.parameters[i]}, i, num_arguments);
  }
  tree::AnyTree result = [&] {
    ir::AxisEnvScope axes(call.axes());
    return tree::AnyTree(function.call(function.function, arguments), *function.result);
  }();
  CallSiteScope scope(site);
  const std::size_t count = result->num_elements();
  for (std::size_t i = 0; i < count; ++i) call.to_global(result->element(i), i, count);
  return result;
}

}  // namespace

CallResult shard_map_of(const TreeFunction& function, const ShardMapOptions& options, JitCache& cache,
                        std::span<TreeArgument> arguments) {
  ShardMapFunction mapped{function, options, cache.site()};
  return cache.call_traced({&mapped, &ShardMapFunction::call, function.result, function.parameters},
                           arguments);
}

}  // namespace lockstep::internal
