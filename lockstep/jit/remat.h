#pragma once

#include <source_location>
#include <utility>
#include <vector>

#include "lockstep/jit/nested_call.h"

namespace lockstep {

namespace internal {
std::vector<Array> emit_remat(TracedProgram program, const std::vector<Array>& arguments);
}

/// A function that does what `function` does, and keeps nothing of it for a derivative backwards but its
/// arguments: what the derivative needs is computed once more, which takes time and saves memory. JAX's
/// jax.remat, which it also calls jax.checkpoint; here lockstep::checkpoint is what saves and restores. Nests
/// in scans, in itself and in every transformation.
template <class F>
auto remat(F&& function, std::source_location where = std::source_location::current()) {
  return [ function = std::decay_t<F>(function), site = CallSite::from(where) ]<class... Args>(
      const Args&... args) mutable requires internal::Takes<F, Args...> {
    auto body = [&function, site](const auto&... each) {
      internal::TracedProgram traced;
      auto result = internal::trace_function("remat", function, traced, each...);
      CallSiteScope scope(site);
      return internal::with_leaves(result,
                                   internal::emit_remat(std::move(traced), internal::all_leaves(each...)));
    };
    return internal::with_numbers_passed<std::decay_t<F>&>(
        [&](const auto&... each) { return internal::run_traced("remat", site, body, each...); }, args...);
  };
}

}  // namespace lockstep
