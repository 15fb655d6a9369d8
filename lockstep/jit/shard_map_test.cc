// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/shard_map.h"

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using test::square_mesh;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ShardMap, FunctionSeesItsPart_AndResultsAreTheWhole) {
  Shape seen;
  auto twice = shard_map(
      [&](Array x) {
        seen = x.shape();
        return x + x;
      },
      {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}});
  Array x = waves({8, 3}), y = twice(x);
  EXPECT_EQ(seen, (Shape{2, 3}));
  expect_equal(y, 2 * x);
  EXPECT_EQ(y.sharding(), NamedSharding(line_mesh(), P("x")));
}

TEST(ShardMap, PsumOfBools_CountsThem) {
  const Array x = array({1.F, -1.F, 2.F, -3.F});
  auto over_devices = [&](auto f) {
    return shard_map([f](Array x) { return f(x > 0.); },
                     {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}})(x);
  };
  const Array count = over_devices([](Array x) { return psum(x, "x"); });
  EXPECT_EQ(count.dtype(), int32);
  EXPECT_EQ(count.to_host<std::int32_t>(), std::vector<std::int32_t>{2});
  expect_equal(over_devices([](Array x) { return pmean(x, "x"); }), array({0.5F}));
}

/// Steps of a stencil on the rows of each device, beside the same steps on all rows.
TEST(ShardMap, StencilsOverOneToFourDevices_EqualTheStencilOfTheWholeArray) {
  const Shape shape = {256, 128};  // large enough for the forms that large arrays take
  auto many = [](const std::function<Array(Array)>& step) {
    return [step](const Array& u) {
      return fori_loop(
          0, 3, [step](const Array&, const Array& u) { return step(u); }, u);
    };
  };
  const auto inner = slice(1, -1);
  auto stepped = [=](const Array& u, const Array& wide) {
    return u + 0.1 * (wide[{slice(none, -2), inner}] + wide[{slice(2, none), inner}] - 2. * u);
  };
  auto whole = many([=](const Array& u) { return stepped(u, pad(u, {{1, 1}, {1, 1}})); });
  auto updated = [=](const Array& u) {
    return u.at({inner, inner}).add(0.1 * (u[{slice(2, none), inner}] - 2. * u[{inner, slice(none, -2)}]));
  };
  const Array x = waves(shape);
  for (int n : {1, 2, 4}) {
    SCOPED_TRACE(n);
    const std::vector<Device> all = devices();
    const Mesh mesh = make_mesh({{"x", n}}, std::vector<Device>(all.begin(), all.begin() + n));
    std::vector<std::pair<int, int>> down, up;
    for (int i = 0; i + 1 < n; ++i) {
      down.emplace_back(i, i + 1);
      up.emplace_back(i + 1, i);
    }
    auto by_rows = many([=](const Array& u) {
      const Array above = ppermute(u[{slice(-1, none)}], "x", down);
      const Array below = ppermute(u[{slice(none, 1)}], "x", up);
      return stepped(u, pad(concatenate({above, u, below}), {{0, 0}, {1, 1}}));
    });
    const auto over_rows = [&](const std::function<Array(Array)>& function) {
      return std::function<Array(Array)>(shard_map(function, {mesh, {P("x")}, {P("x")}}));
    };
    expect_equal(over_rows(by_rows)(x), jit(whole)(x));
    expect_equal(jit(over_rows(by_rows))(x), jit(whole)(x));
    const Array split = device_put(x, NamedSharding(mesh, P("x")));
    expect_equal(jit(whole)(split), jit(whole)(x));
    expect_equal(jit(many(updated))(split), jit(many(updated))(x));
    // Of each device's rows.
    std::vector<Array> parts;
    for (int i = 0; i < n; ++i)
      parts.push_back(jit(many(updated))(x[{slice(i * shape[0] / n, (i + 1) * shape[0] / n)}]));
    expect_equal(jit(over_rows(many(updated)))(x), concatenate(parts));
  }
}

