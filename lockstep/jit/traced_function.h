// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"
#include "lockstep/jit/tree_function.h"
#include "lockstep/ops/nested_call.h"

/// Tracing of functions of trees.
namespace lockstep::internal {

/// The arrays of both.
inline std::vector<Array> joined(std::vector<Array> a, const std::vector<Array>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Copies of the trees with these arrays in place of their own.
struct TreeCopies {
  TreeCopies(std::span<const tree::TreeRef> originals, std::span<const Array> arrays);
  std::vector<tree::AnyTree> trees;
  std::vector<tree::TreeRef> refs;
  std::span<const Array> rest;  ///< arrays beyond those of the trees
};

/// The names of a tree's arrays and the rest of its structure; `name` is the tree's name.
TreeOutline outline(tree::TreeRef tree, const std::string& name);

/// A traced function: its program, the outside arrays that it uses, and its result, made of this trace's
/// tracers.
struct TracedFunction {
  TracedProgram traced;
  tree::AnyTree result;
};

/// Traces the function for these arguments. Each array becomes an input, made by `input(trace, array, number
/// of the array)` if that is given.
using MakeInput = std::function<Array(Trace&, const Array&, std::size_t)>;
TracedFunction trace_function(std::string_view name, const TreeFunction& function,
                              std::span<const tree::TreeRef> arguments, const MakeInput& input = nullptr);

/// body(inputs) in the current trace; without one, as a compiled program of its own.
std::vector<Array> run_in_trace(std::string_view name, const CallSite& site, const std::vector<Array>& inputs,
                                const ArraysFunction& body);

/// Like run_in_trace, for trees: body gets the trees with the inputs as their arrays, and returns a tree.
using TreesFunction = std::function<tree::AnyTree(const std::vector<tree::TreeRef>&)>;
tree::AnyTree run_trees_in_trace(std::string_view name, const CallSite& site,
                                 std::span<const tree::TreeRef> trees, const TreesFunction& body);

}  // namespace lockstep::internal
