#pragma once

#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"

namespace lockstep {

/// The specs of one argument or result: one for all its arrays, or one for each, in the order of its tree.
struct TreeSpecs {
  std::vector<PartitionSpec> specs;

  TreeSpecs(PartitionSpec spec) : specs{std::move(spec)} {}
  TreeSpecs(std::vector<PartitionSpec> of_each_array) : specs(std::move(of_each_array)) {}
};

struct ShardMapOptions {
  Mesh mesh;

  /// For each argument how it is split, for each device to get its part. One for all, if only one is given.
  std::vector<TreeSpecs> in_specs;

  /// For each result (each element of a tuple) how the devices' parts make the whole. Along an axis that a
  /// spec does not name all devices must have the same: values for which that is not certain are an error.
  std::vector<TreeSpecs> out_specs;

  /// The axes along which the function sees single devices; all, if none are given. Along the others its
  /// values are global.
  std::vector<std::string> axis_names = {};
};

namespace internal {

/// One call of a function under shard_map: what becomes of its arrays. Throws as shard_map does.
class ShardMapCall {
 public:
  ShardMapCall(const ShardMapOptions& options, const CallSite& site);

  /// Each device's part of the k-th array of an argument.
  Array local(const Array& array, std::size_t argument, std::size_t k, std::size_t num_arguments) const;

  /// The axes that collectives in the function may name.
  AxisEnv axes() const;

  /// The whole, of the k-th array of a result.
  Array global(const Array& array, std::size_t result, std::size_t k, std::size_t num_results) const;

 private:
  const PartitionSpec& spec(const std::vector<TreeSpecs>& all, std::size_t i, std::size_t k,
                            std::size_t count, std::string_view kind) const;

  const ShardMapOptions& options_;
  std::vector<std::string> manual_;
  std::string site_;
};

template <class F, class... Args>
auto shard_map_in_trace(F& function, const ShardMapOptions& options, const CallSite& site,
                        const Args&... args) {
  using Result = std::decay_t<std::invoke_result_t<F&, std::decay_t<Args>...>>;
  const ShardMapCall call(options, site);
  std::size_t argument = 0;
  [[maybe_unused]] auto local = [&](const auto& tree) {
    auto copy = tree;
    std::size_t k = 0;
    tree::for_each_leaf(copy,
                        [&](Array& array) { array = call.local(array, argument, k++, sizeof...(Args)); });
    ++argument;
    return copy;
  };
  // The function's own operations come from its lines.
  auto parts = [&] {
    CallSiteScope scope(site);
    return std::tuple<std::decay_t<Args>...>{local(args)...};
  }();
  Result result = [&]<std::size_t... i>(std::index_sequence<i...>) {
    AxisEnvScope axes(call.axes());
    return Result(function(std::move(std::get<i>(parts))...));
  }
  (std::index_sequence_for<Args...>());
  CallSiteScope scope(site);
  const std::vector<int> owners = result_owners(result);
  const std::size_t count = owners.empty() ? 1 : static_cast<std::size_t>(owners.back()) + 1;
  std::size_t next = 0, k = 0;
  tree::for_each_leaf(result, [&](Array& array) {
    k = next > 0 && owners[next] == owners[next - 1] ? k + 1 : 0;
    array = call.global(array, static_cast<std::size_t>(owners[next]), k, count);
    ++next;
  });
  return result;
}

}  // namespace internal

/// A function that runs `function` once on each device of the mesh, each with its part of the arguments; the
/// devices' results are the parts of the global results. Inside, shapes are those of the parts, and
/// collectives go along the mesh's axes. It is traced with the function around it, under jit, grad and vmap;
/// outside of one it is a jit of its own. Throws ShardingError for an axis that
/// the mesh has not, a spec that does not fit, a size that the axes do not divide, specs that are not as many
/// as arguments or results, and a result that differs along an axis that its spec does not name.
template <class F>
auto shard_map(F&& function, ShardMapOptions options,
               std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  struct State {
    Function function;
    ShardMapOptions options;
    CallSite site;
  };
  auto state =
      std::make_shared<State>(State{std::forward<F>(function), std::move(options), CallSite::from(where)});
  auto body = [state](const auto&... args) {
    return internal::shard_map_in_trace(state->function, state->options, state->site, args...);
  };
  return [jitted = Jitted<decltype(body)>(body, {.name = "shard_map"}, CallSite::from(where))]<class... Args>(
      const Args&... args) requires internal::Takes<F, Args...> {
    return internal::with_numbers_passed<Function&>(
        [&](const auto&... each) { return jitted.call_as_given(each...); }, args...);
  };
}

}  // namespace lockstep
