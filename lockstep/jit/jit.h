#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/computation.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/error.h"
#include "lockstep/jit/signature.h"
#include "lockstep/tree/tree.h"

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

  /// For messages and texts. The place of the call of jit, if empty.
  std::string name = {};
};

namespace internal {

/// One compiled form of a jitted function.
struct JitEntry {
  std::vector<std::uint64_t> signature;
  std::shared_ptr<const Computation> computation;
  std::vector<Array> captures;     ///< arrays from outside of the function: inputs that follow the arguments'
  std::shared_ptr<void> exemplar;  ///< a result, with empty arrays
};

/// The compiled forms of one jitted function. May be used by several threads.
class JitCache {
 public:
  JitCache(JitOptions options, const CallSite& site);

  const JitOptions& options() const { return options_; }
  const std::string& name() const { return name_; }

  std::shared_ptr<const JitEntry> find(const std::vector<std::uint64_t>& signature) const;

  /// Compiles what was traced. `argument_of` and `result_of` say to which argument and element of the result
  /// each leaf belongs.
  std::shared_ptr<const JitEntry> add(const Signature& signature, Program program,
                                      std::vector<Array> captures, const std::vector<int>& argument_of,
                                      const std::vector<int>& result_of, std::shared_ptr<void> exemplar);

  /// Throws ShardingError or TraceError where the options name more arguments or results than there are.
  void check_options(std::size_t num_arguments, std::size_t num_results) const;

  /// What the options make of an array of an argument (a result) in a call within another traced function: it
  /// is constrained to their sharding. Throws ShardingError where that does not divide its shape.
  Array argument_in_trace(const Array& array, int argument) const;
  Array result_in_trace(const Array& array, int result) const;

  /// Runs it on the leaves, and the captures. Donated arrays remember `site`.
  static std::vector<Array> run(const JitEntry& entry, const std::vector<const Array*>& leaves,
                                const CallSite& site);
  const CallSite& site() const { return site_; }

 private:
  JitOptions options_;
  CallSite site_;
  std::string name_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const JitEntry> last_;
  std::vector<std::shared_ptr<const JitEntry>> entries_;
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

/// A copy of a tree whose arrays are new inputs of the trace.
template <class T>
T as_tracers(Trace& trace, const T& tree) {
  T copy = tree;
  tree::for_each_leaf(copy, [&](Array& array) { array = trace.input(array.aval()); });
  return copy;
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

}  // namespace internal

/// A jitted function for one kind of arguments, ready to run.
template <class Result>
class Compiled {
 public:
  Compiled(std::shared_ptr<const internal::JitEntry> entry, const CallSite& site)
      : entry_(std::move(entry)), site_(site) {}

  /// As the jitted function, but never compiles anew: throws TraceError for arguments of another kind than it
  /// was lowered for.
  template <class... Args>
  Result operator()(const Args&... args) const {
    internal::Signature signature;
    (tree::visit(args, signature), ...);
    if (signature.words() != entry_->signature) {
      throw TraceError(
          "[jit] the compiled function (of " + site_.to_string() +
          ") was lowered for arguments of other shapes, dtypes, shardings or structure; call the "
          "jitted function, or lower it for these");
    }
    std::vector<Array> results = internal::JitCache::run(*entry_, signature.leaves(), site_);
    Result result = *static_cast<const Result*>(entry_->exemplar.get());
    auto next = std::make_move_iterator(results.begin());
    tree::replace_leaves(result, next);
    return result;
  }

  /// What a call costs each device.
  internal::Cost cost() const { return entry_->computation->cost(); }

 private:
  std::shared_ptr<const internal::JitEntry> entry_;
  CallSite site_;
};

/// What a call of a jitted function with one kind of arguments is: its texts, its communication, its cost.
template <class Result>
class Lowered : public internal::ComputationText {
 public:
  Lowered(std::shared_ptr<const internal::JitEntry> entry, const CallSite& site)
      : internal::ComputationText(entry->computation->text()), entry_(std::move(entry)), site_(site) {}

  /// What the compiler is given: StableHLO.
  const std::string& as_text() const { return stablehlo; }

  internal::Cost cost() const { return entry_->computation->cost(); }
  Compiled<Result> compile() const { return {entry_, site_}; }

 private:
  std::shared_ptr<const internal::JitEntry> entry_;
  CallSite site_;
};

/// A function that is compiled once for each kind of arguments. Made by jit().
template <class F>
class Jitted {
 public:
  Jitted(F function, JitOptions options, const CallSite& site)
      : function_(std::make_shared<F>(std::move(function))),
        cache_(std::make_shared<internal::JitCache>(std::move(options), site)) {}

