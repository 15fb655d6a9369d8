#pragma once

#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/computation.h"
#include "lockstep/array/disable_jit.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/error.h"
#include "lockstep/jit/call_cache.h"
#include "lockstep/jit/numbers.h"
#include "lockstep/jit/signature.h"
#include "lockstep/tree/tree.h"
#include "lockstep/watch/recorder.h"

namespace lockstep {

struct JitOptions {
  /// For each argument of the function, where all arrays in it must be; nullopt or missing: as they come.
  /// Within another traced function it is a sharding constraint on them, as in JAX.
  std::vector<std::optional<Sharding>> in_shardings = {};

  /// For each element of the tuple or pair that the function returns (or for its one result), where all
  /// arrays in it shall be; nullopt or missing: as the partitioner finds best. Within another traced function
  /// it is a sharding constraint on them, as in JAX.
  std::vector<std::optional<Sharding>> out_shardings = {};

  /// Arguments whose memory the results may take. They are deleted by the call. Within another traced
  /// function nothing is donated, as in JAX: what it computes has no memory of its own.
  std::vector<int> donate_argnums = {};

  /// Arguments, without arrays, that are compiled in: a number among them is a constant, though the function
  /// takes an Array there, and a new one compiles anew. Negative ones count from the last argument.
  std::vector<int> static_argnums = {};

  /// For messages and texts. The place of the call of jit, if empty.
  std::string name = {};

  /// Collectives over the same axes that do not need each other's results are combined into one, of at most
  /// so many bytes on a device: fewer, larger exchanges. 0: none are. A call within another traced function
  /// goes by the outermost one's.
  std::int64_t combine_threshold_bytes = sharding::kCombineThresholdBytes;

  /// What a loop uses and does not change, and each of its steps would gather, is gathered once before the
  /// loop, as far as that takes no more bytes on a device. 0: never.
  std::int64_t gathered_for_loops_bytes = sharding::kGatheredForLoopsBytes;

  /// Where a device would need more bytes for the computation, what is gathered (such as parameters that are
  /// split over the devices) is dropped after its use and gathered again for a later one, and no collectives
  /// are combined, if that takes less.
  /// What it would need is estimated from the program, before the compiler makes less of it. 0: no limit.
  std::int64_t memory_limit_bytes = 0;
};

namespace internal {

/// The options of a jitted function, and its compiled forms. May be used by several threads.
class JitCache {
 public:
  JitCache(JitOptions options, const CallSite& site);

  const JitOptions& options() const { return options_; }
  const std::string& name() const { return calls_.name(); }
  const CallSite& site() const { return calls_.site(); }

  /// Whether argument i of so many is among static_argnums.
  bool is_static(std::size_t i, std::size_t num_arguments) const {
    return !options_.static_argnums.empty() && names_static(i, num_arguments);
  }

  std::shared_ptr<const CallEntry> find(const Signature& signature) { return calls_.find(signature); }

  /// Throws TraceError where static_argnums names an argument that is not there, or one with arrays.
  void check_static(const Signature& signature) const;

  /// Throws ShardingError or TraceError where the options name more arguments or results than there are.
  void check_options(std::size_t num_arguments, std::size_t num_results) const;

  /// What the options make of an array of an argument (a result) in a call within another traced function: it
  /// is constrained to their sharding. Throws ShardingError where that does not divide its shape.
  Array argument_in_trace(const Array& array, int argument) const;
  Array result_in_trace(const Array& array, int result) const;

  /// Compiles what was traced for the (described) signature. `result_of` says to which element of the result
  /// each leaf of it belongs.
  std::shared_ptr<const CallEntry> add(const Signature& signature, Program program,
                                       std::vector<Array> captures, const std::vector<int>& result_of,
                                       std::shared_ptr<void> exemplar, std::chrono::duration<double> tracing);

  /// What was traced, to run operation by operation; it is not kept.
  static std::shared_ptr<const CallEntry> to_evaluate(Program program, std::vector<Array> captures,
                                                      std::shared_ptr<void> exemplar);

 private:
  bool names_static(std::size_t i, std::size_t num_arguments) const;

