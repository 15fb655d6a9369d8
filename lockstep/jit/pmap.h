// SPDX-License-Identifier: Apache-2.0
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
  /// The name for collectives of the axis over all devices of all processes.
  std::string axis_name = "i";

  /// For each argument, the mapped dimension of its arrays, which has an entry for each local device; nullopt
  /// for arrays that every device gets as a whole. One value for all arrays, one for each, or tree::Rules by
  /// path. A single value applies to all arguments. An empty list: 0 for all.
  tree::Prefix<std::optional<int>> in_axes = {};

  /// The same for each result (each element of a tuple). A result with nullopt must be the same on all
  /// devices.
  tree::Prefix<std::optional<int>> out_axes = {};

  /// The devices, of all participating processes, in the order of the axis; empty: all devices.
  std::vector<Device> devices = {};
};

namespace internal {

/// The options of a pmapped function, and its compiled forms. Thread-safe.
class PmapCache;
std::shared_ptr<PmapCache> make_pmap_cache(PmapOptions options, const CallSite& site);

/// Calls the function, as described at pmap.
CallResult call_pmapped(PmapCache& cache, const TreeFunction& function, std::span<TreeArgument> arguments);

}  // namespace internal

/// A function that runs on every device of every process at once. Made by pmap().
template <class F>
class Pmapped {
 public:
  Pmapped(F function, PmapOptions options, const CallSite& site)
      : function_(internal::share_without_type(std::move(function))),
        cache_(internal::make_pmap_cache(std::move(options), site)) {}

  template <class... Args>
  requires CallableWith<F, Args...>
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
/// has a dimension with an entry for each device of this process, the first one unless in_axes says
/// otherwise; results are assembled in the same way. In a job of one process fewer entries are for the first
/// devices only. Every device gets number arguments, which are traced as
/// in jit (lockstep/jit/jit.h), and whole arrays that the function takes from outside. Collectives over
/// axis_name span all devices. All processes must make the call. Thread-safe: several threads may trace the
/// function at the same time. Throws ShardingError if the mapped dimension has another size, if a result
/// without a mapped dimension differs between devices, and if an array from outside belongs to other
/// processes; and the errors of jit.
template <class F>
Pmapped<std::decay_t<F>> pmap(F&& function, PmapOptions options = {},
                              std::source_location where = std::source_location::current()) {
  return {std::forward<F>(function), std::move(options), CallSite::from(where)};
}

}  // namespace lockstep
