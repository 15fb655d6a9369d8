// SPDX-License-Identifier: Apache-2.0
// Options for each array of a tree, of each transformation that has some: one for all, one for each, by path;
// and what does not fit.

#include "lockstep/jit/grad.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using test::waves;
using ::testing::HasSubstr;

struct Layer {
  Array w, b;
};
struct Model {
  std::vector<Layer> layers;
  Array scale;
};

Model model() {
  return {.layers = {{waves({8, 4}), waves({4}, 2)}, {waves({8, 4}, 3), waves({4}, 4)}},
          .scale = waves({4}, 5)};
}

Model doubled(const Model& m) {
  return tree::map([](const Array& x) { return 2.0 * x; }, m);
}

void expect_all_equal(const Model& actual, const Model& expected) {
  const auto a = tree::leaves_with_path(actual), b = tree::leaves_with_path(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE(a[i].first);
    expect_equal(a[i].second, b[i].second);
  }
}

/// The partition specs of the arrays, "layers[0].w P("x")" and so on.
std::vector<std::string> specs_of(const Model& m) {
  std::vector<std::string> all;
  for (const auto& [path, x] : tree::leaves_with_path(m))
    all.push_back(path + " " + x.sharding().spec().to_string());
  return all;
}

/// The spec of each array: w over its rows, b over its only dimension, scale whole.
const tree::Rules<P> by_path{{"layers[*].w", P("x")}, {"*.b", P("x")}, {"*", P()}};

tree::Rules<Sharding> shardings(const Mesh& mesh) {
  std::vector<tree::Rules<Sharding>::Rule> rules;
  for (const auto& rule : by_path.rules()) rules.push_back({rule.glob, NamedSharding(mesh, rule.value)});
  return tree::Rules<Sharding>(std::move(rules));
}

TEST(PerLeafOptions, JitPutsEachArrayWhereItsRuleSays) {
  const Mesh mesh = line_mesh();
  const Model m = model(), twice = doubled(m);
  const Sharding split = NamedSharding(mesh, P("x")), whole = NamedSharding(mesh, P());
  const std::vector<std::optional<Sharding>> in_order{split, split, split, split, whole};
  const tree::PerLeaf<std::optional<Sharding>> each = in_order;
  const std::vector<std::string> expected = specs_of(jit(doubled, {.out_shardings = {each}})(m));
  EXPECT_THAT(expected.front(), HasSubstr("layers[0].w"));
  for (const JitOptions& options :
       {JitOptions{.out_shardings = {shardings(mesh)}}, JitOptions{.out_shardings = shardings(mesh)},
        JitOptions{.in_shardings = {shardings(mesh)}, .out_shardings = {each}},
        JitOptions{.in_shardings = {each}, .out_shardings = {shardings(mesh)}}}) {
    const Model result = jit(doubled, options)(m);
    EXPECT_EQ(specs_of(result), expected);
    expect_all_equal(result, twice);
    EXPECT_EQ(result.layers[1].w.sharding(), split);
    EXPECT_EQ(result.scale.sharding(), whole);
    expect_all_equal(jit([&](Model x) { return jit(doubled, options)(x); })(m), twice);
  }
  const Model apart = tree::map([&](const Array& x) { return device_put(x, split); }, m);
  EXPECT_THAT(
      error_of<ShardingError>([&] { jit(doubled, {.in_shardings = {shardings(mesh)}})(apart); }),
      HasSubstr("argument array 4 (f32[4]) has NamedSharding(Mesh(x=4), P('x')), but in_shardings asks for"));
}

TEST(PerLeafOptions, WithinATrace_EachShardingIsAConstraintOnItsArray) {
  const Mesh mesh = line_mesh();
  auto outer = jit([&](Model m) { return jit(doubled, {.out_shardings = {shardings(mesh)}})(m); });
  const std::string program = outer.lower(model()).program;
  EXPECT_EQ(test::count(program, "sharding_constraint"), 5u) << program;
}

TEST(PerLeafOptions, DonatesTheArraysThatARuleNames) {
  auto step = [](Model m, Array x) { return std::pair(doubled(m), 2.0 * x); };
  const Model m = jit(doubled)(model());
  const Array x = waves({3}) + 0.0;
  const tree::Rules<bool> weights{{"*.w", true}, {"*", false}};
  auto [result, y] = jit(step, {.donate_argnums = {{0, weights}}})(m, x);
  for (const auto& [path, array] : tree::leaves_with_path(m))
    EXPECT_EQ(array.is_deleted(), path.ends_with(".w")) << path;
  EXPECT_FALSE(x.is_deleted());
  jit(step, {.donate_argnums = {{0, {false, false, false, false, true}}, 1}})(result, x);
  for (const auto& [path, array] : tree::leaves_with_path(result))
    EXPECT_EQ(array.is_deleted(), path == "scale") << path;
  EXPECT_TRUE(x.is_deleted());
}

