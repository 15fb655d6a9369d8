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
/// remat.h and custom_derivative.h, for trees; of arrays it is lockstep/ops/nested_call.h.
namespace lockstep::internal {

/// A visitor of trees that writes an outline.
class Outliner {
 public:
  explicit Outliner(std::string name) : path(std::move(name)) {}

  void leaf(const Array&) { out.paths.push_back(path.text()); }
  void size(std::size_t size) { add(".size()=", std::to_string(size)); }
  template <class T>
  void structure(const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      add("=", value);
    else if constexpr (std::is_enum_v<T>)
      add("=", std::to_string(static_cast<long long>(value)));
    else
      add("=", std::to_string(value));
  }

  tree::Path path;
  TreeOutline out;

 private:
  void add(std::string_view what, const std::string& value) {
    out.structure.append(path.text()).append(what).append(value).append(" ");
  }
};

template <class Tree>
TreeOutline outline(const Tree& tree, const std::string& name) {
  Outliner outliner(name);
  tree::visit(tree, outliner);
  return std::move(outliner.out);
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
  return in_trace(body, name, site, args...);
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
