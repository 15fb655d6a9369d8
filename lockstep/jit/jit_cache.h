#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/jit/call_cache.h"
#include "lockstep/jit/jit_options.h"
#include "lockstep/jit/signature.h"
#include "lockstep/jit/tree_function.h"
#include "lockstep/jit/tree_option.h"

/// jit without the C++ types of functions and trees.
namespace lockstep::internal {

/// What a call gives: a tree; or the arrays of one, like the exemplar of the entry, so that the tree is made
/// where its type is known.
class CallResult {
 public:
  explicit CallResult(tree::AnyTree tree) : tree_(std::move(tree)) {}
  CallResult(std::shared_ptr<const CallEntry> entry, std::vector<Array> arrays)
      : entry_(std::move(entry)), arrays_(std::move(arrays)) {}

  template <class Result>
  Result take() && {
    if (tree_.valid()) return std::move(tree_).template take<Result>();
    Result result = *static_cast<const Result*>(entry_->exemplar.get());
    put_arrays(tree::tree_ref(result));
    return result;
  }

 private:
  void put_arrays(tree::TreeRef result);

  tree::AnyTree tree_;
  std::shared_ptr<const CallEntry> entry_;
  std::vector<Array> arrays_;
};

/// The tree, shared without its type, with empty arrays: an entry's exemplar.
std::shared_ptr<void> exemplar_of(tree::AnyTree tree);

/// The options of a jitted function, and its compiled forms. May be used by several threads.
class JitCache {
 public:
  JitCache(JitOptions options, const CallSite& site);

  const CallSite& site() const { return calls_.site(); }

  /// Calls the function, as jit says. The function must be the same in all calls but for its types.
  CallResult call(const TreeFunction& function, std::span<TreeArgument> arguments);

  /// The same of a function around a user's, which is traced also where jit is disabled.
  CallResult call_traced(const TreeFunction& function, std::span<TreeArgument> arguments);

  /// What a call gives, by its shapes and dtypes: the function is traced, and not compiled.
  CallResult eval_shape(const TreeFunction& function, std::span<TreeArgument> arguments);

  /// The compiled form for these arguments.
  std::shared_ptr<const CallEntry> lower(const TreeFunction& function, std::span<TreeArgument> arguments);

 private:
  /// A call within another traced function, whose operations become part of that; or, where jit is disabled,
  /// one whose operations run as they come.
  tree::AnyTree call_in_trace(const TreeFunction& function, std::span<TreeArgument> arguments) const;

  /// The form for these arguments, compiled or only traced; their signature is written.
  std::shared_ptr<const CallEntry> entry_of(const TreeFunction& function, std::span<TreeArgument> arguments,
                                            Signature& signature, bool compiled);
  std::shared_ptr<const CallEntry> trace(const TreeFunction& function,
                                         std::span<const TreeArgument> arguments, bool compiled);

  /// Compiles what was traced for the (described) signature, with what the options say of each array.
  std::shared_ptr<const CallEntry> add(const Signature& signature, TracedProgram traced,
                                       ComputationOptions options, std::shared_ptr<void> exemplar,
                                       std::chrono::duration<double> tracing);

  TreeOption option(std::string_view name, std::string_view trees) const;

  /// What in_shardings (out_shardings) say of each array of argument (result) i. Throws ShardingError where
  /// they do not fit the tree.
  std::vector<std::optional<Sharding>> in_shardings(std::size_t i, tree::TreeRef argument) const;
  std::vector<std::optional<Sharding>> out_shardings(std::size_t i, tree::TreeRef result) const;

  /// Whether each array of argument i is donated.
  std::vector<bool> donated(std::size_t i, tree::TreeRef argument) const;

  /// Whether argument i of so many is among static_argnums.
  bool is_static(std::size_t i, std::size_t num_arguments) const;

  /// Throws TraceError where static_argnums names an argument that is not there, or one with arrays.
  void check_static(const Signature& signature) const;

  /// Throws ShardingError or TraceError where the options name more arguments or results than there are.
  void check_options(std::size_t num_arguments, std::size_t num_results) const;

  const JitOptions options_;
  CallCache calls_;
};

/// An argument of a function that was lowered: any number may have been taken as an Array.
template <class A>
TreeArgument given_argument(const A& given) {
  if constexpr (Number<A>)
    return {tree::tree_ref(given), &number_of_type_as_array<A>};
  else
    return {tree::tree_ref(given), nullptr};
}

/// Runs what was lowered, at `site`. Throws TraceError where it was for arguments of another kind.
CallResult call_lowered(const std::shared_ptr<const CallEntry>& entry, const tree::TreeType& result,
                        std::span<TreeArgument> arguments, const CallSite& site);

/// A value that is shared without its type: one kind of shared pointer for all types, for compile time's
/// sake.
template <class T>
std::shared_ptr<void> share_without_type(T value) {
  void (*free)(void*) = [](void* shared) { delete static_cast<T*>(shared); };
  return {static_cast<void*>(new T(std::move(value))), free};
}

}  // namespace lockstep::internal
