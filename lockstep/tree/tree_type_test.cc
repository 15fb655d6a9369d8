// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/tree_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/tree/test_leaves.h"

namespace lockstep {
namespace {

using test::numbers;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

enum class Kind { kFirst, kSecond };

struct Layer {
  Array w;
  int heads = 0;
};

struct Model {
  std::map<std::string, Layer> layers;
  std::vector<Array> biases;
  bool causal = false;
  float scale = 0;
  long double exact = 0;
  unsigned char steps = 0;
  Kind kind = Kind::kFirst;
  std::string name;
  std::optional<Array> last;
};

/// All that a visitor is given, with its place.
struct Everything final : tree::Visitor {
  std::vector<std::string> seen;
  tree::Path place;
  Everything() { path.kept = &place; }
  void note(const std::string& what) { seen.push_back(place.text() + " " + what); }
  void leaf(Array& array) override { note("array " + std::to_string(array.item<std::int32_t>())); }
  void size(std::size_t n) override { note("size " + std::to_string(n)); }
  void text(const std::string& value) override { note("text " + value); }
  void real(double value) override { note("real " + std::to_string(value)); }
  void long_real(long double value) override { note("long real " + std::to_string(value)); }
  void natural(std::uint64_t value) override { note("natural " + std::to_string(value)); }
  void integer(std::int64_t value) override { note("integer " + std::to_string(value)); }
};

TEST(TreeType, AVisitor_GetsEachPartWithItsPath) {
  Model model{.layers = {{"a", {1, 4}}},
              .biases = {2, 3},
              .causal = true,
              .scale = 0.5f,
              .exact = 2,
              .steps = 7,
              .kind = Kind::kSecond,
              .name = "m"};
  Everything all;
  tree::type_of<Model>.visit(&model, all);
  EXPECT_THAT(all.seen, ElementsAre("layers size 1", "layers text a", "layers[\"a\"].w array 1",
                                    "layers[\"a\"].heads integer 4", "biases size 2", "biases[0] array 2",
                                    "biases[1] array 3", "causal natural 1", "scale real 0.500000",
                                    "exact long real 2.000000", "steps natural 7", "kind integer 1",
                                    "name text m", "last natural 0"));
}

TEST(TreeType, Leaves_AreReadAndReplacedInOrder) {
  const Model model{.layers = {{"a", {1, 4}}}, .biases = {2, 3}, .last = Array(5)};
  EXPECT_THAT(numbers(tree::tree_ref(model).leaves()), ElementsAre(1, 2, 3, 5));
  tree::AnyTree copy = tree::AnyTree::copy_of(tree::tree_ref(model));
  const std::vector<Array> others{6, 7, 8, 9, 10};
  EXPECT_THAT(numbers({copy->replace_leaves(others).front()}), ElementsAre(10));
  EXPECT_THAT(numbers(copy->leaves()), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(numbers(tree::tree_ref(model).leaves()), ElementsAre(1, 2, 3, 5));
  EXPECT_EQ(std::move(copy).take<Model>().layers.at("a").heads, 4);
}

TEST(TreeType, ElementsOfATuple_AreTreesOfTheirOwn) {
  const std::tuple<Array, std::vector<Array>, int> tuple(1, {2, 3}, 4);
  const tree::TreeRef all = tree::tree_ref(tuple);
  ASSERT_EQ(all.num_elements(), 3u);
  EXPECT_EQ(all.element(1).type, &tree::type_of<std::vector<Array>>);
  EXPECT_THAT(numbers(all.element(1).leaves()), ElementsAre(2, 3));
  EXPECT_THAT(all.element(2).leaves(), IsEmpty());

  const std::vector<Array> one{1, 2};
  ASSERT_EQ(tree::tree_ref(one).num_elements(), 1u);
  EXPECT_EQ(tree::tree_ref(one).element(0).tree, &one);
  EXPECT_EQ(tree::tree_ref(std::tuple<>()).num_elements(), 0u);
}

struct Same {
  Array w;
  int heads = 0;
};

TEST(TreeType, TypesOfEqualLayout_Differ) {
  EXPECT_NE(&tree::type_of<Layer>, &tree::type_of<Same>);
  EXPECT_NE(&tree::type_of<int>, &tree::type_of<unsigned>);
}

TEST(AnyTree, IsDestroyedOnce) {
  const Array array(1);
  const auto before = internal::data_of(array).use_count();
  {
    tree::AnyTree first = tree::AnyTree::copy_of(tree::tree_ref(array)), second;
    EXPECT_FALSE(second.valid());
    second = std::move(first);
    tree::AnyTree third = std::move(second);
    EXPECT_EQ(internal::data_of(array).use_count(), before + 1);
    const tree::TreeType& type = *third->type;
    void* released = third.release();
    EXPECT_FALSE(third.valid());
    type.destroy(released);
  }
  EXPECT_EQ(internal::data_of(array).use_count(), before);
}

}  // namespace
}  // namespace lockstep