TEST(PerLeafOptions, VmapMapsEachArrayAlongItsAxis) {
  const Array rows = waves({3, 4}), columns = waves({4, 3}, 2), same = waves({4}, 3);
  auto f = [](Layer in, Array k) { return std::pair(Layer{in.w * in.b, in.w + k}, sum(in.b)); };
  auto plain = [&](std::int64_t i) { return f(Layer{index(rows, i), index(transpose(columns), i)}, same); };
  using Axes = tree::PerLeaf<std::optional<int>>;
  const tree::Rules<std::optional<int>> rules{{"w", 0}, {"b", 1}};
  for (const VmapOptions& options :
       {VmapOptions{.in_axes = {rules, std::nullopt}, .out_axes = {tree::Rules<int>{{"w", 1}, {"*", 0}}, 0}},
        VmapOptions{.in_axes = {Axes{0, 1}, std::nullopt}, .out_axes = {{1, 0}, 0}}}) {
    const auto [layer, sums] = vmap(f, options)(Layer{rows, columns}, same);
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto [expected, total] = plain(i);
      expect_equal(index(transpose(layer.w), i), expected.w);
      expect_equal(index(layer.b, i), expected.b);
      expect_equal(index(sums, i), total);
    }
  }
  const Array all = vmap([](Array x, Array y) { return x * y; }, {.in_axes = 1, .out_axes = 1})(rows, rows);
  expect_equal(all, rows * rows);
}

TEST(PerLeafOptions, ShardMapSplitsEachArrayByItsSpec) {
  const Mesh mesh = line_mesh();
  const Model m = model();
  std::vector<Shape> seen;
  auto f = [&](Model part) {
    seen = {part.layers[0].w.shape(), part.layers[0].b.shape(), part.scale.shape()};
    return doubled(part);
  };
  const Model result = shard_map(f, {mesh, {by_path}, by_path})(m);
  EXPECT_EQ(seen, (std::vector<Shape>{{2, 4}, {1}, {4}}));
  expect_all_equal(result, doubled(m));
  const tree::PerLeaf<P> in_order{P("x"), P("x"), P("x"), P("x"), P()};
  expect_all_equal(shard_map(f, {mesh, {in_order}, {in_order}})(m), doubled(m));
}

TEST(PerLeafOptions, PmapMapsEachArrayAlongItsAxis) {
  const Array w = waves({4, 3}), b = waves({3, 4}, 2), same = waves({3}, 3);
  const tree::Rules<std::optional<int>> rules{{"layers[0].w", 0}, {"layers[0].b", 1}, {"*", std::nullopt}};
  auto f = [](Model m) { return Model{{{m.layers[0].w * m.scale, m.layers[0].b + m.scale}}, m.scale * 2.0}; };
  const Model result = pmap(f, {.in_axes = {rules}, .out_axes = {rules}})(Model{{{w, b}}, same});
  expect_equal(result.layers[0].w, w * same);
  expect_equal(result.layers[0].b, b + reshape(same, {3, 1}));
  expect_equal(result.scale, same * 2.0);
}

TEST(PerLeafOptions, ThatDoNotFit_AreErrors) {
  const Mesh mesh = line_mesh();
  const Sharding split = NamedSharding(mesh, P("x"));
  const Model m = model();
  const std::vector<std::optional<Sharding>> three{split, split, split};
  const tree::PerLeaf<std::optional<Sharding>> few = three;
  const tree::Rules<Sharding> missing{{"*.w", split}};
  auto jitted = [&](JitOptions options) { return [&, options] { jit(doubled, options)(m); }; };
  EXPECT_THAT(error_of<ShardingError>(jitted({.in_shardings = {few}})),
              HasSubstr("[jit] in_shardings of argument 0 (at per_leaf_options_test.cc"));
  EXPECT_THAT(error_of<ShardingError>(jitted({.in_shardings = {few}})), HasSubstr("3 values for 5 arrays"));
  EXPECT_THAT(error_of<ShardingError>(jitted({.in_shardings = {missing}})),
              HasSubstr("no rule is for the array at \"layers[0].b\"; the rules are for \"*.w\""));
  EXPECT_THAT(error_of<ShardingError>(jitted({.out_shardings = missing})),
              HasSubstr("[jit] out_shardings of result 0"));
  EXPECT_THAT(error_of<ShardingError>(jitted({.donate_argnums = {{0, {true}}}})),
              HasSubstr("[jit] donate_argnums of argument 0"));
  EXPECT_THAT(error_of<ShardingError>(
                  [&] { jit([&](Model x) { return jit(doubled, {.out_shardings = missing})(x); })(m); }),
              HasSubstr("[jit] out_shardings of result 0"));

  auto mapped = [&](VmapOptions options) { return [&, options] { vmap(doubled, options)(m); }; };
  const tree::Rules<std::optional<int>> axes{{"*.w", 0}};
  EXPECT_THAT(error_of<ShapeError>(mapped({.in_axes = {axes}})), HasSubstr("[vmap] in_axes of argument 0"));
  EXPECT_THAT(error_of<ShapeError>(mapped({.in_axes = {0, 0}})),
              HasSubstr("[vmap] in_axes has 2 entries, but the function"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                vmap(doubled, {.out_axes = {{0, 0}}})(Model{{}, waves({4})});
              }),
              HasSubstr("[vmap] out_axes of result 0"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                vmap(doubled, {.out_axes = {0, 0}})(Model{{}, waves({4})});
              }),
              HasSubstr("[vmap] expected out_axes for 1 results, got 2"));

  EXPECT_THAT(error_of<ShardingError>([&] {
                shard_map(doubled, {mesh, {{P(), P()}}, P()})(m);
              }),
              HasSubstr("[shard_map] in_specs of argument 0"));
  EXPECT_THAT(error_of<ShardingError>([&] {
                shard_map(doubled, {mesh, P(), tree::Rules<P>{{"a", P()}}})(m);
              }),
              HasSubstr("[shard_map] out_specs of result 0"));
  EXPECT_THAT(error_of<ShardingError>([&] { pmap(doubled, {.in_axes = {axes}})(m); }),
              HasSubstr("[pmap] in_axes of argument 0"));
}

}  // namespace
}  // namespace lockstep
