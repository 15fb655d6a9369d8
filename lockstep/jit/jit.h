#pragma once

#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/jit/jit_call.h"
#include "lockstep/jit/jit_options.h"
#include "lockstep/jit/numbers.h"
#include "lockstep/jit/tree_function.h"
#include "lockstep/tree/tree.h"

namespace lockstep {

/// A jitted function for one kind of arguments, ready to run.
template <class Result>
class Compiled {
 public:
  Compiled(std::shared_ptr<const internal::CallEntry> entry, const CallSite& site)
      : entry_(std::move(entry)), site_(site) {}

  /// As the jitted function, but never compiles anew: throws TraceError for arguments of another kind than it
  /// was lowered for.
  template <class... Args>
  Result operator()(const Args&... args) const {
    internal::TreeArguments<sizeof...(Args)> arguments{internal::given_argument(args)...};
    return internal::call_lowered(entry_, tree::type_of<Result>, arguments, site_).template take<Result>();
  }

  /// What a call costs each device.
  internal::Cost cost() const { return internal::cost_of(*entry_); }

 private:
  std::shared_ptr<const internal::CallEntry> entry_;
  CallSite site_;
};

/// What a call of a jitted function with one kind of arguments is: its texts, its communication, its cost.
/// It is not compiled; jax.stages.Lowered.
template <class Result>
class Lowered : public internal::ComputationText {
 public:
  Lowered(std::shared_ptr<const internal::CallEntry> entry, const CallSite& site)
      : internal::ComputationText(internal::text_of(*entry)), entry_(std::move(entry)), site_(site) {}

  /// What the compiler is given: StableHLO.
  const std::string& as_text() const { return stablehlo; }

  /// What a call costs each device; of memory it says 0 until it is compiled.
  internal::Cost cost() const { return internal::cost_of(*entry_); }

  /// Compiles it, where no call and no compile() has. All processes whose devices take part must call it, as
  /// they would call the function. Throws what the compilation of a call throws.
  Compiled<Result> compile() const {
    internal::compile_entry(*entry_, site_);
    return {entry_, site_};
  }

 private:
  std::shared_ptr<const internal::CallEntry> entry_;
  CallSite site_;
};

/// A function that is compiled once for each kind of arguments. Made by jit().
template <class F>
class Jitted {
 public:
  Jitted(F function, JitOptions options, const CallSite& site)
      : function_(internal::share_without_type(std::move(function))),
        cache_(internal::make_jit_cache(std::move(options), site)) {}

  /// Calls the function. The first call with new shapes, dtypes, shardings or tree structure traces and
  /// compiles it.
  template <class... Args>
  requires internal::Takes<F, std::decay_t<Args>...>
  auto operator()(Args&&... args) const {
    return call(internal::PassedTypes<F&, std::decay_t<Args>...>(),
                static_cast<const std::decay_t<Args>&>(args)...);
  }

  /// What a call with these arguments gives, in arrays without elements (shape_of): the function is traced,
  /// and not compiled. Where they would lie is not asked: they are said to be on this process's first device.
  template <class... Args>
  requires internal::Takes<F, Args...>
  auto eval_shape(const Args&... args) const {
    return eval_shape_with(internal::PassedTypes<F&, Args...>(), args...);
  }

  /// The function for these kinds of arguments, traced, partitioned and written as StableHLO; nothing is
  /// compiled or run. A call with such arguments goes on from there. Throws what a call throws but for
  /// compiling and running.
  template <class... Args>
  requires internal::Takes<F, Args...>
  auto lower(const Args&... args) const { return lower_with(internal::PassedTypes<F&, Args...>(), args...); }

 private:
  F& function() const { return *static_cast<F*>(function_.get()); }

  template <class... P, class... Args>
  auto call(std::type_identity<std::tuple<P...>> types, const Args&... args) const {
    using Result = internal::ResultType<F, std::tuple<P...>>;
    auto arguments = internal::tree_arguments(types, args...);
    return internal::call_jitted(*cache_, internal::tree_function<Result>(function(), types), arguments)
        .template take<Result>();
  }

  template <class... P, class... Args>
  auto eval_shape_with(std::type_identity<std::tuple<P...>> types, const Args&... args) const {
    using Result = internal::ResultType<F, std::tuple<P...>>;
    auto arguments = internal::tree_arguments(types, args...);
    const auto function = internal::tree_function<Result>(this->function(), types);
    return internal::eval_shape_jitted(*cache_, function, arguments).template take<Result>();
  }

  template <class... P, class... Args>
  auto lower_with(std::type_identity<std::tuple<P...>> types, const Args&... args) const {
    using Result = internal::ResultType<F, std::tuple<P...>>;
    auto arguments = internal::tree_arguments(types, args...);
    return Lowered<Result>(
        internal::lower_jitted(*cache_, internal::tree_function<Result>(function(), types), arguments),
        internal::site_of(*cache_));
  }

  std::shared_ptr<void> function_;
  std::shared_ptr<internal::JitCache> cache_;
};

/// A function that traces `function` once for each kind of arguments (shapes, dtypes, shardings, tree
/// structure), compiles it with XLA over all devices of the arguments' mesh, and runs the result. Arguments
/// and results are trees (lockstep/tree/tree.h). A number that is an argument is traced, as in JAX, where the
/// function takes an Array there (or an `auto`): a scalar of weak i32, weak f32 or bool, whose value makes no
/// new program. Where the function takes a number only (`int n`), and in a tree (a struct's `int n`), a
/// number is compiled in, as enums, strings and Static values are, and a new one compiles anew.
///
/// Within another traced function its operations become part of that one, with the options' shardings as
/// constraints. The processes whose devices take part must all make the call, in the same order as their
/// other calls. May be called by several threads, which may trace the
/// function at the same time. Throws TraceError where the function needs a traced value, and for
/// static_argnums that do not fit, ShardingError where arguments are over different meshes or sizes are not
/// divided, and what `Computation::run` throws. Where jit is disabled (lockstep/array/disable_jit.h) a call
/// calls `function`.
template <class F>
Jitted<std::decay_t<F>> jit(F&& function, JitOptions options = {},
                            std::source_location where = std::source_location::current()) {
  return {std::forward<F>(function), std::move(options), CallSite::from(where)};
}

}  // namespace lockstep