TEST(ShardMap, MatmulWithASplitContraction_NeedsPsum) {
  auto multiply =
      shard_map([](Array a, Array b) { return psum(matmul(a, b), "y"); },
                {.mesh = square_mesh(), .in_specs = {P("x", "y"), P("y", none)}, .out_specs = {P("x")}});
  Array a = waves({4, 6}), b = waves({6, 5}, 2);
  expect_equal(multiply(a, b), matmul(a, b));
  expect_equal(jit([&](Array a, Array b) { return multiply(a, b) + 1; })(a, b), matmul(a, b) + 1);
}

TEST(ShardMap, AxisIndex_IsEachDevicesPosition) {
  auto places = shard_map([](Array x) { return x + astype(10 * axis_index("x") + axis_index("y"), float32); },
                          {.mesh = square_mesh(), .in_specs = {P("x", "y")}, .out_specs = {P("x", "y")}});
  expect_equal(places(zeros({2, 2})), array({0.f, 1.f, 10.f, 11.f}, {2, 2}));
}

TEST(ShardMap, Collectives_AgreeWithTheirDefinition) {
  Array x = waves({4, 4});
  ShardMapOptions rows{.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}};
  expect_equal(shard_map([](Array a) { return all_gather(a, "x", {.tiled = true}); },
                         {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}})(x),
               concatenate({x, x, x, x}, 0));
  expect_equal(shard_map([](Array a) { return all_to_all(a, "x", 1, 0); }, rows)(x),
               reshape(transpose(x), {16, 1}));
  expect_equal(shard_map(
                   [](Array a) {
                     return ppermute(a, "x", {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
                   },
                   rows)(x),
               concatenate({slice(x, {3, 0}, {4, 4}), slice(x, {0, 0}, {3, 4})}, 0));
  expect_equal(
      shard_map([](Array a) { return psum_scatter(reshape(a, {4}), "x", {.tiled = true}); }, rows)(x),
      sum(x, 0));
  expect_equal(shard_map([](Array a) { return pmax(a, "x"); },
                         {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}})(x),
               max(x, {.axis = 0, .keepdims = true}));
}

TEST(ShardMap, AResult_IsMovedToTheSplitOfItsNextUse) {
  const Mesh mesh = square_mesh();
  const std::vector<PartitionSpec> specs = {
      P(), P("x"), P("y"), P("x", "y"), P({"y", "x"}, none), P(none, {"y", "x"})};
  auto on_parts = [&](const PartitionSpec& spec, double by) {
    return shard_map([by](const Array& a) { return a * by; },
                     {.mesh = mesh, .in_specs = {spec}, .out_specs = {spec}});
  };
  const Array x = waves({4, 8});
  for (const PartitionSpec& from : specs) {
    SCOPED_TRACE(from.to_string());
    // Each way on by itself, from a result of its own: another use would say where the result is.
    auto f = jit([&](const Array& x) {
      std::vector<Array> all;
      int k = 1;
      for (const PartitionSpec& to : specs) {
        auto first = [&] { return on_parts(from, ++k)(x); };
        all.push_back(on_parts(to, 3)(first()));
        all.push_back(with_sharding_constraint(first(), NamedSharding(mesh, to)));
        all.push_back(on_parts(to, 3)(with_sharding_constraint(first(), NamedSharding(mesh, from))));
        all.push_back(
            grad([&](const Array& x) { return sum(sin(on_parts(to, 3)(on_parts(from, ++k)(x)))); })(x));
        const Array both = first();
        all.push_back(on_parts(to, 3)(both) + both);
      }
      return all;
    });
    const std::vector<Array> all = f(x);
    int k = 1;
    auto next = all.begin();
    for (const PartitionSpec& to : specs) {
      SCOPED_TRACE(to.to_string());
      expect_equal(*next++, x * (3. * ++k));
      EXPECT_EQ(next->sharding(), NamedSharding(mesh, to));
      expect_equal(*next++, x * (1. * ++k));
      expect_equal(*next++, x * (3. * ++k));
      const double by = 3. * ++k;
      expect_equal(*next++, by * cos(x * by), 2e-4);
      expect_equal(*next++, x * (4. * ++k));
    }
  }
}