  const JitOptions options_;
  CallCache calls_;
};

/// Numbers leaves by the argument, or element of the result, that they stand in.
struct LeafOwners {
  std::vector<int> owners;
  int current = 0;

  /// The leaves of the next argument or element.
  template <class T>
  void add(const T& tree) {
    tree::for_each_leaf(tree, [&](const Array&) { owners.push_back(current); });
    ++current;
  }
};

/// A copy of a tree whose arrays are new inputs of the trace.
template <class T>
T as_tracers(Trace& trace, const T& tree) {
  T copy = tree;
  tree::for_each_leaf(copy, [&](Array& array) { array = trace.input(array.aval()); });
  return copy;
}

/// Calls `visit` with each array of a result and the element of its tuple that it stands in.
template <class T, class Visit>
void for_each_result_leaf(T& result, Visit&& visit) {
  int element = 0;
  auto leaves_of = [&](auto& tree) {
    tree::for_each_leaf(tree, [&](auto& array) { visit(array, element); });
    ++element;
  };
  if constexpr (tree::internal::is_tuple<std::remove_const_t<T>>)
    std::apply([&](auto&... each) { (leaves_of(each), ...); }, result);
  else
    leaves_of(result);
}

/// The elements of a tuple; else 1.
template <class T>
inline constexpr std::size_t num_results = 1;
template <class T>
requires tree::internal::is_tuple<T>
inline constexpr std::size_t num_results<T> = std::tuple_size_v<T>;

template <class T>
std::vector<int> result_owners(const T& result) {
  std::vector<int> owners;
  for_each_result_leaf(result, [&](const Array&, int element) { owners.push_back(element); });
  return owners;
}

/// One argument of a call, which the function gets as a P: a tree, or a number that it takes as a number.
template <class P, class A>
class CallArgument {
 public:
  explicit CallArgument(const A& given) : given_(given) {}
  CallArgument(const A& given, const JitCache&, std::size_t /*index*/, std::size_t /*num_arguments*/)
      : given_(given) {}

  void add_to(Signature& signature) const {
    signature.argument<A>();
    tree::visit(given_, signature);
  }

  /// What the function is traced with: first the inputs of all arguments, then the constants.
  P tracer(Trace& trace) const { return as_tracers(trace, given_); }
  void make_constant(P&) const {}

  const P& value() const { return given_; }

 private:
  const A& given_;
};

/// A number that the function takes as an Array: an input, unless it is compiled in.
template <Number A>
class CallArgument<Array, A> {
 public:
  explicit CallArgument(A given) : given_(given), array_(array_of_number(given)) {}
  CallArgument(A given, const JitCache& cache, std::size_t index, std::size_t num_arguments) : given_(given) {
    if (cache.is_static(index, num_arguments)) return;
    CallSiteScope here(cache.site());
    array_ = array_of_number(given);
  }

  void add_to(Signature& signature) const {
    if (array_.valid()) {
      signature.argument<Array>();
      signature.leaf(array_);
    } else {
      signature.argument<A>();
      signature.structure(given_);
    }
  }
  Array tracer(Trace& trace) const { return array_.valid() ? trace.input(array_.aval()) : Array(); }
  void make_constant(Array& tracer) const {
    if (!tracer.valid()) tracer = array_of_number(given_);
  }

  /// Of one that is not compiled in.
  const Array& value() const { return array_; }

