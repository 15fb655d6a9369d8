// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/ops/operand.h"

namespace lockstep {

/// Which values the derivative of a remat keeps instead of computing them again; made by checkpoint_policies.
struct RematPolicy {
  std::string name = "nothing_saveable";
  std::vector<std::string> names = {};
};

/// jax.checkpoint_policies. A policy decides about each operation of the function, but not about those within
/// its loops, branches and nested remats.
namespace checkpoint_policies {

inline RematPolicy nothing_saveable() { return {}; }
inline RematPolicy everything_saveable() { return {"everything_saveable"}; }

/// Keeps the results of matrix products (matmul, dot, einsum); of all, or only of those without batch
/// dimensions, such as products with weights.
inline RematPolicy dots_saveable() { return {"dots_saveable"}; }
inline RematPolicy dots_with_no_batch_dims_saveable() { return {"dots_with_no_batch_dims_saveable"}; }

/// Keeps values according to their checkpoint_name: those with one of these names; those with another name;
/// everything except values with one of these names.
inline RematPolicy save_only_these_names(std::vector<std::string> names) {
  return {"save_only_these_names", std::move(names)};
}
inline RematPolicy save_any_names_but_these(std::vector<std::string> names) {
  return {"save_any_names_but_these", std::move(names)};
}
inline RematPolicy save_anything_except_these_names(std::vector<std::string> names) {
  return {"save_anything_except_these_names", std::move(names)};
}

}  // namespace checkpoint_policies

struct RematOptions {
  RematPolicy policy = {};
};

namespace internal {

tree::AnyTree remat_of(const TreeFunction& function, const RematPolicy& policy, const CallSite& site,
                       std::span<TreeArgument> arguments);

template <class F, class... P, class... Args>
auto call_remat(F& function, const RematPolicy& policy, const CallSite& site,
                std::type_identity<std::tuple<P...>> types, const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  auto arguments = tree_arguments(types, args...);
  return remat_of(tree_function<Result>(function, types), policy, site, arguments).template take<Result>();
}

void change_to_named(tree::TreeRef tree, const std::string& name, const CallSite& site);

}  // namespace internal

/// A function that computes `function` and keeps nothing of it for the reverse derivative except its
/// arguments and the values that the policy selects. Everything else that the derivative needs is computed
/// again, which takes time and saves memory. JAX's jax.remat, which it also calls jax.checkpoint;
/// lockstep::checkpoint is for saving and restoring. Works in scans, in itself and in every transformation.
template <class F>
auto remat(F&& function, RematOptions options, std::source_location where = std::source_location::current()) {
  return [
    held = internal::Held<std::decay_t<F>>{std::forward<F>(function)}, policy = std::move(options.policy),
    site = CallSite::from(where)
  ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return internal::call_remat(held.function, policy, site,
                                internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}
template <class F>
auto remat(F&& function, std::source_location where = std::source_location::current()) {
  return remat(std::forward<F>(function), RematOptions(), where);
}

/// Returns the tree, and gives its arrays a name for the policies of remat
/// (jax.ad_checkpoint.checkpoint_name).
template <class Tree>
Tree checkpoint_name(Tree tree, const std::string& name,
                     std::source_location where = std::source_location::current()) {
  internal::change_to_named(tree::tree_ref(tree), name, CallSite::from(where));
  return tree;
}

}  // namespace lockstep