  /// Calls the function. The first call with new shapes, dtypes, shardings or tree structure traces and
  /// compiles it.
  template <class... Args>
  auto operator()(Args&&... args) const {
    using Result = std::decay_t<std::invoke_result_t<F&, std::decay_t<Args>...>>;
    static_assert(!std::is_void_v<Result>, "a jitted function returns its results");
    if (Trace::current() != nullptr) return in_trace<Result>(std::decay_t<Args>(args)...);
    internal::Signature& signature = scratch();
    {
      CallSiteScope here(cache_->site());
      (tree::visit(args, signature), ...);
    }
    std::shared_ptr<const internal::JitEntry> entry = cache_->find(signature.words());
    if (!entry) entry = trace<Result>(args...);
    std::vector<Array> results = internal::JitCache::run(*entry, signature.leaves(), cache_->site());
    Result result = *static_cast<const Result*>(entry->exemplar.get());
    auto next = std::make_move_iterator(results.begin());
    tree::replace_leaves(result, next);
    return result;
  }

  /// The function for these kinds of arguments, traced, partitioned and compiled; nothing is run. All
  /// processes whose devices take part must call it, as they would call the function.
  template <class... Args>
  auto lower(const Args&... args) const {
    using Result = std::decay_t<std::invoke_result_t<F&, std::decay_t<Args>...>>;
    internal::Signature& signature = scratch();
    (tree::visit(args, signature), ...);
    std::shared_ptr<const internal::JitEntry> entry = cache_->find(signature.words());
    if (!entry) entry = trace<Result>(args...);
    return Lowered<Result>(std::move(entry), cache_->site());
  }

 private:
  static internal::Signature& scratch() {
    thread_local internal::Signature signature;
    signature.clear();
    return signature;
  }

  /// A call within another traced function, whose operations become part of that.
  template <class Result, class... Args>
  Result in_trace(Args... args) const {
    int argument = 0;
    auto place = [&](auto& tree) {
      tree::for_each_leaf(tree, [&](Array& array) { array = cache_->argument_in_trace(array, argument); });
      ++argument;
    };
    if (!cache_->options().in_shardings.empty()) (place(args), ...);
    Result result((*function_)(std::move(args)...));
    cache_->check_options(sizeof...(Args), internal::num_results<Result>);
    if (!cache_->options().out_shardings.empty()) {
      internal::for_each_result_leaf(
          result, [&](Array& array, int element) { array = cache_->result_in_trace(array, element); });
    }
    return result;
  }

  template <class Result, class... Args>
  std::shared_ptr<const internal::JitEntry> trace(const Args&... args) const {
    internal::Signature signature;  // of its own: the function may call other jitted functions
    internal::LeafOwners owners;
    ((tree::visit(args, signature), owners.add(args)), ...);
    Trace trace(cache_->name());
    std::tuple<std::decay_t<Args>...> tracers{internal::as_tracers<std::decay_t<Args>>(trace, args)...};
    auto result = std::make_shared<Result>(
        std::apply([&](auto&... each) { return (*function_)(std::move(each)...); }, tracers));
    cache_->check_options(sizeof...(Args), internal::num_results<Result>);
    Program program = trace.finish(tree::leaves(*result));
    std::vector<int> result_of = internal::result_owners(*result);
    tree::for_each_leaf(*result, [](Array& array) { array = Array(); });
    return cache_->add(signature, std::move(program), trace.captures(), owners.owners, result_of,
                       std::move(result));
  }

  std::shared_ptr<F> function_;
  std::shared_ptr<internal::JitCache> cache_;
};

/// A function that traces `function` once for each kind of arguments (shapes, dtypes, shardings, tree
/// structure), compiles it with XLA over all devices of the arguments' mesh, and runs the result. Arguments
/// and results are trees (lockstep/tree/tree.h); numbers, enums and strings among the arguments are compiled
/// in, and a new one compiles anew. Within another traced function its operations become part of that one,
/// with the options' shardings as constraints. The processes whose devices take part must all make the call,
/// in the same order as their other calls. Throws TraceError where the function needs a traced value,
/// ShardingError where arguments are over different meshes or sizes are not divided, and what
/// `Computation::run` throws.
template <class F>
Jitted<std::decay_t<F>> jit(F&& function, JitOptions options = {},
                            std::source_location where = std::source_location::current()) {
  return {std::forward<F>(function), std::move(options), CallSite::from(where)};
}

}  // namespace lockstep
