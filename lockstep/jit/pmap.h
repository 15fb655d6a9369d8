#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/runtime/devices.h"

namespace lockstep {

struct PmapOptions {
  /// What collectives in the function call the axis of all devices of all processes.
  std::string axis_name = "i";

  /// For each argument the dimension of its arrays that is mapped, which has an entry for each local device;
  /// none for an argument that every device gets whole. One for all arguments, if only one is given.
  std::vector<std::optional<int>> in_axes = {0};

  /// The same for each result (each element of a tuple). A result with none must be the same on all devices.
  std::vector<std::optional<int>> out_axes = {0};

  /// The devices, of all processes that take part, in the order of the axis; all, if none are given.
  std::vector<Device> devices = {};
};

namespace internal {

/// The mesh of a pmap's devices, and that of this process's among them, with one axis. Throws ShardingError
/// where this process has none.
Mesh pmap_mesh(const PmapOptions& options, const CallSite& site);
Mesh local_part(const Mesh& mesh, const CallSite& site);

/// The entry for argument or result i. Throws ShardingError unless there is one for each, or one for all.
std::optional<int> mapped_axis(const std::vector<std::optional<int>>& axes, std::size_t i, std::size_t count,
                               std::string_view which, const CallSite& site);

/// What one device gets of an argument with this dimension mapped over `devices` local devices. Throws
/// ShardingError where that is not of their number.
Aval device_aval(const Aval& aval, std::optional<int> mapped, const std::string& axis, std::int64_t devices,
                 const CallSite& site);

/// How a value with this dimension mapped lies over the local devices.
PartitionSpec mapped_spec(std::optional<int> mapped, const std::string& axis);

/// Takes away (adds) the mapped dimension, of size 1, that a device's part of an argument (a result) has.
Array without_mapped(const Array& array, std::optional<int> mapped);
Array with_mapped(const Array& array, std::optional<int> mapped, const std::string& axis,
                  const CallSite& site);

}  // namespace internal

/// A function that runs `function` on every device of every process at once. Each array among the arguments
/// has a dimension with an entry for each device of this process, the first unless in_axes says another;
/// results are put together the same way. Collectives over axis_name go over all devices everywhere. All
/// processes must make the call. Throws ShardingError where that dimension has another size, where a result
/// without a mapped dimension differs between devices, and what jit throws.
template <class F>
auto pmap(F&& function, PmapOptions options = {},
          std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  struct State {
    Function function;
    PmapOptions options;
    CallSite site;
    std::vector<std::shared_ptr<const internal::JitEntry>> entries;
  };
  auto state = std::make_shared<State>(
      State{std::forward<F>(function), std::move(options), CallSite::from(where), {}});
  return [state](const auto&... args) {
    using Result = std::decay_t<std::invoke_result_t<Function&, std::decay_t<decltype(args)>...>>;
    if (Trace::current() != nullptr) {
      throw TraceError("[pmap] called within a traced function (at " + state->site.to_string() +
                       "): call it outside, or use jit over a mesh");
    }
    internal::Signature signature;
    (tree::visit(args, signature), ...);
    std::shared_ptr<const internal::JitEntry> entry;
    for (const auto& each : state->entries) {
      if (each->signature == signature.words()) entry = each;
    }
    if (!entry) {
      const PmapOptions& options = state->options;
      const std::string& axis = options.axis_name;
      const Mesh mesh = internal::pmap_mesh(options, state->site),
                 local = internal::local_part(mesh, state->site);
      std::vector<PartitionSpec> in_specs, out_specs;
      AxisEnvScope axes(mesh.axis_env());
      Trace trace("pmap@" + state->site.to_string());
      auto in_axis = [&](std::size_t i) {
        return internal::mapped_axis(options.in_axes, i, sizeof...(args), "in_axes", state->site);
      };
      std::size_t argument = 0;
      auto tracers_of = [&](const auto& tree) {
        auto copy = tree;
        const std::optional<int> mapped = in_axis(argument++);
        tree::for_each_leaf(copy, [&](Array& array) {
          in_specs.push_back(internal::mapped_spec(mapped, axis));
          array = trace.input(internal::device_aval(array.aval(), mapped, axis, local.size(), state->site));
        });
        return copy;
      };
      std::tuple<std::decay_t<decltype(args)>...> tracers{tracers_of(args)...};
      // All inputs first, then what the function makes of them.
      argument = 0;
      auto unmap = [&](auto& tree) {
        const std::optional<int> mapped = in_axis(argument++);
        tree::for_each_leaf(tree, [&](Array& array) { array = internal::without_mapped(array, mapped); });
      };
      std::apply([&](auto&... each) { (unmap(each), ...); }, tracers);
      auto result = std::make_shared<Result>(
          std::apply([&](auto&... each) { return state->function(std::move(each)...); }, tracers));
      const std::vector<int> owners = internal::result_owners(*result);
      const std::size_t results = owners.empty() ? 1 : static_cast<std::size_t>(owners.back()) + 1;
      std::vector<Array> outputs;
      for (const Array& leaf : tree::leaves(*result)) {
        const auto owner = static_cast<std::size_t>(owners[outputs.size()]);
        const auto mapped = internal::mapped_axis(options.out_axes, owner, results, "out_axes", state->site);
        out_specs.push_back(internal::mapped_spec(mapped, axis));
        outputs.push_back(internal::with_mapped(leaf, mapped, axis, state->site));
      }
      Program program = trace.finish(outputs);
      if (!trace.captures().empty()) {
        throw TraceError("[pmap] the function (at " + state->site.to_string() +
                         ") uses an array from outside; pass it as an argument, with an entry for each local "
                         "device, or with "
                         "in_axes none");
      }
      tree::for_each_leaf(*result, [](Array& array) { array = Array(); });
      std::vector<const internal::ArrayType*> types;
      for (const Array* array : signature.leaves())
        types.push_back(internal::concrete(*array, "[pmap] an argument").type);
      auto added = std::make_shared<internal::JitEntry>();
      added->signature = signature.words();
      added->computation = internal::Computation::compile_per_device(std::move(program), types, mesh, local,
                                                                     in_specs, out_specs);
      added->exemplar = std::move(result);
      state->entries.push_back(added);
      entry = added;
    }
    std::vector<Array> results = internal::JitCache::run(*entry, signature.leaves(), state->site);
    Result result = *static_cast<const Result*>(entry->exemplar.get());
    auto next = results.begin();
    tree::replace_leaves(result, next);
    return result;
  };
}

}  // namespace lockstep
