#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/array/computation_text.h"
#include "lockstep/base/call_site.h"
#include "lockstep/jit/jit_options.h"
#include "lockstep/jit/tree_function.h"

/// What the templates of jit and of the transformations call: all that is behind it is compiled once, and its
/// headers are not the user's.
namespace lockstep::internal {

class JitCache;
struct CallEntry;

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
    Result result = *static_cast<const Result*>(exemplar());
    put_arrays(tree::tree_ref(result));
    return result;
  }

 private:
  const void* exemplar() const;
  void put_arrays(tree::TreeRef result);

  tree::AnyTree tree_;
  std::shared_ptr<const CallEntry> entry_;
  std::vector<Array> arrays_;
};

/// The options of a jitted function, and a place for its compiled forms. May be used by several threads.
std::shared_ptr<JitCache> make_jit_cache(JitOptions options, const CallSite& site);

/// Calls the function, as jit says. The function must be the same in all calls but for its types.
CallResult call_jitted(JitCache& cache, const TreeFunction& function, std::span<TreeArgument> arguments);

/// What a call would give, in arrays without elements.
CallResult eval_shape_jitted(JitCache& cache, const TreeFunction& function,
                             std::span<TreeArgument> arguments);

/// The form for these arguments; it may not be compiled yet.
std::shared_ptr<const CallEntry> lower_jitted(JitCache& cache, const TreeFunction& function,
                                              std::span<TreeArgument> arguments);

/// Where jit was called.
const CallSite& site_of(const JitCache& cache);

/// Compiles it where it is not.
void compile_entry(const CallEntry& entry, const CallSite& site);

/// Of such a form.
const ComputationText& text_of(const CallEntry& entry);
Cost cost_of(const CallEntry& entry);

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
