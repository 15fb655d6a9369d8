#pragma once

#include <source_location>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/jit/jit.h"

namespace lockstep {

namespace internal {

tree::AnyTree remat_of(const TreeFunction& function, const CallSite& site, std::span<TreeArgument> arguments);

template <class F, class... P, class... Args>
auto call_remat(F& function, const CallSite& site, std::type_identity<std::tuple<P...>> types,
                const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  auto arguments = tree_arguments(types, args...);
  return remat_of(tree_function<Result>(function, types), site, arguments).template take<Result>();
}

}  // namespace internal

/// A function that does what `function` does, and keeps nothing of it for a derivative backwards but its
/// arguments: what the derivative needs is computed once more, which takes time and saves memory. JAX's
/// jax.remat, which it also calls jax.checkpoint; here lockstep::checkpoint is what saves and restores. Nests
/// in scans, in itself and in every transformation.
template <class F>
auto remat(F&& function, std::source_location where = std::source_location::current()) {
  return [
    held = internal::Held<std::decay_t<F>>{std::forward<F>(function)}, site = CallSite::from(where)
  ]<class... Args>(const Args&... args) requires internal::Takes<F, Args...> {
    return internal::call_remat(held.function, site, internal::PassedTypes<std::decay_t<F>&, Args...>(),
                                args...);
  };
}

}  // namespace lockstep