TEST(ShardMap, CollectivesOverAxisIndexGroups_StayWithinTheGroups) {
  const AxisIndexGroups pairs = {{{0, 2}, {1, 3}}};
  Array x = waves({4, 4});
  auto row = [&](std::int64_t i) { return slice(x, {i, 0}, {i + 1, 4}); };
  ShardMapOptions rows{.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}};
  Array even = row(0) + row(2), odd = row(1) + row(3);
  expect_equal(shard_map([&](Array a) { return psum(a, "x", {.axis_index_groups = pairs}); }, rows)(x),
               concatenate({even, odd, even, odd}, 0));
  expect_equal(shard_map([&](Array a) { return pmean(a, "x", {.axis_index_groups = pairs}); }, rows)(x),
               concatenate({even, odd, even, odd}, 0) / 2);
  expect_equal(
      shard_map([&](Array a) { return all_gather(a, "x", {.tiled = true, .axis_index_groups = pairs}); },
                rows)(x),
      concatenate({row(0), row(2), row(1), row(3), row(0), row(2), row(1), row(3)}, 0));
  expect_equal(shard_map(
                   [&](Array a) {
                     return psum_scatter(reshape(a, {4}), "x", {.tiled = true, .axis_index_groups = pairs});
                   },
                   rows)(x),
               concatenate({slice(reshape(even, {4}), {0}, {2}), slice(reshape(odd, {4}), {0}, {2}),
                            slice(reshape(even, {4}), {2}, {4}), slice(reshape(odd, {4}), {2}, {4})},
                           0));
  auto loss = [&](Array x) {
    return sum(
        square(shard_map([&](Array a) { return psum(a, "x", {.axis_index_groups = pairs}); }, rows)(x)));
  };
  // Each row stands in the sum that two devices have.
  expect_equal(grad(loss)(x), 4 * concatenate({even, odd, even, odd}, 0));
  EXPECT_THAT(
      error_of<ShardingError>([&] {
        shard_map([](Array a) { return psum(a, "x", {.axis_index_groups = {{{0, 1}, {1, 3}}}}); }, rows)(x);
      }),
      HasSubstr("position 1"));
}

TEST(ShardMap, Pshuffle_TakesFromTheDevicesOfThePermutation) {
  Array x = waves({4, 2});
  ShardMapOptions rows{.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}};
  expect_equal(shard_map(
                   [](Array a) {
                     return pshuffle(a, "x", {3, 0, 1, 2});
                   },
                   rows)(x),
               concatenate({slice(x, {3, 0}, {4, 2}), slice(x, {0, 0}, {3, 2})}, 0));
}

/// A layer whose weights are split over y, on rows that are split over x: as a whole, and by hand.
Array whole_loss(Array x, Array w, Array b) { return mean(square(tanh(matmul(x, w)) + b)); }

Array split_loss(Array x, Array w, Array b) {
  auto local = [](Array x, Array w, Array b) {
    Array y = tanh(psum(matmul(x, w), "y")) + b;
    return pmean(mean(square(y)), "x");
  };
  return shard_map(
      local, {.mesh = square_mesh(), .in_specs = {P("x", "y"), P("y"), P()}, .out_specs = {P()}})(x, w, b);
}

TEST(ShardMap, GradientOutside_EqualsThatOfOneDevice) {
  Array x = waves({4, 6}), w = waves({6, 5}, 2), b = waves({5}, 3);
  auto [value, grads] = value_and_grad<0, 1, 2>(split_loss)(x, w, b);
  auto [whole, expected] = value_and_grad<0, 1, 2>(whole_loss)(x, w, b);
  expect_equal(value, whole);
  expect_equal(std::get<0>(grads), std::get<0>(expected));
  expect_equal(std::get<1>(grads), std::get<1>(expected));
  expect_equal(std::get<2>(grads), std::get<2>(expected));
}

