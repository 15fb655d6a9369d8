// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/tree_function.h"

#include <fmt/format.h>

#include "lockstep/jit/jit_cache.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/tree/path.h"

namespace lockstep::internal {
namespace {

struct Outliner final : tree::Visitor {
  explicit Outliner(std::string name) : place(std::move(name)) { path.kept = &place; }

  void leaf(Array&) override { out.paths.push_back(place.text()); }
  void size(std::size_t value) override { add(".size()=", fmt::format("{}", value)); }
  void text(const std::string& value) override { add("=", value); }
  void real(double value) override { add("=", fmt::format("{}", value)); }
  void long_real(long double value) override { add("=", fmt::format("{}", value)); }
  void natural(std::uint64_t value) override { add("=", fmt::format("{}", value)); }
  void integer(std::int64_t value) override { add("=", fmt::format("{}", value)); }

  tree::Path place;
  TreeOutline out;

 private:
  void add(std::string_view what, const std::string& value) {
    out.structure.append(place.text()).append(what).append(value).append(" ");
  }
};

}  // namespace

tree::AnyTree TreeFunction::operator()(std::span<const tree::AnyTree> arguments) const {
  std::vector<void*> trees;
  for (const tree::AnyTree& argument : arguments) trees.push_back(argument->tree);
  return {call(function, trees.data()), *result};
}

std::vector<tree::TreeRef> with_numbers_as_arrays(std::span<TreeArgument> arguments) {
  std::vector<tree::TreeRef> all;
  for (TreeArgument& argument : arguments) {
    if (argument.is_number()) argument.make_array();
    all.push_back(argument.ref());
  }
  return all;
}

std::vector<Array> all_leaves(std::span<const tree::TreeRef> trees) {
  std::vector<Array> all;
  for (const tree::TreeRef& tree : trees)
    tree.for_each_leaf([&](const Array& array) { all.push_back(array); });
  return all;
}

TreeCopies::TreeCopies(std::span<const tree::TreeRef> originals, std::span<const Array> arrays)
    : rest(arrays) {
  for (const tree::TreeRef& original : originals) {
    trees.push_back(tree::AnyTree::copy_of(original));
    rest = trees.back()->replace_leaves(rest);
    refs.push_back(trees.back().ref());
  }
}

TreeOutline outline(tree::TreeRef tree, const std::string& name) {
  Outliner outliner(name);
  tree.type->visit(tree.tree, outliner);
  return std::move(outliner.out);
}

TracedFunction trace_function(std::string_view name, const TreeFunction& function,
                              std::span<const tree::TreeRef> arguments, const MakeInput& input) {
  TracedFunction all;
  Trace trace{std::string(name)};
  std::vector<tree::AnyTree> tracers;
  std::size_t next = 0;
  for (const tree::TreeRef& argument : arguments) {
    tracers.push_back(tree::AnyTree::copy_of(argument));
    tracers.back()->change_leaves([&](Array& array) {
      array = input ? input(trace, array, next) : trace.input(array.aval());
      ++next;
    });
  }
  all.result = function(tracers);
  all.traced.program = trace.finish(all.result->leaves());
  all.traced.captures = trace.captures();
  return all;
}

std::vector<Array> run_in_trace(std::string_view name, const CallSite& site, const std::vector<Array>& inputs,
                                const ArraysFunction& body) {
  if (Trace::current() != nullptr) return body(inputs);
  using Arrays = std::vector<Array>;
  constexpr std::type_identity<std::tuple<Arrays>> types;
  auto arguments = tree_arguments(types, inputs);
  JitCache program({.name = std::string(name)}, site);
  return program.call_traced(tree_function<Arrays>(body, types), arguments).take<Arrays>();
}

tree::AnyTree run_trees_in_trace(std::string_view name, const CallSite& site,
                                 std::span<const tree::TreeRef> trees, const TreesFunction& body) {
  if (Trace::current() != nullptr) return body({trees.begin(), trees.end()});
  tree::AnyTree result;
  const std::vector<Array> outputs =
      run_in_trace(name, site, all_leaves(trees), [&](const std::vector<Array>& inputs) {
        result = body(TreeCopies(trees, inputs).refs);
        return result->leaves();
      });
  result->replace_leaves(outputs);
  return result;
}

}  // namespace lockstep::internal