 private:
  A given_;
  Array array_;
};

/// A value that is shared without its type: one kind of shared pointer for all types, for compile time's
/// sake.
template <class T>
std::shared_ptr<void> share_without_type(T value) {
  void (*free)(void*) = [](void* shared) { delete static_cast<T*>(shared); };
  return {static_cast<void*>(new T(std::move(value))), free};
}

/// The entry's result with these arrays.
template <class Result>
Result result_with(const CallEntry& entry, std::vector<Array> arrays) {
  Result result = *static_cast<const Result*>(entry.exemplar.get());
  auto next = std::make_move_iterator(arrays.begin());
  tree::replace_leaves(result, next);
  return result;
}

}  // namespace internal

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
    internal::Signature signature;
    signature.result<Result>();
    std::vector<Array> numbers;
    numbers.reserve(sizeof...(args));
    (add(signature, numbers, args), ...);
    if (signature.words() != entry_->signature) {
      throw TraceError(
          "[jit] the compiled function (of " + site_.to_string() +
          ") was lowered for arguments of other shapes, dtypes, shardings or structure; call the "
          "jitted function, or lower it for these");
    }
    return internal::result_with<Result>(*entry_, entry_->run(signature.leaves(), site_));
  }

  /// What a call costs each device.
  internal::Cost cost() const { return entry_->computation->cost(); }

 private:
  template <class A>
  void add(internal::Signature& signature, std::vector<Array>& numbers, const A& argument) const {
    if constexpr (Number<A>) {
      if (entry_->takes_array(signature.num_arguments())) {
        add(signature, numbers, numbers.emplace_back(internal::array_of_number(argument)));
        return;
      }
    }
    signature.argument<A>();
    tree::visit(argument, signature);
  }

  std::shared_ptr<const internal::CallEntry> entry_;
  CallSite site_;
};

/// What a call of a jitted function with one kind of arguments is: its texts, its communication, its cost.
template <class Result>
class Lowered : public internal::ComputationText {
 public:
  Lowered(std::shared_ptr<const internal::CallEntry> entry, const CallSite& site)
      : internal::ComputationText(entry->computation->text()), entry_(std::move(entry)), site_(site) {}

  /// What the compiler is given: StableHLO.
  const std::string& as_text() const { return stablehlo; }

  internal::Cost cost() const { return entry_->computation->cost(); }
  Compiled<Result> compile() const { return {entry_, site_}; }

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
        cache_(std::make_shared<internal::JitCache>(std::move(options), site)) {}

  /// Calls the function. The first call with new shapes, dtypes, shardings or tree structure traces and
  /// compiles it.
  template <class... Args>
  requires internal::Takes<F, std::decay_t<Args>...>
  auto operator()(Args&&... args) const {
    return call(internal::PassedTypes<F&, std::decay_t<Args>...>(), internal::jit_is_disabled(),
                static_cast<const std::decay_t<Args>&>(args)...);
  }

  /// As the call, with numbers passed as they are: of a function around a user's, which has taken care. It is
  /// traced also where jit is disabled.
  template <class... Args>
  auto call_as_given(const Args&... args) const {
    return call(std::type_identity<std::tuple<Args...>>(), /*untraced=*/false, args...);
  }

  /// The function for these kinds of arguments, traced, partitioned and compiled; nothing is run. All
  /// processes whose devices take part must call it, as they would call the function.
  template <class... Args>
  requires internal::Takes<F, Args...>
  auto lower(const Args&... args) const { return lower_with(internal::PassedTypes<F&, Args...>(), args...); }

 private:
  F& function() const { return *static_cast<F*>(function_.get()); }

  template <class... P, class... Args>
  auto call(std::type_identity<std::tuple<P...>>, bool untraced, const Args&... args) const {
    using Result = std::decay_t<std::invoke_result_t<F&, P...>>;
    static_assert(!std::is_void_v<Result>, "a jitted function returns its results");
    if (untraced || Trace::current() != nullptr) return in_trace<Result>(P(internal::passed<P>(args))...);
    return run<Result, P...>(std::index_sequence_for<P...>(), args...);
  }

  template <class Result, class... P, std::size_t... i, class... Args>
  Result run(std::index_sequence<i...> all, const Args&... args) const {
    internal::SpareSignature signature;
    return run_with<Result>(all, *signature,
                            internal::CallArgument<P, Args>(args, *cache_, i, sizeof...(P))...);
  }
  template <class Result, std::size_t... i, class... P, class... Args>
  Result run_with(std::index_sequence<i...> all, internal::Signature& signature,
                  const internal::CallArgument<P, Args>&... arguments) const {
    const auto entry = entry_of<Result>(all, signature, !internal::jit_is_disabled(), arguments...);
    return internal::result_with<Result>(*entry, entry->run(signature.leaves(), cache_->site()));
  }

