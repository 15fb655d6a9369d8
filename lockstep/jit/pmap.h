#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"
#include "lockstep/watch/recorder.h"

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

/// The options of a pmapped function, and its compiled forms. May be used by several threads.
class PmapCache {
 public:
  PmapCache(PmapOptions options, const CallSite& site);

  const PmapOptions& options() const { return options_; }
  const CallSite& site() const { return calls_.site(); }
  std::shared_ptr<const CallEntry> find(const Signature& signature) { return calls_.find(signature); }

  /// Throws TraceError within a traced function.
  void check_outside_of_traces() const;

 private:
  friend class PmapTrace;
  const PmapOptions options_;
  CallCache calls_;
};

/// One tracing of what a device does of a pmapped function: first the inputs, then, in the same order, what
/// the function is given of them, then the results' arrays. Throws ShardingError where a mapped dimension has
/// another size than there are local devices, where axes are not as many as arguments or results, and where a
/// result without a mapped dimension differs between devices.
class PmapTrace {
 public:
  PmapTrace(PmapCache& cache, std::size_t num_arguments);

  /// For an array of an argument. A number is never mapped.
  Array input(const Array& array, std::size_t argument, bool number);
  Array given(const Array& input, std::size_t argument, bool number) const;

  /// Compiles it. `owners` says to which element of the result each array belongs.
  std::shared_ptr<const CallEntry> finish(const Signature& signature, const std::vector<Array>& results,
                                          const std::vector<int>& owners, std::shared_ptr<void> exemplar);

 private:
  std::optional<int> in_axis(std::size_t argument, bool number) const;

  PmapCache& cache_;
  const std::size_t num_arguments_;
  const Mesh mesh_, local_;
  std::vector<PartitionSpec> in_specs_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<AxisEnvScope> axes_;
  std::optional<Trace> trace_;
};

}  // namespace internal

/// A function for every device of every process at once. Made by pmap().
template <class F>
class Pmapped {
 public:
  Pmapped(F function, PmapOptions options, const CallSite& site)
      : function_(internal::share_without_type(std::move(function))),
        cache_(std::make_shared<internal::PmapCache>(std::move(options), site)) {}

  template <class... Args>
  requires internal::Takes<F, Args...>
  auto operator()(const Args&... args) const { return call(internal::PassedTypes<F&, Args...>(), args...); }

 private:
  template <class... P, class... Args>
  auto call(std::type_identity<std::tuple<P...>>, const Args&... args) const {
    using Result = std::decay_t<std::invoke_result_t<F&, P...>>;
    cache_->check_outside_of_traces();
    return run<Result>(std::index_sequence_for<P...>(), internal::CallArgument<P, Args>(args)...);
  }

  template <class Result, std::size_t... i, class... P, class... Args>
  Result run(std::index_sequence<i...> all, const internal::CallArgument<P, Args>&... arguments) const {
    internal::SpareSignature signature;
    signature->template result<Result>();
    (arguments.add_to(*signature), ...);
    std::shared_ptr<const internal::CallEntry> entry = cache_->find(*signature);
    if (!entry) entry = trace<Result>(all, arguments...);
    return internal::result_with<Result>(*entry, entry->run(signature->leaves(), cache_->site()));
  }

  template <class Result, std::size_t... i, class... P, class... Args>
  std::shared_ptr<const internal::CallEntry> trace(
      std::index_sequence<i...>, const internal::CallArgument<P, Args>&... arguments) const {
    internal::Signature signature(/*described=*/true);
    signature.result<Result>();
    (arguments.add_to(signature), ...);
    const watch::Doing tracing(watch::Kind::kTrace, "a function under pmap");
    internal::PmapTrace trace(*cache_, sizeof...(P));
    auto input_of = [&](auto tree, std::size_t argument, bool number) {
      tree::for_each_leaf(tree, [&](Array& array) { array = trace.input(array, argument, number); });
      return tree;
    };
    std::tuple<P...> tracers{input_of(P(arguments.value()), i, !std::is_same_v<P, Args>)...};
    auto give = [&](auto& tree, std::size_t argument, bool number) {
      tree::for_each_leaf(tree, [&](Array& array) { array = trace.given(array, argument, number); });
    };
    (give(std::get<i>(tracers), i, !std::is_same_v<P, Args>), ...);
    std::shared_ptr<void> exemplar = internal::share_without_type<Result>(
        (*static_cast<F*>(function_.get()))(std::move(std::get<i>(tracers))...));
    Result& result = *static_cast<Result*>(exemplar.get());
    const std::vector<Array> leaves = tree::leaves(result);
    const std::vector<int> owners = internal::result_owners(result);
    tree::for_each_leaf(result, [](Array& array) { array = Array(); });
    return trace.finish(signature, leaves, owners, std::move(exemplar));
  }

  std::shared_ptr<void> function_;
  std::shared_ptr<internal::PmapCache> cache_;
};

/// A function that runs `function` on every device of every process at once. Each array among the arguments
/// has a dimension with an entry for each device of this process, the first unless in_axes says another;
/// results are put together the same way. A number among the arguments every device gets, as jit traces it
/// (lockstep/jit/jit.h), and arrays that the function takes from outside, whole. Collectives over axis_name
/// go over all devices everywhere. All processes must make the call. May be called by several threads, which
/// may trace the function at the same time. Throws ShardingError where that dimension has another size, where
/// a result without a mapped dimension differs between devices, where an array from outside lies with other
/// processes, and what jit throws.
template <class F>
Pmapped<std::decay_t<F>> pmap(F&& function, PmapOptions options = {},
                              std::source_location where = std::source_location::current()) {
  return {std::forward<F>(function), std::move(options), CallSite::from(where)};
}

}  // namespace lockstep
