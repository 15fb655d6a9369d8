// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/array/computation_text.h"
#include "lockstep/base/call_site.h"
#include "lockstep/jit/jit_options.h"
#include "lockstep/jit/tree_function.h"

/// The interface between the templates of jit and of the transformations and their implementation, which is
/// compiled once and whose headers users do not include.
namespace lockstep::internal {

class JitCache;
struct CallEntry;

/// The result of a call: a tree; or the arrays of one, like the exemplar of the entry, from which the caller,
/// which knows the type, makes the tree.
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

/// The options of a jitted function, with a cache of its compiled forms. Thread-safe.
std::shared_ptr<JitCache> make_jit_cache(JitOptions options, const CallSite& site);

/// Calls the function, as described at jit. It must be the same function in all calls, except for its types.
CallResult call_jitted(JitCache& cache, const TreeFunction& function, std::span<TreeArgument> arguments);

/// The result that a call would have, as arrays without elements.
CallResult eval_shape_jitted(JitCache& cache, const TreeFunction& function,
                             std::span<TreeArgument> arguments);

/// The form for these arguments; it may not be compiled yet.
std::shared_ptr<const CallEntry> lower_jitted(JitCache& cache, const TreeFunction& function,
                                              std::span<TreeArgument> arguments);

/// The call site of jit.
const CallSite& site_of(const JitCache& cache);

/// Compiles it where it is not.
void compile_entry(const CallEntry& entry, const CallSite& site);

/// The texts and the cost of such a form.
const ComputationText& text_of(const CallEntry& entry);
Cost cost_of(const CallEntry& entry);

/// An argument of a lowered function. Any number may have been lowered as an Array.
template <class A>
TreeArgument given_argument(const A& given) {
  if constexpr (Number<A>)
    return {tree::tree_ref(given), &number_of_type_as_array<A>};
  else
    return {tree::tree_ref(given), nullptr};
}

/// Runs a lowered function, at `site`. Throws TraceError if it was lowered for arguments with another
/// signature.
CallResult call_lowered(const std::shared_ptr<const CallEntry>& entry, const tree::TreeType& result,
                        std::span<TreeArgument> arguments, const CallSite& site);

/// A compiled form as bytes. Throws Error if it cannot be used in another process.
std::string serialize_entry(const CallEntry& entry);

/// The form in such bytes. `like` is a result of this type. Throws as load_executable does.
std::shared_ptr<const CallEntry> load_entry(std::string_view bytes, const tree::TreeType& result,
                                            std::shared_ptr<void> like);

/// A value that is shared without its type: a single shared pointer type for all types reduces compile time.
template <class T>
std::shared_ptr<void> share_without_type(T value) {
  void (*free)(void*) = [](void* shared) { delete static_cast<T*>(shared); };
  return {static_cast<void*>(new T(std::move(value))), free};
}

}  // namespace lockstep::internal
