#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"
#include "lockstep/ops/nested_call.h"

/// What the functions that trace a function into a program within the program share: those of control_flow.h,
/// checkpoint.h and custom_derivative.h, for trees; of arrays it is lockstep/ops/nested_call.h.
namespace lockstep::internal {

template <class Tree>
void outline(const Tree& tree, const std::string& path, TreeOutline& out) {
  namespace t = tree::internal;
  if constexpr (std::is_same_v<Tree, Array>) {
    out.paths.push_back(path);
  } else if constexpr (std::is_enum_v<Tree>) {
    out.structure += path + "=" + std::to_string(static_cast<long long>(tree)) + " ";
  } else if constexpr (std::is_same_v<Tree, std::string>) {
    out.structure += path + "=" + tree + " ";
  } else if constexpr (std::is_arithmetic_v<Tree>) {
    out.structure += path + "=" + std::to_string(tree) + " ";
  } else if constexpr (t::is_vector<Tree> || t::is_array<Tree>) {
    if constexpr (t::is_vector<Tree>) out.structure += path + ".size()=" + std::to_string(tree.size()) + " ";
    std::size_t i = 0;
    for (const auto& child : tree) outline(child, path + "[" + std::to_string(i++) + "]", out);
  } else if constexpr (t::is_tuple<Tree>) {
    std::size_t i = 0;
    std::apply(
        [&](const auto&... child) { (outline(child, path + "<" + std::to_string(i++) + ">", out), ...); },
        tree);
  } else if constexpr (t::is_map<Tree>) {
    out.structure += path + ".size()=" + std::to_string(tree.size()) + " ";
    for (const auto& [key, child] : tree) {
      out.structure += path + "[" + key + "] ";
      outline(child, path + "[\"" + key + "\"]", out);
    }
  } else if constexpr (t::is_optional<Tree>) {
    out.structure += path + (tree ? ".has_value() " : "=nullopt ");
    if (tree) outline(*tree, path, out);
  } else {
    std::size_t i = 0;
    fields::apply(tree, [&](const auto&... field) {
      (outline(field, path + "." + std::to_string(i++), out), ...);
    });
  }
}

template <class Tree>
TreeOutline outline(const Tree& tree, const std::string& name) {
  TreeOutline out;
  outline(tree, name, out);
  return out;
}

/// A copy of the tree with these arrays as its leaves.
template <class Tree>
Tree with_leaves(const Tree& tree, const std::vector<Array>& leaves) {
  Tree copy = tree;
  auto next = leaves.begin();
  tree::replace_leaves(copy, next);
  return copy;
}

/// Calls `body(args...)` in the current trace; outside of any as a program of its own.
template <class Body, class... Args>
auto run_traced(const char* name, const CallSite& site, Body body, const Args&... args) {
  if (Trace::current() != nullptr) return body(args...);
  return Jitted<Body>(body, {.name = name}, site)(args...);
}

/// The function traced for these arguments, with its result's leaves as outputs.
template <class F, class... Args>
auto trace_function(const char* name, F& function, TracedProgram& traced, const Args&... args) {
  Trace trace(name);
  std::tuple<std::decay_t<Args>...> tracers{as_tracers<std::decay_t<Args>>(trace, args)...};
  auto result = std::apply([&](auto&... each) { return function(std::move(each)...); }, tracers);
  traced.program = trace.finish(tree::leaves(result));
  traced.captures = trace.captures();
  return result;
}

/// The leaves of all the trees.
template <class... Trees>
std::vector<Array> all_leaves(const Trees&... trees) {
  std::vector<Array> all;
  [[maybe_unused]] auto add = [&](const auto& tree) {
    for (Array& leaf : tree::leaves(tree)) all.push_back(std::move(leaf));
  };
  (add(trees), ...);
  return all;
}

}  // namespace lockstep::internal