TEST(ShardMap, GradientInside_EqualsThatOfOneDevice) {
  auto local = [](Array x, Array w) {
    auto loss = [&](Array w) { return mean(square(tanh(matmul(x, w)))); };
    // w is the same on all devices: its gradient is the sum of what each device has.
    return grad(loss)(w) / 4.0;
  };
  auto gradient = shard_map(local, {.mesh = line_mesh(), .in_specs = {P("x"), P()}, .out_specs = {P()}});
  Array x = waves({8, 3}), w = waves({3, 2}, 2);
  auto whole = [&](Array w) { return mean(square(tanh(matmul(x, w)))); };
  expect_equal(gradient(x, w), grad(whole)(w));
}

TEST(ShardMap, SecondDerivative_EqualsThatOfOneDevice) {
  auto cube = [](Array x) {
    return sum(shard_map([](Array x) { return x * x * x; },
                         {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}})(x));
  };
  Array x = waves({4});
  expect_equal(grad([&](Array x) { return sum(grad(cube)(x)); })(x), 6 * x);
}

TEST(ShardMap, GradientOfALoopAroundIt_EqualsThatOfOneDevice) {
  const Array x = waves({8, 3}), w = waves({3}, 2), start = waves({3}, 3);
  auto loss = [&](const auto& step) {
    return [&](Array w, Array start) { return sum(square(fori_loop(0, 3, step(w), start))); };
  };
  auto split = loss([&](Array w) {
    auto total =
        shard_map([](Array x, Array w, Array c) { return psum(sum(sin(x * c) * w, {.axis = 0}), "x"); },
                  {.mesh = line_mesh(), .in_specs = {P("x"), P(), P()}, .out_specs = {P()}});
    return [=](Array, Array c) { return total(x, w, c); };
  });
  auto whole =
      loss([&](Array w) { return [=](Array, Array c) { return sum(sin(x * c) * w, {.axis = 0}); }; });
  auto compare = [&](auto&& of_split, auto&& of_whole) {
    auto [by_w, by_start] = jit(of_split)(w, start);
    auto [expected_by_w, expected_by_start] = of_whole(w, start);
    expect_equal(by_w, expected_by_w);
    expect_equal(by_start, expected_by_start);
  };
  compare(grad<0, 1>(split), grad<0, 1>(whole));
  auto once_more = [](const auto& f) {
    return grad<0, 1>([=](Array w, Array start) {
      auto [by_w, by_start] = grad<0, 1>(f)(w, start);
      return sum(by_w * by_w) + sum(by_start);
    });
  };
  compare(once_more(split), once_more(whole));
}

TEST(ShardMap, SecondDerivativeByACapturedArray_EqualsThatOfOneDevice) {
  const Array data = waves({8}), x = waves({3}, 2), direction = waves({3}, 3);
  auto split = [&](Array x) {
    auto scaled = [&](Array part) { return part * sum(exp(psum(pvary(x, "x"), "x") * 0.125)); };
    return sum(shard_map(scaled, {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}})(data));
  };
  const double devices = 4;
  auto whole = [&](Array x) { return sum(data) * sum(exp(x * devices * 0.125)); };
  auto along = [&](const auto& f) {
    return jit([&](Array x) { return jvp(grad(f), std::tuple(x), std::tuple(direction)).second; })(x);
  };
  expect_equal(along(split), along(whole));
}

TEST(ShardMap, UnderVmap_GivesAResultForEachExample) {
  auto total = shard_map([](Array x) { return psum(sum(x), "x"); },
                         {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}});
  Array x = waves({3, 8});
  expect_equal(jit([&](Array x) { return vmap(total)(x); })(x), sum(x, 1));
}

TEST(ShardMap, Trees_MayHaveASpecForEachArray) {
  struct Pair {
    Array whole, rows;
  };
  auto scale = shard_map(
      [](Pair pair, double by) {
        return std::tuple(Pair{pair.whole * by, pair.rows * by}, psum(sum(pair.rows), "x"));
      },
      {.mesh = line_mesh(),
       .in_specs = {std::vector<P>{P(), P("x")}, P()},
       .out_specs = {std::vector<P>{P(), P("x")}, P()}});
  auto [pair, total] = scale(Pair{waves({3}), waves({4, 2})}, 3.0);
  expect_equal(pair.whole, 3 * waves({3}));
  expect_equal(pair.rows, 3 * waves({4, 2}));
  expect_equal(total, sum(waves({4, 2})));
}

