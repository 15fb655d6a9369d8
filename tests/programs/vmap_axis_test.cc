// SPDX-License-Identifier: Apache-2.0
// vmap by name: collectives between the examples within all that holds programs, and where examples lie.

#include <functional>
#include <map>

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/ops/collectives.h"

namespace lockstep {
namespace {

using test::count;
using test::error_of;
using test::expect_equal;
using test::square_mesh;
using test::waves;
using ::testing::HasSubstr;

using UnaryFunction = std::function<Array(Array)>;
using ArrayPair = std::pair<Array, Array>;

/// A function within another construct, and the same computation without the construct.
struct Nesting {
  std::function<UnaryFunction(UnaryFunction)> with, without;
};

UnaryFunction plain(const UnaryFunction& f) { return f; }

UnaryFunction scan_of_constants(const UnaryFunction& f) {
  return [=](Array x) {
    auto step = [=](Array c, std::tuple<>) { return std::pair(c + f(x), std::tuple<>()); };
    return scan(step, zeros({3}), std::tuple<>(), {.length = 2}).first;
  };
}

/// The carry does not start from x.
UnaryFunction scan_of_elements(const UnaryFunction& f) {
  return [=](Array x) {
    auto step = [=](Array c, Array w) { return ArrayPair(c + w, f(x * w)); };
    auto [carry, ys] = scan(step, zeros({}), array({1.f, 2.f}));
    return sum(ys, 0) + carry;
  };
}

UnaryFunction through_while(const UnaryFunction& f) {
  return [=](Array x) {
    auto step = [=](const ArrayPair& s) { return ArrayPair(s.first + 1, s.second * 0.5 + f(x)); };
    return while_loop([](const ArrayPair& s) { return s.first < 2; }, step,
                      ArrayPair(zeros({}, int32), zeros({3})))
        .second;
  };
}

std::map<std::string, Nesting> nestings() {
  const UnaryFunction cosine = [](Array x) { return cos(x); };
  auto rule = [](const UnaryFunction& f) {
    return custom_jvp(f, [f](std::tuple<Array> x, std::tuple<Array> t) {
      return ArrayPair(f(std::get<0>(x)), pmean(std::get<0>(t), "i") * f(std::get<0>(x)));
    });
  };
  auto backwards = [](const UnaryFunction& f) {
    return custom_vjp(
        f, [f](Array x) { return ArrayPair(f(x), x); },
        [f](Array x, Array g) { return pmean(g, "i") * f(x); });
  };
  return {
      {"remat", {[](UnaryFunction f) -> UnaryFunction { return remat(f); }, plain}},
      {"jit", {[](UnaryFunction f) -> UnaryFunction { return jit(f); }, plain}},
      {"scan of constants",
       {scan_of_constants,
        [](UnaryFunction f) -> UnaryFunction { return [=](Array x) { return f(x) + f(x); }; }}},
      {"scan of elements",
       {scan_of_elements,
        [](UnaryFunction f) -> UnaryFunction { return [=](Array x) { return f(x) + f(x * 2) + 3; }; }}},
      {"while",
       {through_while, [](UnaryFunction f) -> UnaryFunction { return [=](Array x) { return f(x) * 1.5; }; }}},
      {"cond, true",
       {[=](UnaryFunction f) -> UnaryFunction {
          return [=](Array x) { return cond(ones({}) > 0, f, cosine, x); };
        },
        plain}},
      {"cond, false",
       {[=](UnaryFunction f) -> UnaryFunction {
          return [=](Array x) { return cond(ones({}) > 9, f, cosine, x); };
        },
        [=](UnaryFunction) { return cosine; }}},
      {"cond, by example",
       {[=](UnaryFunction f) -> UnaryFunction {
          return [=](Array x) { return cond(axis_index("i") > 0, f, cosine, x); };
        },
        [=](UnaryFunction f) -> UnaryFunction {
          return [=](Array x) { return where(axis_index("i") > 0, f(x), cos(x)); };
        }}},
      {"switch",
       {[=](UnaryFunction f) -> UnaryFunction {
          return [=](Array x) { return switch_(ones({}, int32), std::vector<UnaryFunction>{cosine, f}, x); };
        },
        plain}},
      {"map",
       {[](UnaryFunction f) -> UnaryFunction {
          return [=](Array x) { return sum(map(f, stack({x, x * 2})), 0); };
        },
        [](UnaryFunction f) -> UnaryFunction { return [=](Array x) { return f(x) + f(x * 2); }; }}},
      {"remat in a scan",
       {[](UnaryFunction f) { return scan_of_constants(remat(f)); },
        [](UnaryFunction f) -> UnaryFunction { return [=](Array x) { return f(x) + f(x); }; }}},
      {"custom_jvp", {[=](UnaryFunction f) -> UnaryFunction { return rule(f); }, nullptr}},
      {"custom_vjp", {[=](UnaryFunction f) -> UnaryFunction { return backwards(f); }, nullptr}},
      {"custom_jvp in a scan", {[=](UnaryFunction f) { return scan_of_constants(rule(f)); }, nullptr}},
  };
}

std::map<std::string, UnaryFunction> collectives() {
  return {
      {"index, of a constant", [](Array) { return ones({3}) * (axis_index("i") + 1); }},
      {"index", [](Array x) { return x * (axis_index("i") + 1); }},
      {"sum", [](Array x) { return sin(x) * psum(x, "i"); }},
      {"mean", [](Array x) { return pmean(x * x, "i"); }},
      {"sum of a constant", [](Array x) { return x + psum(ones({3}), "i"); }},
      {"gather", [](Array x) { return x * sum(all_gather(x, "i"), 0); }},
      {"permute",
       [](Array x) {
         return x + ppermute(sin(x), "i", {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
       }},
      {"scatter",
       [](Array x) {
         return x + psum_scatter(stack({x, x * x, x, sin(x)}), "i");
       }},
  };
}

TEST(VmapAxis, CollectivesInNestedPrograms_AreBetweenTheExamples) {
  const Array xs = waves({4, 3});
  for (const auto& [nesting, sides] : nestings()) {
    for (const auto& [collective, f] : collectives()) {
      SCOPED_TRACE(nesting + " of " + collective);
      const UnaryFunction with = sides.with(f), without = sides.without ? sides.without(f) : plain(f);
      if (nesting == "custom_jvp in a scan") {
        expect_equal(jit(vmap(with, {.axis_name = "i"}))(xs), 2 * vmap(f, {.axis_name = "i"})(xs));
        continue;
      }
      expect_equal(jit(vmap(with, {.axis_name = "i"}))(xs), vmap(without, {.axis_name = "i"})(xs));
      // A collective in one branch of a choice that differs between the examples runs for all of them, and so
      // does its transpose: no derivative of where.
      if (!sides.without || nesting == "while" || nesting == "cond, by example") continue;
      auto derivative = [](const UnaryFunction& f) {
        return vmap(UnaryFunction([f](Array x) {
                      return grad(UnaryFunction([f](Array x) { return sum(f(x) * x); }))(x);
                    }),
                    {.axis_name = "i"});
      };
      expect_equal(jit(derivative(with))(xs), jit(derivative(without))(xs));
    }
  }
}

TEST(VmapAxis, CollectivesInCustomRules_AreBetweenTheExamples) {
  const Array xs = waves({4, 3}), weights = arange(4.f);
  const UnaryFunction square = [](Array x) { return x * x; };
  const Array w = reshape(weights, {4, 1});
  // The mean of tangents is, backwards, one of cotangents; each rule's other factor stands on its own side of
  // it.
  const std::map<std::string, Array> expected = {
      {"custom_jvp", zeros_like(xs) + mean(w * xs * xs, {.axis = 0, .keepdims = true})},
      {"custom_jvp in a scan", zeros_like(xs) + 2 * mean(w * xs * xs, {.axis = 0, .keepdims = true})},
      {"custom_vjp", mean(weights) * xs * xs}};
  for (const auto& [name, gradient] : expected) {
    SCOPED_TRACE(name);
    const UnaryFunction f = nestings().at(name).with(square);
    const UnaryFunction loss = [&](Array xs) { return sum(vmap(f, {.axis_name = "i"})(xs) * w); };
    expect_equal(jit(UnaryFunction(grad(loss)))(xs), gradient);
    const auto inside = [&](Array x, Array w) {
      return grad(UnaryFunction([&](Array x) { return sum(f(x) * w); }))(x);
    };
    expect_equal(jit(vmap(inside, {.axis_name = "i"}))(xs, weights), gradient);
  }
}

TEST(VmapAxis, ALoopsLength_MayDependOnTheExample) {
  auto f = [](Array x) {
    auto step = [](const ArrayPair& s) { return ArrayPair(s.first + 1, s.second * 2); };
    auto go_on = [](const ArrayPair& s) { return s.first < axis_index("i"); };
    return while_loop(go_on, step, ArrayPair(zeros({}, int32), x)).second;
  };
  const Array xs = waves({4, 3});
  expect_equal(jit(vmap(f, {.axis_name = "i"}))(xs), xs * array({1.f, 2.f, 4.f, 8.f}, {4, 1}));
}

TEST(VmapAxis, TwoNames_EachReachItsOwnExamples) {
  const Array xs = waves({2, 4, 3});
  const UnaryFunction f = [](Array x) {
    return x * (axis_index("i") + 1) + 10 * axis_index("j") + psum(x, "i") + pmean(x, "j");
  };
  auto both = [](const UnaryFunction& f) {
    return UnaryFunction(vmap(UnaryFunction(vmap(f, {.axis_name = "i"})), {.axis_name = "j"}));
  };
  const Array i = reshape(arange(4.f), {1, 4, 1}), j = reshape(arange(2.f), {2, 1, 1});
  const Array expected = xs * (i + 1) + 10 * j + sum(xs, {.axis = 1, .keepdims = true}) +
                         mean(xs, {.axis = 0, .keepdims = true});
  expect_equal(jit(both(f))(xs), expected);
  for (const auto& [name, sides] : nestings()) {
    if (!sides.without || name == "cond, by example" || name == "scan of elements" || name == "map") continue;
    SCOPED_TRACE(name);
    expect_equal(jit(both(sides.with(f)))(xs), jit(both(sides.without(f)))(xs));
  }
}

/// The splits of the result, where the examples lie over "x".
std::string lies(const UnaryFunction& f, const VmapOptions& options, const Array& xs) {
  return jit(vmap(f, options))(xs).sharding().spec().to_string();
}

TEST(VmapOfAConstraint, KeepsTheSplitOfTheExamples) {
  const Mesh mesh = square_mesh();
  const Array xs = device_put(waves({4, 6}), NamedSharding(mesh, P("x")));
  const UnaryFunction f = [&](Array v) {
    return with_sharding_constraint(v * 2, NamedSharding(mesh, P("y")));
  };
  auto lowered = jit(vmap(f)).lower(xs);
  EXPECT_TRUE(lowered.communication().empty());
  EXPECT_EQ(lies(f, {}, xs), "P('x', 'y')");
  expect_equal(jit(vmap(f))(xs), xs * 2);
  // Twice, and in a loop.
  const Array cube = device_put(waves({2, 4, 6}), NamedSharding(mesh, P(nullptr, "x")));
  EXPECT_EQ(jit(vmap(UnaryFunction(vmap(f))))(cube).sharding().spec().to_string(), "P(None, 'x', 'y')");
  const UnaryFunction looped = [&](Array v) {
    auto step = [&](Array c, std::tuple<>) { return std::pair(f(c), std::tuple<>()); };
    return scan(step, v, std::tuple<>(), {.length = 2}).first;
  };
  EXPECT_TRUE(jit(vmap(looped)).lower(xs).communication().empty());
  expect_equal(jit(vmap(looped))(xs), xs * 4);
  auto derivative = vmap(UnaryFunction(
      [&](Array v) { return grad(UnaryFunction([&](Array v) { return sum(sin(f(v))); }))(v); }));
  EXPECT_TRUE(jit(derivative).lower(xs).communication().empty());
}

TEST(VmapOfAConstraint, SplitsTheExamplesBySpmdAxisName) {
  const Mesh mesh = square_mesh();
  const Array xs = device_put(waves({4, 6}), NamedSharding(mesh, P()));
  const UnaryFunction f = [&](Array v) {
    return with_sharding_constraint(v * 2, NamedSharding(mesh, P("y")));
  };
  const UnaryFunction whole = [&](Array v) {
    return with_sharding_constraint(v * 2, NamedSharding(mesh, P()));
  };
  EXPECT_EQ(lies(f, {.spmd_axis_name = "x"}, xs), "P('x', 'y')");
  EXPECT_EQ(lies(whole, {.spmd_axis_name = {"x", "y"}}, xs), "P(('x', 'y'))");
  expect_equal(jit(vmap(f, {.spmd_axis_name = "x"}))(xs), xs * 2);
  EXPECT_THAT(
      error_of<ShardingError>([&] { jit(vmap(f, {.spmd_axis_name = "y"})).lower(xs); }),
      HasSubstr("[vmap] spmd_axis_name splits the examples over 'y', but the function under it splits an "
                "example over 'y', too"));
}

TEST(VmapOfAShardMap, SplitsTheExamplesBySpmdAxisName) {
  const Mesh mesh = square_mesh();
  const Array xs = device_put(waves({4, 6}), NamedSharding(mesh, P("x", "y")));
  const UnaryFunction body = [](Array v) {
    auto step = [](Array c, Array w) { return std::pair(c + psum(w, "y"), std::tuple<>()); };
    return v * scan(step, zeros({}), v).first;
  };
  const UnaryFunction f = shard_map(body, {mesh, {P("y")}, {P("y")}});
  const Array expected = vmap(UnaryFunction([&](Array v) { return v * sum(v); }))(xs);
  const VmapOptions split = {.spmd_axis_name = "x"};
  expect_equal(jit(vmap(f, split))(xs), expected);
  expect_equal(jit(vmap(f))(xs), expected);
  EXPECT_EQ(lies(f, split, xs), "P('x', 'y')");
  auto bytes = [&](const VmapOptions& options) {
    std::int64_t all = 0;
    for (const auto& each : jit(vmap(f, options)).lower(xs).communication()) all += each.bytes;
    return all;
  };
  EXPECT_EQ(bytes(split), bytes({}));  // the axis that nothing in the function names is free
  auto derivative = [&](const VmapOptions& options) {
    return vmap(
        UnaryFunction([&](Array v) { return grad(UnaryFunction([&](Array v) { return sum(f(v)); }))(v); }),
        options);
  };
  expect_equal(jit(derivative(split))(xs), jit(derivative({}))(xs));
}

/// The axes of the mesh that the function under shard_map does not use split the examples as they come.
TEST(VmapOfAShardMap, KeepsTheSplitOfTheExamples) {
  const Mesh mesh = square_mesh();
  const Array xs = device_put(waves({4, 6}), NamedSharding(mesh, P("x", "y")));
  const Array weights = waves({6}, 2);
  struct Case {
    std::string name;
    std::function<Array(Array, Array)> body;
    bool is_free;
  };
  const std::vector<Case> cases = {
      {"a product", [](Array v, Array w) { return v * w; }, true},
      {"a sum over its axis", [](Array v, Array w) { return v * psum(sum(v * w), "y"); }, true},
      {"a loop of exchanges",
       [](Array v, Array w) {
         auto step = [&](Array c, std::tuple<>) {
           return std::pair(ppermute(c * w, "y", {{0, 1}, {1, 0}}), std::tuple<>());
         };
         return scan(step, v, std::tuple<>(), {.length = 3}).first;
       },
       true},
      {"its place along the other axis", [](Array v, Array w) { return v * w + pmax(axis_index("x"), "x"); },
       false},
      {"a sum over the other axis", [](Array v, Array w) { return psum(pvary(v * w, {"x"}), "x"); }, false},
  };
  const std::function<Array(Array, const Case&)> whole = [&](Array v, const Case& each) {
    return shard_map(each.body, {mesh, {P("y"), P("y")}, {P("y")}})(v, weights);
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const UnaryFunction f = [&](Array v) { return whole(v, each); };
    std::vector<Array> rows;
    for (std::int64_t i = 0; i < 4; ++i) rows.push_back(jit(f)(xs[i]));
    expect_equal(jit(vmap(f))(xs), stack(rows));
    bool gathers = false;
    for (const auto& line : jit(vmap(f)).lower(xs).communication())
      gathers = gathers || line.kind == "all-gather";
    EXPECT_EQ(gathers, !each.is_free);
    if (each.is_free) {
      EXPECT_EQ(lies(f, {}, xs), "P('x', 'y')");
    }
    auto derivative = [](const UnaryFunction& f) {
      return UnaryFunction(
          [f](Array v) { return grad(UnaryFunction([f](Array v) { return sum(sin(f(v))); }))(v); });
    };
    rows.clear();
    for (std::int64_t i = 0; i < 4; ++i) rows.push_back(jit(derivative(f))(xs[i]));
    expect_equal(jit(vmap(derivative(f)))(xs), stack(rows));
  }
}

TEST(VmapOfAShardMap, MayUseCollectivesOverTheExamples) {
  const Array xs = waves({4, 6});
  const UnaryFunction f =
      shard_map([](Array v) { return v * (axis_index("i") + 1) + psum(psum(v, "i"), "x"); },
                {square_mesh(), {P("x")}, {P("x")}});
  const Array parts = reshape(sum(xs, 0), {2, 3});
  const Array expected = xs * reshape(arange(1.f, 5.f), {4, 1}) + concatenate({sum(parts, 0), sum(parts, 0)});
  expect_equal(jit(vmap(f, {.axis_name = "i"}))(xs), expected);
  EXPECT_THAT(
      error_of<TraceError>([&] { jit(vmap(f, {.axis_name = "i", .spmd_axis_name = "y"})).lower(xs); }),
      HasSubstr("whose examples are split over devices by its spmd_axis_name"));
}

/// A cache that is written for each example at a place of its own.
TEST(VmapOfAnUpdate, OfSplitExamples_MovesNothing) {
  const Sharding rows = NamedSharding(square_mesh(), P("x"));
  const Array caches = device_put(waves({4, 8, 3}), rows), news = device_put(waves({4, 1, 3}, 5), rows);
  const Array places = device_put(array(std::vector<std::int32_t>{5, 0, 7, 2}), rows);
  auto write = [](Array cache, Array row, Array place) {
    return dynamic_update_slice(cache, row, {place, 0});
  };
  auto read = [](Array cache, Array place) { return dynamic_slice(cache, {place, 0}, {1, 3}); };
  auto step = [&](Array caches, Array news, Array places) {
    const Array written = vmap(write)(caches, news, places);
    return std::pair(written, vmap(read)(written, places));
  };
  EXPECT_TRUE(jit(step).lower(caches, news, places).communication().empty());
  auto [written, back] = jit(step)(caches, news, places);
  expect_equal(back, news);
  expect_equal(sum(written), sum(caches) + sum(news) - sum(vmap(read)(caches, places)));
  auto loss = [&](Array caches, Array news, Array places) {
    return sum(sin(step(caches, news, places).first));
  };
  expect_equal(jit(grad<1>(loss))(caches, news, places), cos(news));
}

TEST(UnconstrainedSpecs, KeepTheSplitOfADimension) {
  const Mesh mesh = square_mesh();
  const PartitionSpec open(P::UNCONSTRAINED, "y");
  EXPECT_EQ(open.to_string(), "P(UNCONSTRAINED, 'y')");
  EXPECT_NE(P(P::UNCONSTRAINED), P());
  EXPECT_EQ(P("x", P::UNCONSTRAINED, nullptr).normalized(), P("x", P::UNCONSTRAINED));
  const Array xs = device_put(waves({4, 6}), NamedSharding(mesh, P("x")));
  const UnaryFunction f = [&](Array v) {
    return with_sharding_constraint(sin(v), NamedSharding(mesh, open));
  };
  EXPECT_EQ(jit(f)(xs).sharding().spec().to_string(), "P('x', 'y')");
  EXPECT_EQ(jit(f)(device_put(xs, NamedSharding(mesh, P()))).sharding().spec().to_string(), "P(None, 'y')");
  EXPECT_EQ(with_sharding_constraint(xs, NamedSharding(mesh, open)).sharding().spec().to_string(),
            "P('x', 'y')");
  // A dimension without axes is whole, whatever comes in.
  const UnaryFunction whole = [&](Array v) {
    return with_sharding_constraint(sin(v), NamedSharding(mesh, P(nullptr, P::UNCONSTRAINED)));
  };
  EXPECT_EQ(jit(whole)(device_put(xs, NamedSharding(mesh, P("x", "y")))).sharding().spec().to_string(),
            "P(None, 'y')");
  const Sharding sharding = NamedSharding(mesh, open);
  EXPECT_THAT(
      error_of<ShardingError>([&] { device_put(xs, sharding); }),
      HasSubstr(
          "P(UNCONSTRAINED, 'y') leaves dimension 0 unconstrained, which only with_sharding_constraint"));
  EXPECT_THAT(error_of<ShardingError>([&] {
                jit(f, {.in_shardings = {sharding}})(waves({4, 6}));
              }),
              HasSubstr("leaves dimension 0 unconstrained"));
  EXPECT_THAT(error_of<ShardingError>([&] { jit(f, {.out_shardings = {sharding}})(xs); }),
              HasSubstr("leaves dimension 0 unconstrained"));
  EXPECT_THAT(error_of<ShardingError>([&] {
                shard_map(f, {mesh, {open}, {P()}})(xs);
              }),
              HasSubstr("with an unconstrained dimension"));
}

}  // namespace
}  // namespace lockstep
