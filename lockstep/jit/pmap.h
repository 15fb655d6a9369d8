#pragma once

#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/tree/per_leaf.h"

namespace lockstep {

struct PmapOptions {
  /// What collectives in the function call the axis of all devices of all processes.
  std::string axis_name = "i";

  /// For each argument the dimension of its arrays that is mapped, which has an entry for each local device;
  /// none for arrays that every device gets whole. One for all arrays, one for each, or tree::Rules by path.
  /// One for all arguments, if only one is given.
  tree::Prefix<std::optional<int>> in_axes = 0;

  /// The same for each result (each element of a tuple). A result with none must be the same on all devices.
  tree::Prefix<std::optional<int>> out_axes = 0;

  /// The devices, of all processes that take part, in the order of the axis; all, if none are given.
  std::vector<Device> devices = {};
};

namespace internal {

/// The options of a pmapped function, and its compiled forms. May be used by several threads.
class PmapCache;
std::shared_ptr<PmapCache> make_pmap_cache(PmapOptions options, const CallSite& site);

/// Calls the function, as pmap says.
CallResult call_pmapped(PmapCache& cache, const TreeFunction& function, std::span<TreeArgument> arguments);

}  // namespace internal

/// A function for every device of every process at once. Made by pmap().
template <class F>
class Pmapped {
 public:
  Pmapped(F function, PmapOptions options, const CallSite& site)
      : function_(internal::share_without_type(std::move(function))),
        cache_(internal::make_pmap_cache(std::move(options), site)) {}

  template <class... Args>
  requires internal::Takes<F, Args...>
  auto operator()(const Args&... args) const { return call(internal::PassedTypes<F&, Args...>(), args...); }

 private:
  template <class... P, class... Args>
  auto call(std::type_identity<std::tuple<P...>> types, const Args&... args) const {
    using Result = internal::ResultType<F, std::tuple<P...>>;
    auto arguments = internal::tree_arguments(types, args...);
    const auto function = internal::tree_function<Result>(*static_cast<F*>(function_.get()), types);
    return internal::call_pmapped(*cache_, function, arguments).template take<Result>();
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