TEST(ShardMap, CapturedArrays_AreWholeInside) {
  Array bias = device_put(waves({4}), NamedSharding(line_mesh(), P("x")));
  auto add = [&](Array x) {
    Array doubled = 2 * bias;
    return shard_map([&](Array x) { return x + doubled; },
                     {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}})(x);
  };
  Array x = waves({4, 4}, 2);
  expect_equal(jit(add)(x), x + 2 * waves({4}));
}

TEST(ShardMap, OverSomeAxes_LeavesTheOthersGlobal) {
  auto rows = shard_map(
      [](Array x) {
        EXPECT_EQ(x.shape(), (Shape{2, 6}));
        return psum(x, "x");
      },
      {.mesh = square_mesh(), .in_specs = {P("x")}, .out_specs = {P()}, .axis_names = {"x"}});
  Array x = device_put(waves({4, 6}), NamedSharding(square_mesh(), P("x", "y")));
  Array whole = waves({4, 6});
  expect_equal(rows(x), slice(whole, {0, 0}, {2, 6}) + slice(whole, {2, 0}, {4, 6}));
}

TEST(ShardMap, OverSomeAxes_ValuesStaySplitOverTheOthers) {
  // Two layers on rows over x by hand, their weights over y left to the partitioner: the hidden values are
  // split over both.
  auto layers = shard_map(
      [](Array x, Array w1, Array w2) {
        EXPECT_EQ(x.shape(), (Shape{4, 6}));
        Array hidden = tanh(matmul(x, w1));
        return std::tuple(matmul(hidden, w2), psum(sum(hidden, 0), "x"));
      },
      {.mesh = square_mesh(),
       .in_specs = {P("x"), P(), P()},
       .out_specs = {P("x"), P()},
       .axis_names = {"x"}});
  auto whole = [](Array x, Array w1, Array w2) {
    Array hidden = tanh(matmul(x, w1));
    return std::tuple(matmul(hidden, w2), sum(hidden, 0));
  };
  Array x = waves({8, 6}), w1 = waves({6, 4}, 2), w2 = waves({4, 2}, 3);
  auto put = [](Array a, P spec) { return device_put(a, NamedSharding(square_mesh(), spec)); };
  Array xs = put(x, P("x")), w1s = put(w1, P(nullptr, "y")), w2s = put(w2, P("y"));
  auto [rows, total] = jit(layers)(xs, w1s, w2s);
  auto [expected_rows, expected_total] = whole(x, w1, w2);
  expect_equal(rows, expected_rows);
  expect_equal(total, expected_total);
  EXPECT_EQ(total.sharding(), NamedSharding(square_mesh(), P("y")));
  std::vector<std::string> collectives;
  for (const auto& line : jit(layers).lower(xs, w1s, w2s).communication())
    collectives.push_back(line.kind + " " + line.axes.front() + " " + std::to_string(line.bytes));
  // f32[4,2] of the second product over y, and the f32[2] of the sum that is the user's over x.
  EXPECT_THAT(collectives, ::testing::UnorderedElementsAre("all-reduce y 32", "all-reduce x 8"));

  auto loss = [](auto function) {
    return [function](Array x, Array w1, Array w2) {
      auto [rows, total] = function(x, w1, w2);
      return sum(square(rows)) + sum(square(total));
    };
  };
  auto [value, grads] = jit(value_and_grad<0, 1, 2>(loss(layers)))(xs, w1s, w2s);
  auto [expected, expected_grads] = value_and_grad<0, 1, 2>(loss(whole))(x, w1, w2);
  expect_equal(value, expected);
  expect_equal(std::get<0>(grads), std::get<0>(expected_grads));
  expect_equal(std::get<1>(grads), std::get<1>(expected_grads));
  expect_equal(std::get<2>(grads), std::get<2>(expected_grads));
  EXPECT_EQ(std::get<1>(grads).sharding(), NamedSharding(square_mesh(), P(nullptr, "y")));
}

