// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/contents.h"

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

struct Collector final : tree::Visitor {
  Contents all;
  tree::Path place;
  Collector() { path.kept = &place; }
  void leaf(Array& array) override { all.arrays.push_back({place.text(), array}); }
  void value(const tree::ValueRef& value) override { all.values.emplace(place.text(), value.get()); }
};

struct Filler final : tree::Visitor {
  const Contents& all;
  std::size_t next = 0;
  tree::Path place;
  explicit Filler(const Contents& all) : Visitor(true), all(all) { path.kept = &place; }
  void leaf(Array& array) override { array = all.arrays[next++].array; }
  void value(const tree::ValueRef& value) override {
    const Value& saved = all.values.at(place.text());
    if (value.set(saved)) return;
    throw CheckpointError("[checkpoint] " + place.text() + " is " + to_string(saved) +
                          ", which the tree's type cannot hold");
  }
};

}  // namespace

Contents contents_of(tree::TreeRef tree) {
  Collector collector;
  tree.type->visit(tree.tree, collector);
  return std::move(collector.all);
}

void put_contents(tree::TreeRef tree, const Contents& contents) {
  Filler filler(contents);
  tree.type->visit(tree.tree, filler);
}

}  // namespace lockstep::checkpoint
