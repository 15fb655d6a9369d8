// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/per_leaf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/testing/errors.h"

namespace lockstep::tree {
namespace {

using lockstep::testing::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Layer {
  Array w, b;
};
struct Model {
  std::vector<Layer> layers;
  std::map<std::string, Array> heads;
};
Model model() { return {.layers = {{1, 2}, {3, 4}}, .heads = {{"a[0]", 5}}}; }

template <class T>
std::vector<T> values(const PerLeaf<T>& all, const Model& tree = model()) {
  return all.template of<ShardingError>(tree_ref(tree), "[test] values");
}

TEST(Matches, Globs_MatchTheWholePath) {
  auto yes = [](std::string_view glob, std::string_view path) {
    EXPECT_TRUE(internal::matches(glob, path)) << glob << " " << path;
  };
  auto no = [](std::string_view glob, std::string_view path) {
    EXPECT_FALSE(internal::matches(glob, path)) << glob << " " << path;
  };
  yes("", ""), yes("*", ""), yes("**", ""), no("?", ""), no("", "a");
  yes("a", "a"), no("a", "b"), no("a", "ab"), no("ab", "a");
  yes("layers[*].w", "layers[12].w"), no("layers[*].w", "layers[12].wide"),
      no("layers[*].w", "x.layers[1].w");
  yes("layers[?].w", "layers[1].w"), no("layers[?].w", "layers[12].w");
  yes("*.w", "layers[0].w"), no("*.w", "w"), yes("*w", "w"), yes("*w*", "w");
  yes("*a*b*c", "xaxbxbxc"), no("*a*b*c", "xaxbxbx"), yes("a*a*a", "aaaa"), no("a*a*a", "aa");
  yes("[\"a[0]\"]", "[\"a[0]\"]"), no("[0]", "0");
}

/// All globs and paths of few letters, against a definition that is slow and plain.
bool plainly_matches(std::string_view glob, std::string_view path) {
  if (glob.empty()) return path.empty();
  if (glob[0] == '*')
    return plainly_matches(glob.substr(1), path) || (!path.empty() && plainly_matches(glob, path.substr(1)));
  return !path.empty() && (glob[0] == '?' || glob[0] == path[0]) &&
         plainly_matches(glob.substr(1), path.substr(1));
}
std::vector<std::string> words(std::string_view letters, std::size_t longest) {
  std::vector<std::string> all{""};
  for (std::size_t i = 0; all[i].size() < longest; ++i) {
    for (char letter : letters) all.push_back(all[i] + letter);
  }
  return all;
}
TEST(Matches, EveryShortGlob_MatchesAsDefined) {
  for (const std::string& glob : words("ab*?", 5)) {
    for (const std::string& path : words("ab", 5))
      ASSERT_EQ(internal::matches(glob, path), plainly_matches(glob, path)) << glob << " " << path;
  }
}

TEST(PerLeaf, MayBeOneForAllOneForEachOrByPath) {
  EXPECT_THAT(values<int>(7), ElementsAre(7, 7, 7, 7, 7));
  EXPECT_THAT(values<int>({1, 2, 3, 4, 5}), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(values<int>(Rules<int>{{"layers[1].*", 3}, {"*.w", 1}, {"*", 0}}), ElementsAre(1, 0, 3, 3, 0));
  EXPECT_THAT(values<bool>(Rules<bool>{{"*.w", true}, {"*", false}}),
              ElementsAre(true, false, true, false, false));
  EXPECT_THAT(values<std::optional<int>>(Rules<int>{{"*", 2}}), ElementsAre(2, 2, 2, 2, 2));
  EXPECT_THAT(values<int>(7, Model()), ElementsAre());
}

TEST(PerLeaf, WithTooFewValuesOrRules_IsAnError) {
  EXPECT_EQ(
      error_of<ShardingError>([] {
        values<int>({1, 2});
      }),
      "[test] values: 2 values for 5 arrays; give one for each, in the order of the tree, or one for all");
  EXPECT_EQ(error_of<ShardingError>([] {
              values<int>(Rules<int>{{"*.w", 1}, {"*.b", 2}});
            }),
            "[test] values: no rule is for the array at \"heads[\"a[0]\"]\"; the rules are for \"*.w\", "
            "\"*.b\"; add one for it, or \"*\" as the last");
}

TEST(Prefix, MayBeOneForAllTreesOrAList) {
  auto of = [](const Prefix<int>& prefix, std::size_t i) { return values(*prefix.at(i)).back(); };
  const Prefix<int> all = 3, list{1, {1, 2, 3, 4, 5}, Rules<int>{{"*", 7}}}, none;
  EXPECT_TRUE(all.is_for_all());
  EXPECT_EQ(of(all, 0), 3);
  EXPECT_EQ(of(all, 9), 3);
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(of(list, 0), 1);
  EXPECT_EQ(of(list, 1), 5);
  EXPECT_EQ(of(list, 2), 7);
  EXPECT_EQ(list.at(3), nullptr);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.at(0), nullptr);
  const Prefix<int> one{4}, rules = Rules<int>{{"*", 6}}, values = std::vector<int>{1, 2};
  EXPECT_FALSE(one.is_for_all());
  EXPECT_EQ(one.size(), 1u);
  EXPECT_TRUE(rules.is_for_all());
  EXPECT_EQ(of(rules, 5), 6);
  EXPECT_EQ(values.size(), 2u);
  const Prefix<int> copy = list;
  EXPECT_EQ(copy.size(), 3u);
}

TEST(Rules, AreFunctionsOfAPath) {
  const Rules<int> rules{{"*.w", 1}, {"b?", 2}};
  EXPECT_EQ(rules("x.w"), 1);
  EXPECT_EQ(rules("b1"), 2);
  EXPECT_EQ(rules("b12"), std::nullopt);
  EXPECT_EQ(rules("b1", Array(1)), 2);
  EXPECT_THAT(error_of<ShapeError>([&] { rules("other", Array(1)); }),
              HasSubstr("[tree::Rules] no rule is for the array at \"other\""));
}

}  // namespace
}  // namespace lockstep::tree