/// Each collective over x in a function that is manual over x alone, on values that lie over y, too.
TEST(ShardMap, OverSomeAxes_EveryCollectiveKeepsTheOthersSplits) {
  struct Case {
    const char* name;
    std::function<Array(Array)> function;
    P out;
    bool keeps;  ///< y goes through
  };
  const std::vector<Case> cases = {
      {"psum", [](Array a) { return psum(a, "x"); }, P(), true},
      {"pmax", [](Array a) { return pmax(a, "x"); }, P(), true},
      {"pmean", [](Array a) { return pmean(a, "x") + a; }, P("x"), true},
      {"all_gather", [](Array a) { return all_gather(a, "x", {.tiled = true}); }, P("x"), true},
      {"all_gather of the split dimension",
       [](Array a) { return all_gather(a, "x", {.axis = 1, .tiled = true}); }, P("x"), false},
      {"psum_scatter", [](Array a) { return psum_scatter(a, "x", {.tiled = true}); }, P("x"), true},
      {"all_to_all", [](Array a) { return all_to_all(a, "x", 1, 0); }, P(nullptr, "x"), false},
      {"ppermute",
       [](Array a) {
         return ppermute(a, "x", {{0, 1}, {1, 0}});
       },
       P("x"), true},
      {"axis_index", [](Array a) { return a * astype(axis_index("x"), float32); }, P("x"), true},
  };
  Array x = waves({8, 4}), xs = device_put(x, NamedSharding(square_mesh(), P("x", "y")));
  const Mesh line({devices()[0], devices()[2]}, {2}, {"x"});
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    auto over = [&](const Mesh& mesh) {
      return jit(shard_map(
          each.function, {.mesh = mesh, .in_specs = {P("x")}, .out_specs = {each.out}, .axis_names = {"x"}}));
    };
    expect_equal(over(square_mesh())(xs), over(line)(x));
    const std::string text = over(square_mesh()).lower(xs).partitioned;
    EXPECT_EQ(text.find("axes=(y)") == std::string::npos, each.keeps) << text;
  }
}

TEST(ShardMap, OverSomeAxes_ADimensionMayBeSplitOverBothKinds) {
  auto twice =
      shard_map([](Array x) { return 2 * x + astype(axis_index("x"), float32); },
                {.mesh = square_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}, .axis_names = {"x"}});
  const P both = P({"x", "y"}), reverse = P({"y", "x"});
  Array x = waves({8}), expected = 2 * x + array({0.f, 0.f, 0.f, 0.f, 1.f, 1.f, 1.f, 1.f});
  Array y = jit(twice)(device_put(x, NamedSharding(square_mesh(), both)));
  expect_equal(y, expected);
  EXPECT_EQ(y.sharding().spec(), both);
  expect_equal(jit(twice)(device_put(x, NamedSharding(square_mesh(), reverse))), expected);
}

TEST(ShardMap, AddsNoCollectivesOfItsOwn) {
  auto total = shard_map([](Array x) { return psum(sum(x), "x"); },
                         {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}});
  Array x = device_put(waves({8}), NamedSharding(line_mesh(), P("x")));
  std::string text = jit([&](Array x) { return total(x); }).lower(x).partitioned;
  EXPECT_THAT(text, AllOf(HasSubstr("psum"), HasSubstr("shard_map_test.cc")));
  EXPECT_EQ(text.find("all_gather"), std::string::npos) << text;
}

