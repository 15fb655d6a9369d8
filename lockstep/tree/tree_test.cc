// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/tree/test_leaves.h"

namespace lockstep {
namespace {

using test::leaves_of;
using test::numbers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Layer {
  Array w, b;
};
enum class Kind : std::uint8_t { kPlain, kSpecial };
struct Model {
  std::vector<Layer> layers;
  int heads = 2;
  std::string name = "m";
  Kind kind = Kind::kPlain;
  std::optional<Array> scale;
};

/// All that a tree's structure tells, as text.
struct Structure final : tree::Visitor {
  std::vector<std::string> seen;
  void leaf(Array&) override { seen.push_back("*"); }
  void size(std::size_t value) override { seen.push_back(std::to_string(value)); }
  void text(const std::string& value) override { seen.push_back(value); }
  void natural(std::uint64_t value) override { seen.push_back(std::to_string(value)); }
  void integer(std::int64_t value) override { seen.push_back(std::to_string(value)); }
};

template <class Tree>
std::vector<std::string> structure_of(Tree tree) {
  Structure structure;
  tree::visit(tree, structure);
  return structure.seen;
}

TEST(Leaves, OfTreesOfEveryKind_AreInOrder) {
  EXPECT_THAT(leaves_of(Array(1)), ElementsAre(1));
  EXPECT_THAT(leaves_of(std::vector<Array>{1, 2}), ElementsAre(1, 2));
  EXPECT_THAT(leaves_of(std::array<Array, 3>{1, 2, 3}), ElementsAre(1, 2, 3));
  EXPECT_THAT(leaves_of(std::tuple<Array, float, Array>(1, 5.f, 2)), ElementsAre(1, 2));
  EXPECT_THAT(leaves_of(std::pair<Array, Array>(3, 4)), ElementsAre(3, 4));
  EXPECT_THAT(leaves_of(std::map<std::string, Array>{{"b", 2}, {"a", 1}}), ElementsAre(1, 2));
  EXPECT_THAT(leaves_of(std::optional<Array>(7)), ElementsAre(7));
  EXPECT_THAT(leaves_of(std::optional<Array>()), IsEmpty());
  EXPECT_THAT(leaves_of(std::tuple<>()), IsEmpty());
  EXPECT_THAT(leaves_of(3.5), IsEmpty());
}

TEST(Leaves, OfNestedAggregates_AreInFieldOrder) {
  Model model{.layers = {{1, 2}, {3, 4}}, .scale = Array(5)};
  EXPECT_THAT(leaves_of(model), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(leaves_of(std::pair(model, std::map<std::string, Model>{{"x", model}})),
              ElementsAre(1, 2, 3, 4, 5, 1, 2, 3, 4, 5));
}

// Members of every kind of array, in every place.
struct Arrays {
  std::array<Array, 3> a;
  Array b;
};
struct Nested {
  Array first[2];
  std::array<std::array<Arrays, 2>, 1> inner;
  int sizes[3] = {1, 2, 3};
  std::vector<Arrays> many;
  Array last[1][2];
};
struct OnlyArray {
  std::array<Array, 2> all;
};
struct Empty {};
struct WithEmpty {
  Empty none;
  std::array<Array, 0> no;
  OnlyArray only;
};

TEST(Leaves, OfAggregatesOfArrays_AreInOrder) {
  EXPECT_THAT(leaves_of(Arrays{{1, 2, 3}, 4}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(leaves_of(WithEmpty{.only = {{1, 2}}}), ElementsAre(1, 2));
  const Nested nested{.first = {1, 2},
                      .inner = {std::array<Arrays, 2>{Arrays{{3, 4, 5}, 6}, Arrays{{7, 8, 9}, 10}}},
                      .many = {{{11, 12, 13}, 14}},
                      .last = {{15, 16}}};
  EXPECT_THAT(leaves_of(nested), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16));
  EXPECT_THAT(tree::paths(nested),
              ElementsAre("first[0]", "first[1]", "inner[0][0].a[0]", "inner[0][0].a[1]", "inner[0][0].a[2]",
                          "inner[0][0].b", "inner[0][1].a[0]", "inner[0][1].a[1]", "inner[0][1].a[2]",
                          "inner[0][1].b", "many[0].a[0]", "many[0].a[1]", "many[0].a[2]", "many[0].b",
                          "last[0][0]", "last[0][1]"));
  const Nested ten = tree::map([](const Array& x) { return Array(10 * x.item<std::int32_t>()); }, nested);
  EXPECT_EQ(ten.last[0][1].item<std::int32_t>(), 160);
  EXPECT_EQ(ten.sizes[2], 3);
}

TEST(Visit, ReportsSizesKeysPresenceAndStaticFields) {
  Model model{.layers = {{1, 2}}, .heads = 8, .name = "big", .kind = Kind::kSpecial};
  EXPECT_THAT(structure_of(model), ElementsAre("1", "*", "*", "8", "big", "1", "0"));
  EXPECT_THAT(structure_of(std::map<std::string, Array>{{"a", 1}}), ElementsAre("1", "a", "*"));
  EXPECT_NE(structure_of(std::vector<std::vector<Array>>{{1, 2}, {}}),
            structure_of(std::vector<std::vector<Array>>{{1}, {2}}));
}

TEST(Map, KeepsStructureAndStaticFields) {
  Model model{.layers = {{1, 2}, {3, 4}}, .heads = 8, .name = "big", .scale = Array(5)};
  Model mapped = tree::map([](const Array& x) { return Array(10 * x.item<std::int32_t>()); }, model);
  EXPECT_THAT(leaves_of(mapped), ElementsAre(10, 20, 30, 40, 50));
  EXPECT_EQ(mapped.heads, 8);
  EXPECT_EQ(mapped.name, "big");
  EXPECT_THAT(leaves_of(model), ElementsAre(1, 2, 3, 4, 5));
}

TEST(Map, OverSeveralTrees_GivesTheirLeavesTogether) {
  auto add = [](const Array& x, const Array& y, const Array& z) {
    return Array(x.item<std::int32_t>() + y.item<std::int32_t>() + z.item<std::int32_t>());
  };
  std::vector<Array> x{1, 2};
  EXPECT_THAT(leaves_of(tree::map(add, x, std::vector<Array>{10, 20}, std::vector<Array>{100, 200})),
              ElementsAre(111, 222));
}

TEST(Map, OverTreesOfOtherSizes_IsAnError) {
  auto first = [](const Array& x, const Array&) { return x; };
  try {
    tree::map(first, std::vector<Array>{1, 2}, std::vector<Array>{1});
    FAIL() << "nothing was thrown";
  } catch (const ShapeError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("[tree::map] the trees differ: the first has an array at [1], where another has none"));
  }
}

TEST(Paths, NameFieldsElementsAndKeys) {
  Model model{.layers = {{1, 2}, {3, 4}}, .scale = Array(5)};
  EXPECT_THAT(tree::paths(model),
              ElementsAre("layers[0].w", "layers[0].b", "layers[1].w", "layers[1].b", "scale"));
  std::pair<std::map<std::string, Layer>, Array> nested({{"a b", {1, 2}}}, 3);
  EXPECT_THAT(tree::paths(nested), ElementsAre("[0][\"a b\"].w", "[0][\"a b\"].b", "[1]"));
  EXPECT_THAT(tree::paths(Array(1)), ElementsAre(""));
  EXPECT_EQ(tree::leaves_with_path(model)[4].first, "scale");
  EXPECT_EQ(tree::leaves_with_path(model)[4].second.item<std::int32_t>(), 5);
}

TEST(Map, WithPath_PassesTheLeafsPath) {
  Model model{.layers = {{1, 2}}};
  Model only_w = tree::map_with_path(
      [](const std::string& path, const Array& x) { return path.ends_with(".w") ? Array(0) : x; }, model);
  EXPECT_THAT(leaves_of(only_w), ElementsAre(0, 2));
}

TEST(Map, OverTreesThatDiffer_IsAnErrorThatNamesTheFirstPath) {
  auto first = [](const Array& x, const Array&) { return x; };
  auto message = [&](const auto& x, const auto& y) -> std::string {
    try {
      tree::map(first, x, y);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  Model one{.layers = {{1, 2}}, .scale = Array(5)}, two{.layers = {{1, 2}, {3, 4}}, .scale = Array(5)};
  EXPECT_EQ(
      message(one, two),
      "[tree::map] the trees differ: the first has an array at scale, where another has layers[1].w; give "
      "trees of one structure");
  EXPECT_THAT(message(two, Model{.layers = {{1, 2}, {3, 4}}}),
              HasSubstr("has an array at scale, where another has none"));
  using Map = std::map<std::string, Array>;
  EXPECT_THAT(message(Map{{"a", 1}}, Map{{"b", 1}}), HasSubstr("at [\"a\"], where another has [\"b\"]"));
  EXPECT_THAT(message(std::vector<Array>{1}, std::array<Array, 1>{1}), HasSubstr("nothing was thrown"));
}

TEST(Flatten, AndUnflatten_AreInverse) {
  Model model{.layers = {{1, 2}}, .heads = 8, .scale = Array(5)};
  auto [arrays, structure] = tree::flatten(model);
  EXPECT_THAT(numbers(arrays), ElementsAre(1, 2, 5));
  Model other = tree::unflatten(structure, {7, 8, 9});
  EXPECT_THAT(leaves_of(other), ElementsAre(7, 8, 9));
  EXPECT_EQ(other.heads, 8);
  EXPECT_EQ(structure, tree::structure(other));
  EXPECT_EQ(structure.to_string(), "(layers[0].w, layers[0].b, scale)");
  EXPECT_FALSE(structure == tree::structure(Model{.layers = {{1, 2}}, .heads = 4, .scale = Array(5)}));
  EXPECT_THROW(tree::unflatten(structure, {7, 8}), ShapeError);
}

TEST(Reduce, GoesOverTheLeavesInOrder) {
  Model model{.layers = {{1, 2}}, .scale = Array(5)};
  EXPECT_EQ(tree::reduce([](int sum, const Array& x) { return 10 * sum + x.item<std::int32_t>(); }, model, 0),
            125);
}

TEST(ReplaceLeaves, ReplacesTheArraysInOrder) {
  std::tuple<Array, std::map<std::string, Array>> tree(1, {{"a", 2}, {"b", 3}});
  std::vector<Array> others{7, 8, 9};
  auto next = others.begin();
  tree::replace_leaves(tree, next);
  EXPECT_THAT(leaves_of(tree), ElementsAre(7, 8, 9));
  EXPECT_EQ(next, others.end());
}

}  // namespace
}  // namespace lockstep
