// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>
#include <string>
#include <string_view>
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

template <class Result>
class Compiled;
template <class Result>
class Lowered;
template <class F>
class Jitted;
template <class Result>
Compiled<Result> load_executable(std::string_view bytes, Result like = {},
                                 std::source_location where = std::source_location::current());

/// A jitted function, compiled for one signature of arguments. Made by Lowered::compile and load_executable.
template <class Result>
class Compiled {
 public:
  /// Calls the function without ever compiling: throws TraceError for arguments with another signature.
  template <class... Args>
  Result operator()(const Args&... args) const {
    internal::TreeArguments<sizeof...(Args)> arguments{internal::given_argument(args)...};
    return internal::call_lowered(entry_, tree::type_of<Result>, arguments, site_).template take<Result>();
  }

  /// The cost of a call on each device.
  Cost cost() const { return internal::cost_of(*entry_); }

  /// The compiled program as bytes, for load_executable in this or another process. Throws Error if it cannot
  /// be used there: it calls functions of this process (callbacks, debug::print), uses arrays from outside of
  /// the function or a Static argument, or was compiled with debug_nans or debug_infs.
  std::string serialize() const { return internal::serialize_entry(*entry_); }

 private:
  friend class Lowered<Result>;
  friend Compiled load_executable<Result>(std::string_view bytes, Result like, std::source_location where);

  Compiled(std::shared_ptr<const internal::CallEntry> entry, const CallSite& site)
      : entry_(std::move(entry)), site_(site) {}

  std::shared_ptr<const internal::CallEntry> entry_;
  CallSite site_;
};

/// The compiled program that Compiled::serialize wrote, for calls on this process's devices; nothing is
/// traced or compiled. It was compiled for devices with certain ids and must find these; a program over one
/// device that no argument or option chose runs on this process's first one. If the program is for devices of
/// several processes, all of them must load it. `Result` is the type of the function's result; if it has
/// containers, `like` is a value with as many elements. A call takes arguments of the same shapes, dtypes,
/// shardings and values as those for which it was compiled, else it throws TraceError with both.
///
/// Throws Error, and says why, if the bytes were changed or cut off or are something else, if they are for
/// another platform, version of the plugin or kind of processor, for devices that do not exist here, if
/// `Result` has other arrays than the program's result, or if the program calls a handler that is not
/// registered; PjrtError if the plugin refuses the machine code. The machine code is run as it is: load only
/// files that you would run, by read_executable_file, which checks who can have written them.
///   Compiled step = load_executable<State>(read_executable_file("step.bin"));
///   state = step(state, batch);
template <class Result>
Compiled<Result> load_executable(std::string_view bytes, Result like, std::source_location where) {
  return {internal::load_entry(bytes, tree::type_of<Result>, internal::share_without_type(std::move(like))),
          CallSite::from(where)};
}

/// The contents of a file, for load_executable. Throws Error if it does not exist, if somebody else than this
/// user, root or those in LOCKSTEP_TRUST can write to it or exchange it (lockstep/base/trusted_file.h), if it
/// is no regular file, or larger than the 2 GiB that a program can have.
std::string read_executable_file(const std::string& path);

/// A call of a jitted function with one kind of arguments: its texts, its communication, its cost. It is not
/// compiled; jax.stages.Lowered. Made by Jitted::lower.
template <class Result>
class Lowered : public ComputationText {
 public:
  /// The StableHLO text that the compiler gets.
  const std::string& as_text() const { return stablehlo; }

  /// The cost of a call for each device; its memory is 0 until it is compiled.
  Cost cost() const { return internal::cost_of(*entry_); }

  /// Compiles it, where no call and no compile() has. All processes whose devices take part must call it, as
  /// they would call the function. Throws what the compilation of a call throws.
  Compiled<Result> compile() const {
    internal::compile_entry(*entry_, site_);
    return {entry_, site_};
  }

 private:
  template <class F>
  friend class Jitted;

  Lowered(std::shared_ptr<const internal::CallEntry> entry, const CallSite& site)
      : ComputationText(internal::text_of(*entry)), entry_(std::move(entry)), site_(site) {}

  std::shared_ptr<const internal::CallEntry> entry_;
  CallSite site_;
};

/// A function that is compiled once for each signature of arguments. Made by jit().
template <class F>
class Jitted {
 public:
  Jitted(F function, JitOptions options, const CallSite& site)
      : function_(internal::share_without_type(std::move(function))),
        cache_(internal::make_jit_cache(std::move(options), site)) {}

  /// Calls the function. The first call with new shapes, dtypes, shardings or tree structure traces and
  /// compiles it.
  template <class... Args>
  requires CallableWith<F, std::decay_t<Args>...>
  auto operator()(Args&&... args) const {
    return call(internal::PassedTypes<F&, std::decay_t<Args>...>(),
                static_cast<const std::decay_t<Args>&>(args)...);
  }

  /// The result of a call with these arguments as arrays without elements (shape_of): the function is traced,
  /// not compiled. The placement of a result is not computed; it is reported as this process's first device.
  template <class... Args>
  requires CallableWith<F, Args...>
  auto eval_shape(const Args&... args) const {
    return eval_shape_with(internal::PassedTypes<F&, Args...>(), args...);
  }

  /// The function for these kinds of arguments, traced, partitioned and written as StableHLO; nothing is
  /// compiled or run. A call with such arguments goes on from there. Throws what a call throws but for
  /// compiling and running.
  template <class... Args>
  requires CallableWith<F, Args...>
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

/// A function that traces `function` once for each signature of arguments (shapes, dtypes, shardings, tree
/// structure), compiles it with XLA for all devices of the arguments' mesh, and runs the result. Arguments
/// and results are trees (lockstep/tree/tree.h). As in JAX, a number argument is traced if the function takes
/// an Array there (or an `auto`): it is a scalar of weak i32, weak f32 or bool, and another value needs no
/// new program. If the function takes a number (`int n`), or if the number is in a tree (a struct's `int n`),
/// it is compiled in, like enums, strings and Static values, and a new value compiles again.
///
/// Within another traced function its operations become part of that function, with the options' shardings as
/// constraints. All processes whose devices take part must make the call, in the same order as their other
/// calls. Blocks on CPU until the program is done. Thread-safe: several threads may trace the function at the
/// same time. Throws TraceError if the function needs a traced value, and for invalid static_argnums;
/// ShardingError if arguments are on different meshes or the axes do not divide sizes; and the errors of
/// `Computation::run`. If jit is disabled (lockstep/array/disable_jit.h), a call calls `function`.
template <class F>
Jitted<std::decay_t<F>> jit(F&& function, JitOptions options = {},
                            std::source_location where = std::source_location::current()) {
  return {std::forward<F>(function), std::move(options), CallSite::from(where)};
}

}  // namespace lockstep