  /// A call within another traced function, whose operations become part of that; or, where jit is disabled,
  /// one whose operations run as they come.
  template <class Result, class... P>
  Result in_trace(P... args) const {
    int argument = 0;
    [[maybe_unused]] auto place = [&](auto& tree) {
      tree::for_each_leaf(tree, [&](Array& array) { array = cache_->argument_in_trace(array, argument); });
      ++argument;
    };
    if (!cache_->options().in_shardings.empty()) (place(args), ...);
    Result result(function()(std::move(args)...));
    cache_->check_options(sizeof...(P), internal::num_results<Result>);
    if (!cache_->options().out_shardings.empty()) {
      internal::for_each_result_leaf(
          result, [&](Array& array, int element) { array = cache_->result_in_trace(array, element); });
    }
    return result;
  }

  template <class... P, class... Args>
  auto lower_with(std::type_identity<std::tuple<P...>>, const Args&... args) const {
    using Result = std::decay_t<std::invoke_result_t<F&, P...>>;
    return Lowered<Result>(lowered<Result, P...>(std::index_sequence_for<P...>(), args...), cache_->site());
  }
  template <class Result, class... P, std::size_t... i, class... Args>
  std::shared_ptr<const internal::CallEntry> lowered(std::index_sequence<i...> all,
                                                     const Args&... args) const {
    internal::SpareSignature signature;
    return entry_of<Result>(all, *signature, /*compiled=*/true,
                            internal::CallArgument<P, Args>(args, *cache_, i, sizeof...(P))...);
  }

  /// The form for these arguments, compiled or only traced; their signature is written.
  template <class Result, std::size_t... i, class... P, class... Args>
  std::shared_ptr<const internal::CallEntry> entry_of(
      std::index_sequence<i...> all, internal::Signature& signature, bool compiled,
      const internal::CallArgument<P, Args>&... arguments) const {
    {
      CallSiteScope here(cache_->site());
      signature.result<Result>();
      (arguments.add_to(signature), ...);
    }
    auto entry = compiled ? cache_->find(signature) : nullptr;
    return entry != nullptr ? entry : trace<Result>(all, compiled, arguments...);
  }

  template <class Result, std::size_t... i, class... P, class... Args>
  std::shared_ptr<const internal::CallEntry> trace(
      std::index_sequence<i...>, bool compiled, const internal::CallArgument<P, Args>&... arguments) const {
    const auto start = std::chrono::steady_clock::now();
    internal::Signature signature(/*described=*/true);
    signature.result<Result>();
    (arguments.add_to(signature), ...);
    cache_->check_static(signature);
    std::shared_ptr<void> exemplar;
    std::vector<Array> captures;
    Program program;
    {
      const watch::Doing tracing(watch::Kind::kTrace, cache_->name());
      Trace trace(cache_->name());
      [[maybe_unused]] std::tuple<P...> tracers{arguments.tracer(trace)...};
      (arguments.make_constant(std::get<i>(tracers)), ...);
      exemplar = internal::share_without_type<Result>(function()(std::move(std::get<i>(tracers))...));
      cache_->check_options(sizeof...(P), internal::num_results<Result>);
      program = trace.finish(tree::leaves(*static_cast<const Result*>(exemplar.get())));
      captures = trace.captures();
    }
    Result& result = *static_cast<Result*>(exemplar.get());
    const std::vector<int> result_of = internal::result_owners(result);
    tree::for_each_leaf(result, [](Array& array) { array = Array(); });
    if (!compiled) return cache_->to_evaluate(std::move(program), std::move(captures), std::move(exemplar));
    return cache_->add(signature, std::move(program), std::move(captures), result_of, std::move(exemplar),
                       std::chrono::steady_clock::now() - start);
  }

  std::shared_ptr<void> function_;
  std::shared_ptr<internal::JitCache> cache_;
};

namespace internal {

/// Calls `body(args...)` in the trace in force; where there is none, as a compiled program of its own.
template <class Body, class... Args>
auto in_trace(Body& body, std::string_view name, const CallSite& site, const Args&... args) {
  if (Trace::current() != nullptr) return body(args...);
  return Jitted<Body>(body, {.name = std::string(name)}, site).call_as_given(args...);
}

}  // namespace internal

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