TEST(ShardMapErrors, SayWhichAxisIsWrong) {
  Array x = waves({8, 3});
  auto call = [&](ShardMapOptions options, auto function) {
    return error_of<ShardingError>([&] { shard_map(function, options)(x); });
  };
  auto same = [](Array x) { return x; };
  EXPECT_THAT(call({.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}}, same),
              AllOf(HasSubstr("result 0 (f32[2,3]{x}) differs between the devices along 'x'"),
                    HasSubstr("psum"), HasSubstr("shard_map_test.cc")));
  EXPECT_THAT(call({.mesh = line_mesh(), .in_specs = {P("z")}, .out_specs = {P()}}, same), HasSubstr("'z'"));
  EXPECT_THAT(call({.mesh = line_mesh(), .in_specs = {P(nullptr, "x")}, .out_specs = {P()}}, same),
              AllOf(HasSubstr("argument 0"), HasSubstr("3")));
  EXPECT_THAT(call({.mesh = line_mesh(), .in_specs = {P("x"), P()}, .out_specs = {P()}}, same),
              HasSubstr("expected in_specs for 1 arguments, got 2"));
  EXPECT_THAT(
      call({.mesh = square_mesh(), .in_specs = {P("y")}, .out_specs = {P()}, .axis_names = {"x"}}, same),
      HasSubstr("not among axis_names"));
  EXPECT_THAT(call({.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x", nullptr, "x")}}, same),
              HasSubstr("more entries"));
}

TEST(ShardMapErrors, AValueThatLeaves_IsAnError) {
  Array escaped;
  auto leak = [&](Array x) {
    shard_map(
        [&](Array x) {
          escaped = x;
          return x;
        },
        {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}})(x);
    return escaped;
  };
  EXPECT_THAT(error_of<TraceError>([&] { jit(leak)(waves({4})); }), HasSubstr("it has left its shard_map"));
}

TEST(ShardMapErrors, AnArrayOverAnotherMesh_IsAnErrorWithTheCallSite) {
  Array x = device_put(waves({4}), NamedSharding(square_mesh(), P("x")));
  auto same = shard_map([](Array x) { return x; },
                        {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}});
  EXPECT_THAT(error_of<ShardingError>([&] { same(x); }),
              AllOf(HasSubstr("shard_map (at"), HasSubstr("all arrays of a computation are over one mesh")));
}

TEST(WithShardingConstraint, SetsTheShardingOfAValue) {
  NamedSharding rows(line_mesh(), P("x")), whole(line_mesh(), P());
  auto function = jit([&](Array x) { return with_sharding_constraint(x * 2, rows) + 1; });
  Array y = function(waves({8}));
  expect_equal(y, 2 * waves({8}) + 1);
  EXPECT_EQ(y.sharding(), rows);
  Array gathered =
      jit([&](Array x) { return with_sharding_constraint(x, whole); })(device_put(waves({8}), rows));
  EXPECT_EQ(gathered.sharding(), whole);
  expect_equal(gathered, waves({8}));
  EXPECT_EQ(with_sharding_constraint(waves({8}), rows).sharding(), rows) << "outside of a trace";
}

TEST(WithShardingConstraint, IsTheIdentityToDerivatives) {
  NamedSharding rows(line_mesh(), P("x"));
  auto loss = [&](Array x) { return sum(square(with_sharding_constraint(x, rows))); };
  expect_equal(grad(loss)(waves({8})), 2 * waves({8}));
}

TEST(WithShardingConstraint, SizeThatIsNotDivided_IsPaddedInsideOfJit) {
  NamedSharding rows(line_mesh(), P("x"));
  auto whole = [](Array x) { return std::tuple(sin(x) * x, sum(exp(x)), max(x)); };
  auto split = jit([&](Array x) { return whole(with_sharding_constraint(x, rows)); });
  Array x = waves({6});
  auto [product, total, largest] = split(x);
  auto [expected_product, expected_total, expected_largest] = whole(x);
  expect_equal(product, expected_product);
  expect_equal(total, expected_total);
  expect_equal(largest, expected_largest);
  EXPECT_TRUE(product.is_fully_replicated()) << "a result has no padding";
  EXPECT_THAT(split.lower(x).partitioned, HasSubstr("f32[2] = exp"));
  auto loss = [&](Array x) { return sum(exp(with_sharding_constraint(x, rows))); };
  expect_equal(jit(grad(loss))(x), exp(x));
}

TEST(WithShardingConstraint, SizeThatIsNotDivided_IsAnErrorOutsideOfJit) {
  NamedSharding rows(line_mesh(), P("x"));
  EXPECT_THAT(error_of<ShardingError>([&] { with_sharding_constraint(waves({6}), rows); }),
              AllOf(HasSubstr("shard_map_test.cc"), HasSubstr("the nearest sizes that fit are 4 and 8")));
}

}  // namespace
}  // namespace lockstep
