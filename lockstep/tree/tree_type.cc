// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/tree_type.h"

namespace lockstep::tree {
namespace {

struct Collector final : Visitor {
  std::vector<Array> all;
  void leaf(Array& array) override { all.push_back(array); }
};

struct Replacer final : Visitor {
  Replacer() : Visitor(true) {}
  std::span<const Array> arrays;
  std::size_t next = 0;
  void leaf(Array& array) override { array = arrays[next++]; }
};

struct Reader final : Visitor {
  const std::function<void(const Array&)>& f;
  explicit Reader(const std::function<void(const Array&)>& f) : f(f) {}
  void leaf(Array& array) override { f(array); }
};

struct Changer final : Visitor {
  const std::function<void(Array&)>& f;
  explicit Changer(const std::function<void(Array&)>& f) : Visitor(true), f(f) {}
  void leaf(Array& array) override { f(array); }
};

}  // namespace

std::vector<Array> TreeRef::leaves() const {
  Collector collector;
  type->visit(tree, collector);
  return std::move(collector.all);
}

std::size_t TreeRef::num_leaves() const {
  std::size_t count = 0;
  for_each_leaf([&](const Array&) { ++count; });
  return count;
}

void TreeRef::for_each_leaf(const std::function<void(const Array&)>& f) const {
  Reader reader(f);
  type->visit(tree, reader);
}

void TreeRef::change_leaves(const std::function<void(Array&)>& f) const {
  Changer changer(f);
  type->visit(tree, changer);
}

std::span<const Array> TreeRef::replace_leaves(std::span<const Array> arrays) const {
  Replacer replacer;
  replacer.arrays = arrays;
  type->visit(tree, replacer);
  return arrays.subspan(replacer.next);
}

AnyTree AnyTree::with_leaves(TreeRef tree, std::span<const Array> leaves) {
  AnyTree copy = copy_of(tree);
  copy->replace_leaves(leaves);
  return copy;
}

}  // namespace lockstep::tree
