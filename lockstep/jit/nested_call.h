#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/jit.h"

/// What the functions that trace a function into a program within the program share: those of control_flow.h,
/// checkpoint.h and custom_derivative.h.
namespace lockstep::internal {

/// A tree's arrays by name, "[0]" or ".count" behind the name of the tree, and all that else makes its
/// structure.
struct TreeOutline {
  std::vector<std::string> paths;
  std::string structure;
};

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
  } else if constexpr (t::is_vector<Tree> || t::is_std_array<Tree>) {
    if constexpr (t::is_vector<Tree>) out.structure += path + ".size()=" + std::to_string(tree.size()) + " ";
    for (std::size_t i = 0; i < tree.size(); ++i) outline(tree[i], path + "[" + std::to_string(i) + "]", out);
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
    boost::pfr::for_each_field(
        tree, [&](const auto& field, std::size_t i) { outline(field, path + "." + std::to_string(i), out); });
  }
}

template <class Tree>
TreeOutline outline(const Tree& tree, const std::string& name) {
  TreeOutline out;
  outline(tree, name, out);
  return out;
}

/// A program that was traced within another, and the arrays from outside that it uses: its last inputs.
struct TracedProgram {
  Program program;
  std::vector<Array> captures;
};

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

/// The arrays that some of the programs use from outside, each once; and for every program its inputs changed
/// to those arrays, then its own inputs that are no captures.
std::vector<Array> merge_captures(std::vector<TracedProgram*> programs);

/// An equation of the current trace that holds programs.
std::vector<Array> emit_nested(const Primitive& primitive, OpParams params,
                               const std::vector<Array>& operands);

/// What a loop carries from one step to the next: what it starts with, and the avals that it has in the body.
/// A step may give less than a loop needs to know: a number whose dtype is weak at the start becomes of the
/// dtype that a step gives, and a value that varies between devices after a step is taken to vary from the
/// start.
class LoopCarry {
 public:
  /// `operation` ("scan") and `carry` are for messages.
  LoopCarry(std::string operation, TreeOutline carry, std::vector<Array> initial, const CallSite& site);

  std::size_t size() const { return avals_.size(); }
  std::vector<Array> tracers(Trace& trace) const;

  /// Within the body's trace: makes what the step gives fit. False where the body must be traced again, with
  /// other avals. Throws TraceError where structure, shape or dtype change, showing both and the path.
  bool settle(const TreeOutline& outline, std::vector<Array>& next);

  /// Every carry varies over these axes, too. True where that changes any.
  bool vary(const std::vector<std::string>& axes);

  /// What the loop starts with, of the avals found.
  std::vector<Array> initial() const;

 private:
  std::string operation_;
  TreeOutline outline_;
  std::vector<Array> initial_;
  std::vector<Aval> avals_;
  std::string site_;
};

}  // namespace lockstep::internal
