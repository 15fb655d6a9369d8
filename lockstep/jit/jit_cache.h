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

/// jit without the C++ types of functions and trees.
namespace lockstep::internal {

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

  /// The form for these arguments, which may be compiled or not.
  std::shared_ptr<const CallEntry> lower(const TreeFunction& function, std::span<TreeArgument> arguments);

 private:
  /// A call within another traced function, whose operations become part of that; or, where jit is disabled,
  /// one whose operations run as they come.
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

}  // namespace lockstep::internal
