// SPDX-License-Identifier: Apache-2.0
// Tests of which types may be trees, and of what is done with each kind.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "lockstep/tree/test_leaves.h"
#include "lockstep/tree/tree.h"

namespace lockstep {
namespace {

using test::leaves_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

enum class Color : std::uint8_t { kRed = 3, kBlue = 200 };

struct Layer {
  Array w, b;
};

/// A class that names its parts, private ones among them.
class Linear {
 public:
  Linear() = default;
  Linear(Array w, Array b, int heads) : w_(std::move(w)), b_(std::move(b)), heads_(heads) {}
  static void tree_parts(Linear& self, tree::Parts& part) {
    part("w", self.w_)("b", self.b_)("heads", self.heads_);
  }
  int heads() const { return heads_; }

 private:
  Array w_, b_;
  int heads_ = 0;
};

/// A class of somebody else's, whose parts a Node names.
class Foreign {
 public:
  explicit Foreign(Array x, std::string note) : x(std::move(x)), note(std::move(note)) {}
  Array x;
  std::string note;  ///< no part of the tree
};

/// An aggregate that a Node takes another way: one of its fields is not looked at.
struct Counted {
  Array x;
  int calls = 0;
};

}  // namespace

template <>
struct tree::Node<Foreign> {
  static void parts(Foreign& self, Parts& part) { part("x", self.x); }
};
template <>
struct tree::Node<Counted> {
  static void parts(Counted& self, Parts& part) { part("x", self.x); }
};

namespace {

/// A list that holds itself.
struct Chain {
  Array w;
  std::shared_ptr<Chain> next;
};
struct Branch {
  Array w;
  std::vector<Branch> branches;
};

struct NoFields {};
class NotAnAggregate {
 public:
  NotAnAggregate() {}
};

Array negated(const Array& x) { return Array(-x.item<std::int32_t>()); }
Array same(const Array& x) { return x; }

struct WithFunction {
  Array (*activation)(const Array&) = &same;
  Array w;
};

/// The tree's arrays are 1, 2, ... at these places; mapped it has others, and the first stays as it is.
template <class Tree>
void expect_tree(const Tree& tree, const std::vector<std::string>& paths) {
  std::vector<int> counted, negative;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    counted.push_back(static_cast<int>(i) + 1);
    negative.push_back(-static_cast<int>(i) - 1);
  }
  EXPECT_EQ(tree::paths(tree), paths);
  EXPECT_EQ(leaves_of(tree), counted);
  const Tree mapped = tree::map(negated, tree);
  EXPECT_EQ(leaves_of(mapped), negative);
  EXPECT_EQ(leaves_of(tree), counted) << "the tree that was mapped";
  EXPECT_EQ(tree::structure(mapped), tree::structure(tree));
  const auto [arrays, structure] = tree::flatten(tree);
  EXPECT_EQ(leaves_of(tree::unflatten(structure, arrays)), counted);
}

/// The structures of the trees differ, each from each.
template <class Tree>
void expect_different(const std::vector<Tree>& trees) {
  for (std::size_t i = 0; i < trees.size(); ++i) {
    for (std::size_t j = 0; j < trees.size(); ++j)
      EXPECT_EQ(tree::structure(trees[i]) == tree::structure(trees[j]), i == j) << i << " and " << j;
  }
}

TEST(Sequence, IsATree) {
  expect_tree(std::deque<Array>{1, 2}, {"[0]", "[1]"});
  expect_tree(std::list<Layer>{{1, 2}, {3, 4}}, {"[0].w", "[0].b", "[1].w", "[1].b"});
  expect_tree(std::pair(std::vector<bool>{true, false}, Array(1)), {"[1]"});
  expect_different<std::vector<bool>>({{true, false}, {true, true}, {true}});
}

TEST(MapWithOtherKeys, IsATree) {
  expect_tree(std::map<int, Layer>{{7, {3, 4}}, {-2, {1, 2}}}, {"[-2].w", "[-2].b", "[7].w", "[7].b"});
  expect_tree(std::map<std::uint64_t, Array>{{std::numeric_limits<std::uint64_t>::max(), 1}},
              {"[18446744073709551615]"});
  expect_tree(std::map<Color, Array>{{Color::kRed, 1}, {Color::kBlue, 2}}, {"[3]", "[200]"});
  expect_tree(std::map<std::string, Array, std::greater<>>{{"a", 2}, {"b", 1}}, {"[\"b\"]", "[\"a\"]"});
  using Map = std::map<int, Array>;
  expect_different<Map>({Map{{1, 0}}, Map{{2, 0}}, Map{{1, 0}, {2, 0}}, Map{}});
}

TEST(UnorderedMap, HasItsLeavesInTheOrderOfItsKeys) {
  std::unordered_map<std::string, Array> forwards, backwards;
  std::vector<std::string> paths;
  for (int i = 0; i < 100; ++i) {
    forwards[std::to_string(1000 + i)] = i + 1;
    backwards[std::to_string(1099 - i)] = 100 - i;
    paths.push_back(fmt::format("[\"{}\"]", 1000 + i));
  }
  backwards.rehash(1000);
  expect_tree(forwards, paths);
  expect_tree(backwards, paths);
  EXPECT_EQ(tree::structure(forwards), tree::structure(backwards));
  expect_tree(std::unordered_map<int, std::vector<Array>>{{5, {2, 3}}, {-5, {1}}},
              {"[-5][0]", "[5][0]", "[5][1]"});
}

TEST(Variant, IsTheTreeOfItsValue) {
  using Either = std::variant<std::monostate, Layer, std::vector<Array>, int>;
  expect_tree(Either(Layer{1, 2}), {"w", "b"});
  expect_tree(Either(std::vector<Array>{1}), {"[0]"});
  expect_tree(Either(3), {});
  expect_different<Either>(
      {Either(), Either(Layer{1, 2}), Either(std::vector<Array>{1, 2}), Either(3), Either(4)});
}

TEST(SharedPtr, IsTheTreeOfItsTarget) {
  expect_tree(std::make_shared<Layer>(Layer{1, 2}), {"w", "b"});
  expect_tree(std::shared_ptr<const Layer>(new Layer{1, 2}), {"w", "b"});
  expect_tree(Chain{1, std::make_shared<Chain>(Chain{2, std::make_shared<Chain>(Chain{3, nullptr})})},
              {"w", "next.w", "next.next.w"});
  expect_different<std::shared_ptr<Layer>>({nullptr, std::make_shared<Layer>()});
}

TEST(SharedPtr, MapOverASharedTree_LeavesTheOriginalUnchanged) {
  const auto inner = std::make_shared<Layer>(Layer{1, 2});
  const std::vector<std::shared_ptr<Layer>> twice{inner, inner};
  EXPECT_THAT(leaves_of(twice), ElementsAre(1, 2, 1, 2)) << "each is a tree by itself";
  int next = 5;
  const auto other = tree::map([&](const Array&) { return Array(next++); }, twice);
  EXPECT_THAT(leaves_of(other), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(leaves_of(twice), ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(twice[0], inner) << "reading copies nothing";
  tree::for_each_leaf(twice, [](const Array&) {});
  EXPECT_EQ(inner.use_count(), 3);
}

TEST(SharedPtr, AnUnsharedTree_IsChangedInPlace) {
  auto mine = std::make_shared<Layer>(Layer{1, 2});
  const Layer* place = mine.get();
  tree::for_each_leaf(mine, [](Array& x) { x = negated(x); });
  EXPECT_THAT(leaves_of(mine), ElementsAre(-1, -2));
  EXPECT_EQ(mine.get(), place);
}

TEST(ClassWithParts, IsATree) {
  expect_tree(Linear(1, 2, 8), {"w", "b"});
  EXPECT_EQ(tree::map(negated, Linear(1, 2, 8)).heads(), 8);
  expect_tree(std::vector<Linear>{{1, 2, 8}, {3, 4, 8}}, {"[0].w", "[0].b", "[1].w", "[1].b"});
  expect_different<Linear>({Linear(1, 2, 8), Linear(1, 2, 4)});
}

TEST(ClassWithANode, IsATree) {
  expect_tree(Foreign(1, "note"), {"x"});
  EXPECT_EQ(tree::map(negated, Foreign(1, "note")).note, "note") << "what is no part is copied";
  EXPECT_EQ(tree::structure(Foreign(1, "a")), tree::structure(Foreign(1, "b")));
  EXPECT_EQ(tree::structure(Counted{1, 1}), tree::structure(Counted{1, 2}));
}

TEST(EmptyClass, HasNoParts) {
  expect_tree(std::tuple(
                  NoFields(), NotAnAggregate(), [] {}, Array(1)),
              {"[3]"});
  EXPECT_THAT(leaves_of(NotAnAggregate()), IsEmpty());
}

TEST(FunctionPointer, IsAPartOfTheStructure) {
  expect_tree(WithFunction{.w = 1}, {"w"});
  expect_different<WithFunction>({{&same, 1}, {&negated, 1}, {nullptr, 1}});
}

TEST(Nested, TreesOfAnyDepth_AreTrees) {
  const Branch leaf{4, {}};
  expect_tree(Branch{1, {{2, {{3, {leaf}}}}, {5, {}}}},
              {"w", "branches[0].w", "branches[0].branches[0].w", "branches[0].branches[0].branches[0].w",
               "branches[1].w"});
  using Either = std::variant<int, std::shared_ptr<Linear>>;
  std::map<int, std::optional<std::vector<Either>>> deep;
  deep[2] = std::vector<Either>{4, std::make_shared<Linear>(1, 2, 8)};
  deep[3] = std::nullopt;
  expect_tree(deep, {"[2][1].w", "[2][1].b"});
}

TEST(Structure, NumbersThatDifferInTheLastBit_Differ) {
  expect_different<double>({1e-9, 2e-9, 0.1, std::nextafter(0.1, 1.0)});
}

TEST(ValueRef, SetsValuesThatFit_AndRefusesOthers) {
  using tree::Value;
  using tree::ValueRef;
  auto fits = [](auto into, const Value& value, bool expected) {
    const auto before = into;
    EXPECT_EQ(ValueRef(into).set(value), expected);
    if (expected)
      EXPECT_TRUE(ValueRef(into).get() == value);
    else
      EXPECT_TRUE(into == before);
  };
  fits(std::int8_t{5}, std::int64_t{-128}, true);
  fits(std::int8_t{5}, std::int64_t{-129}, false);
  fits(std::uint8_t{5}, std::uint64_t{255}, true);
  fits(std::uint8_t{5}, std::uint64_t{256}, false);
  fits(std::uint64_t{5}, std::int64_t{-1}, false);
  fits(std::int64_t{5}, std::uint64_t{1} << 63, false);
  fits(Color::kRed, std::int64_t{200}, true);
  fits(Color::kRed, std::int64_t{256}, false);
  fits(true, false, true);
  fits(true, std::int64_t{0}, false);
  fits(7, true, false);
  fits(0.5, std::int64_t{1}, false);
  fits(0.5, 0.25, true);
  fits(std::string("a"), std::string("b"), true);
  fits(std::string("a"), 0.5, false);
}

}  // namespace
}  // namespace lockstep
