// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/jit/call_cache.h"
#include "lockstep/jit/jit_call.h"
#include "lockstep/jit/jit_options.h"
#include "lockstep/jit/signature.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/jit/tree_option.h"

/// The implementation of jit, without the C++ types of functions and trees.
namespace lockstep::internal {

/// The exemplar of an entry: the tree with empty arrays, shared without its type.
std::shared_ptr<void> exemplar_of(tree::AnyTree tree);

/// The options of a jitted function, and its compiled forms. Thread-safe.
class JitCache {
 public:
  JitCache(JitOptions options, const CallSite& site);

  const CallSite& site() const { return calls_.site(); }

  /// Calls the function, as described at jit. It must be the same function in all calls, except for its
  /// types.
  CallResult call(const TreeFunction& function, std::span<TreeArgument> arguments);

  /// Like call, for a function that wraps a user's function and is traced even if jit is disabled.
  CallResult call_traced(const TreeFunction& function, std::span<TreeArgument> arguments);

  /// The shapes and dtypes of a call's result: the function is traced, not compiled.
  CallResult eval_shape(const TreeFunction& function, std::span<TreeArgument> arguments);

  /// The form for these arguments, which may be compiled or not.
  std::shared_ptr<const CallEntry> lower(const TreeFunction& function, std::span<TreeArgument> arguments);

 private:
  /// A call within another traced function, whose operations become part of that function. If jit is
  /// disabled, its operations are run one by one.
  tree::AnyTree call_in_trace(const TreeFunction& function, std::span<TreeArgument> arguments) const;

  /// How far a form is made. One that is only traced is not kept.
  enum class Stage { kTraced, kLowered, kCompiled };

  /// The form for these arguments, at this stage or behind it; their signature is written.
  std::shared_ptr<const CallEntry> entry_of(const TreeFunction& function, std::span<TreeArgument> arguments,
                                            Signature& signature, Stage stage);
  std::shared_ptr<const CallEntry> trace(const TreeFunction& function,
                                         std::span<const TreeArgument> arguments, Stage stage);

  /// Throws TraceError where the options say what only a call that is compiled by itself can do.
  void check_outermost() const;

  /// Compiles, or lowers as the options say, what was traced for the (described) signature, with what the
  /// options say of each array.
  std::shared_ptr<const CallEntry> add(const Signature& signature, TracedProgram traced,
                                       NumberInputs::Places doubles, ComputationOptions options,
                                       std::shared_ptr<void> exemplar, std::chrono::duration<double> tracing);

  TreeOption option(std::string_view name, std::string_view trees) const;

  /// The in_shardings (out_shardings) of each array of argument (result) i. Throws ShardingError if they do
  /// not match the tree.
  std::vector<std::optional<Sharding>> in_shardings(std::size_t i, tree::TreeRef argument) const;
  std::vector<std::optional<Sharding>> out_shardings(std::size_t i, tree::TreeRef result) const;

  /// For each array of argument i, whether it is donated.
  std::vector<bool> donated(std::size_t i, tree::TreeRef argument) const;

  /// Whether argument i of this number of arguments is in static_argnums.
  bool is_static(std::size_t i, std::size_t num_arguments) const;

  /// Throws TraceError if static_argnums contains an argument that does not exist, or one with arrays.
  void check_static(const Signature& signature) const;

  /// Throws ShardingError or TraceError if the options are for more arguments or results than there are.
  void check_options(std::size_t num_arguments, std::size_t num_results) const;

  const JitOptions options_;
  CallCache calls_;
};

}  // namespace lockstep::internal
