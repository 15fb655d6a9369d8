#pragma once

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
};

namespace internal {

/// The mesh of all devices, and that of this process's, with one axis.
Mesh all_devices_mesh(const std::string& axis);
Mesh local_devices_mesh(const std::string& axis);

/// What one device gets of an argument with a leading dimension over the local devices. Throws ShardingError
/// where that is not of their number.
Aval device_aval(const Aval& aval, const std::string& axis, const CallSite& site);

/// Adds (takes away) the leading dimension of size 1 that a device's part of such an argument (result) has.
Array with_leading(const Array& array);
Array without_leading(const Array& array);

}  // namespace internal

/// A function that runs `function` on every device of every process at once. Each array among the arguments
/// has a leading dimension of local_device_count(): an entry for each device of this process; results are put
/// together the same way. Collectives over axis_name go over all devices everywhere. All processes must make
/// the call. Throws ShardingError where a leading dimension has another size, and what jit throws.
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
      const std::string& axis = state->options.axis_name;
      Mesh mesh = internal::all_devices_mesh(axis), local = internal::local_devices_mesh(axis);
      AxisEnvScope axes(mesh.axis_env());
      Trace trace("pmap@" + state->site.to_string());
      auto tracers_of = [&](const auto& tree) {
        auto copy = tree;
        tree::for_each_leaf(copy, [&](Array& array) {
          array = trace.input(internal::device_aval(array.aval(), axis, state->site));
        });
        return copy;
      };
      std::tuple<std::decay_t<decltype(args)>...> tracers{tracers_of(args)...};
      // All inputs first, then what the function makes of them.
      std::apply(
          [](auto&... each) {
            (tree::for_each_leaf(each, [](Array& array) { array = internal::without_leading(array); }), ...);
          },
          tracers);
      auto result = std::make_shared<Result>(
          std::apply([&](auto&... each) { return state->function(std::move(each)...); }, tracers));
      std::vector<Array> outputs;
      for (const Array& leaf : tree::leaves(*result)) outputs.push_back(internal::with_leading(leaf));
      Program program = trace.finish(outputs);
      if (!trace.captures().empty()) {
        throw TraceError(
            "[pmap] the function (at " + state->site.to_string() +
            ") uses an array from outside; pass it as an argument, with an entry for each local device");
      }
      tree::for_each_leaf(*result, [](Array& array) { array = Array(); });
      std::vector<const internal::ArrayType*> types;
      for (const Array* array : signature.leaves())
        types.push_back(internal::concrete(*array, "[pmap] an argument").type);
      auto added = std::make_shared<internal::JitEntry>();
      added->signature = signature.words();
      added->computation = internal::Computation::compile_per_device(std::move(program), types, mesh, local);
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
