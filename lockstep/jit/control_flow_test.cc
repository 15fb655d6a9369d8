// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/control_flow.h"

#include <cmath>
#include <functional>
#include <map>

#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using test::number;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct State {
  Array position;
  std::map<std::string, Array> speeds;
};

auto recurrence(const Array& w) {
  return [w](Array h, Array x) {
    Array next = tanh(matmul(w, h) + x);
    return std::pair(next, sum(next * x));
  };
}

/// The same by a loop of the host.
std::pair<Array, Array> unrolled(const Array& w, Array h, const Array& xs) {
  std::vector<Array> ys;
  for (std::int64_t t = 0; t < xs.shape()[0]; ++t) {
    auto [next, y] = recurrence(w)(h, reshape(slice(xs, {t, 0}, {t + 1, xs.shape()[1]}), {xs.shape()[1]}));
    h = next;
    ys.push_back(reshape(y, {1}));
  }
  return {h, concatenate(ys)};
}

TEST(Scan, InAndOutsideOfJit_EqualsALoop) {
  const Array w = waves({4, 4}), h = waves({4}, 2), xs = waves({6, 4}, 3);
  auto [last, ys] = scan(recurrence(w), h, xs);
  auto [expected, expected_ys] = unrolled(w, h, xs);
  expect_equal(last, expected);
  expect_equal(ys, expected_ys);
  auto jitted = jit([&](Array w, Array h, Array xs) { return scan(recurrence(w), h, xs); });
  expect_equal(jitted(w, h, xs).first, expected);
  expect_equal(jitted(w, h, xs).second, expected_ys);
  auto backwards = scan(recurrence(w), h, xs, {.reverse = true});
  auto [turned, turned_ys] =
      unrolled(w, h,
               concatenate(std::vector<Array>{slice(xs, {5, 0}, {6, 4}), slice(xs, {4, 0}, {5, 4}),
                                              slice(xs, {3, 0}, {4, 4}), slice(xs, {2, 0}, {3, 4}),
                                              slice(xs, {1, 0}, {2, 4}), slice(xs, {0, 0}, {1, 4})}));
  expect_equal(backwards.first, turned);
}

TEST(Scan, MaximumAndMinimumInTheLoop_KeepANan) {
  const Array xs = array(std::vector<float>{1, NAN, 2, NAN, NAN, 3, 4, 5}, {4, 2});
  auto step = [](const Array& largest, const Array& x) {
    return std::pair(maximum(largest, x), minimum(x, largest));
  };
  auto [largest, smallest] = scan(step, zeros({2}), xs);
  const std::vector<float> last = largest.to_host<float>(), each = smallest.to_host<float>();
  EXPECT_TRUE(std::isnan(last[0]) && std::isnan(last[1]));
  EXPECT_EQ(each[0], 0);
  for (std::size_t i : {1, 3, 4, 5, 6, 7}) EXPECT_TRUE(std::isnan(each[i])) << i;
}

TEST(Scan, TreesAsCarryAndElements_AreScanned) {
  auto step = [](State s, std::tuple<Array, Array> x) {
    s.position = s.position + s.speeds.at("x") * std::get<0>(x);
    s.speeds["x"] = s.speeds.at("x") * std::get<1>(x);
    return std::pair(s, std::vector<Array>{s.position});
  };
  auto [last, path] =
      scan(step, State{Array(1.f), {{"x", Array(2.f)}}}, std::tuple(array({1.f, 2.f}), array({3.f, 0.5f})));
  EXPECT_FLOAT_EQ(last.position.item<float>(), 1 + 2 + 12);
  EXPECT_FLOAT_EQ(last.speeds.at("x").item<float>(), 3);
  expect_equal(path[0], array({3.f, 15.f}));
}

TEST(Scan, Gradients_EqualThoseOfALoop) {
  const Array w = waves({4, 4}), h = waves({4}, 2), xs = waves({5, 4}, 3);
  auto loss = [](const std::pair<Array, Array>& out) {
    return sum(out.first * out.first) + sum(sin(out.second));
  };
  auto scanned =
      grad<0, 1, 2>([&](Array w, Array h, Array xs) { return loss(scan(recurrence(w), h, xs)); })(w, h, xs);
  auto looped = grad<0, 1, 2>([&](Array w, Array h, Array xs) { return loss(unrolled(w, h, xs)); })(w, h, xs);
  expect_equal(std::get<0>(scanned), std::get<0>(looped));
  expect_equal(std::get<1>(scanned), std::get<1>(looped));
  expect_equal(std::get<2>(scanned), std::get<2>(looped));
}

TEST(Scan, GradientByItsElements_DoesNotStackThemAgain) {
  auto loss = [](Array ws, Array x) {
    auto layer = [](Array h, Array w) { return std::pair(tanh(matmul(h, w)), h[0]); };
    return sum(scan(layer, x, ws).first);
  };
  const Array ws = waves({5, 8, 8}), x = waves({3, 8}, 2);
  const std::string program = jit(grad(loss)).lower(ws, x).program;
  const std::string first = program.substr(0, program.find("= scan"));
  const std::string results = first.substr(first.rfind('\n') + 1);
  EXPECT_THAT(results, HasSubstr("f32[5,3,8]"));
  EXPECT_THAT(results, ::testing::Not(HasSubstr("f32[5,8,8]")));
}

TEST(Scan, SecondDerivativesAndVmap_NestInAnyOrder) {
  const Array w = waves({3, 3}), xs = waves({4, 3}, 3), hs = waves({2, 3}, 2);
  auto value = [&](auto&& run) {
    auto first = grad([&, run](Array h) { return sum(run(w, h, xs).first); });
    return grad([first](Array h) mutable { return sum(sin(first(h))); });
  };
  auto scanned = value([](Array w, Array h, Array xs) { return scan(recurrence(w), h, xs); });
  auto looped = value([](Array w, Array h, Array xs) { return unrolled(w, h, xs); });
  expect_equal(vmap(scanned)(hs), vmap(looped)(hs));
  auto mapped = [&](auto&& run) {
    return grad([&, run](Array hs) {
      return sum(square(vmap([&, run](Array h) { return run(w, h, xs).second; })(hs)));
    });
  };
  expect_equal(mapped([](Array w, Array h, Array xs) { return scan(recurrence(w), h, xs); })(hs),
               mapped([](Array w, Array h, Array xs) { return unrolled(w, h, xs); })(hs));
}

TEST(Scan, ACondInTheBody_HasTheGradientOfTheBranchThatRan) {
  // JAX: grad(lambda x: scan(lambda c, i: (cond(i % 2 == 0, sin, lambda c: c * c, c), c), x,
  // arange(4))[0])(0.7)
  auto f = [](Array x) {
    return scan(
               [](Array c, Array i) {
                 Array next = cond(
                     i % 2 == 0, [](Array c) { return sin(c); }, [](Array c) { return c * c; }, c);
                 return std::pair(next, c);
               },
               x, arange(4))
        .first;
  };
  const double a = std::sin(0.7), b = a * a, c = std::sin(b);
  EXPECT_NEAR(f(Array(0.7f) * 1).item<float>(), c * c, 1e-6);
  EXPECT_NEAR(grad(f)(Array(0.7f) * 1).item<float>(), 2 * c * std::cos(b) * 2 * a * std::cos(0.7), 1e-6);
}

TEST(Scan, AWeakInitialCarry_TakesTheDTypeOfAStepsResult) {
  auto total = [](Array xs) {
    return scan([](Array sum, Array x) { return std::pair(sum + x, std::tuple<>()); }, Array(0.f), xs).first;
  };
  const Array sum = total(array({1.0, 2.0, 4.0}));
  EXPECT_EQ(sum.dtype(), DType::kF64);
  EXPECT_EQ(sum.item<double>(), 7);
}

TEST(Map, StacksTheResultsOfEachElement) {
  expect_equal(map([](Array x) { return x * x; }, array({1.f, 2.f, 3.f})), array({1.f, 4.f, 9.f}));
}

TEST(WhileLoop, RunsUntilTheConditionFails) {
  auto collatz = jit([](Array n) {
    return while_loop([](const std::pair<Array, Array>& s) { return s.first != 1; },
                      [](std::pair<Array, Array> s) {
                        Array next = cond(
                            s.first % 2 == 0, [](Array n) { return n / 2; },
                            [](Array n) { return astype(3 * n + 1, float32); }, astype(s.first, float32));
                        return std::pair(astype(next, int32), s.second + 1);
                      },
                      std::pair(n, zeros({}, int32)))
        .second;
  });
  EXPECT_EQ(collatz(number(27)).item<std::int32_t>(), 111);
}

// A carry that each step writes over: its derivative is zero behind a step, and the argument's where none
// ran.
TEST(Loops, ThatOverwriteTheirCarry_HaveZeroDerivative_UnlessNoStepRan) {
  const Array x = waves({4}), ct = waves({4}, 3), none_left = zeros({4});
  auto over = [](Array, Array y) { return std::pair(y, std::tuple<>()); };
  for (std::int64_t length : {0, 1, 3}) {
    SCOPED_TRACE(length);
    auto scanned = [&](Array x) { return scan(over, x, ones({length, 4})).first; };
    const Array expected = length == 0 ? ct : none_left;
    expect_equal(std::get<0>(vjp(scanned, x).second(ct)), expected);
    expect_equal(jvp(scanned, std::tuple(x), std::tuple(ct)).second, expected);
    auto looped = [&](Array x) {
      return while_loop([&](std::pair<Array, Array> s) { return s.first < length; },
                        [](std::pair<Array, Array> s) { return std::pair(s.first + 1, ones({4})); },
                        std::pair(zeros({}, int32), x))
          .second;
    };
    expect_equal(jvp(looped, std::tuple(x), std::tuple(ct)).second, expected);
  }
}

TEST(WhileLoop, UnderVmap_EachExampleStopsByItself) {
  auto halvings = [](Array x) {
    return while_loop([](const std::pair<Array, Array>& s) { return s.first > 1.f; },
                      [](std::pair<Array, Array> s) { return std::pair(s.first / 2, s.second + 1); },
                      std::pair(x, zeros({}, int32)))
        .second;
  };
  expect_equal(vmap(halvings)(array({1.f, 5.f, 100.f})), array({0, 3, 7}));
}

TEST(WhileLoop, ReverseDerivative_IsAnErrorThatSaysWhatToUse) {
  auto f = [](Array x) {
    return while_loop([](Array x) { return x < 10.f; }, [](Array x) { return x * 2; }, x);
  };
  EXPECT_THAT(error_of<TraceError>([&] { grad(f)(number(1.f)); }),
              AllOf(HasSubstr("[while_loop] has no reverse derivative"), HasSubstr("use scan, or fori_loop"),
                    HasSubstr("control_flow_test.cc:")));
}

TEST(ForiLoop, ConstantBounds_HaveAGradient_AndArrayBoundsRun) {
  auto power = [](Array x) {
    return fori_loop(
        0, 5, [x](Array, Array p) { return p * x; }, ones({}));
  };
  EXPECT_NEAR(power(number(1.5f)).item<float>(), std::pow(1.5, 5), 1e-4);
  EXPECT_NEAR(grad(power)(number(1.5f)).item<float>(), 5 * std::pow(1.5, 4), 1e-4);
  auto sum_below = jit([](Array n) {
    return fori_loop(
        Array(0), n, [](Array i, Array s) { return s + i; }, zeros({}, int32));
  });
  EXPECT_EQ(sum_below(number(10)).item<std::int32_t>(), 45);
  EXPECT_EQ(sum_below(number(0)).item<std::int32_t>(), 0);
  EXPECT_EQ(fori_loop(
                3, 1, [](Array, Array s) { return s + 1; }, zeros({}, int32))
                .item<std::int32_t>(),
            0);
}

TEST(ForiLoop, MoreThan2To31Steps_AreCompiled) {
  auto f = [](Array x) {
    return fori_loop(
        0, 3'000'000'000, [&](Array, Array c) -> Array { return c + x; }, x);
  };
  EXPECT_NO_THROW(jit(f).lower(number(1.F)).compile());
}

TEST(ForiLoop, BoundsBeyond32Bits_AreCountedInI64) {
  const std::int64_t large = std::int64_t{1} << 33;
  auto last = [](Array i, Array) { return i; };
  const Array start = zeros({}, int64);
  EXPECT_EQ(fori_loop(large, large + 3, last, start).item<std::int64_t>(), large + 2);
  auto number = [](std::int64_t value) { return array(std::vector<std::int64_t>{value}, Shape{}); };
  const Array lower = number(large), upper = number(large + 3);
  EXPECT_EQ(fori_loop(lower, upper, last, start).item<std::int64_t>(), large + 2);
  EXPECT_EQ(jit([&](Array n) { return fori_loop(large, n, last, start); })(upper).item<std::int64_t>(),
            large + 2);
  EXPECT_THAT(error_of<TraceError>([&] { fori_loop(lower, astype(upper, uint64), last, start); }),
              AllOf(HasSubstr("[fori_loop] no integer dtype holds both bounds, i64[] and u64[]"),
                    HasSubstr("_test.cc:")));
}

TEST(Cond, RunsOneBranch_AndDifferentiatesIt) {
  auto f = [](Array x) {
    return cond(
        x > 0.f, [](Array x) { return x * x; }, [](Array x) { return sin(x); }, x);
  };
  EXPECT_FLOAT_EQ(f(number(3.f)).item<float>(), 9);
  EXPECT_FLOAT_EQ(grad(f)(number(3.f)).item<float>(), 6);
  EXPECT_FLOAT_EQ(grad(f)(number(-1.f)).item<float>(), std::cos(-1.f));
  expect_equal(vmap(grad(f))(array({3.f, -1.f})), array({6.f, std::cos(-1.f)}));
  EXPECT_FLOAT_EQ(cond(
                      true, [] { return ones({}); }, [] { return zeros({}); })
                      .item<float>(),
                  1);
}

TEST(Switch, ClampsTheIndex) {
  auto branches =
      std::tuple([](Array x) { return x; }, [](Array x) { return 10 * x; }, [](Array x) { return 100 * x; });
  auto f = [&](Array i) { return switch_(i, branches, array({2.f})); };
  expect_equal(f(number(1)), array({20.f}));
  expect_equal(f(number(7)), array({200.f}));
  expect_equal(f(number(-7)), array({2.f}));
  const std::vector<std::function<Array(Array)>> listed = {[](Array x) { return x; },
                                                           [](Array x) { return -x; }};
  expect_equal(vmap([&](Array i) { return switch_(i, listed, ones({})); })(array({0, 1, 0})),
               array({1.f, -1.f, 1.f}));
}

/// One table of what is refused, and what is said then.
TEST(ControlFlow, ArgumentsThatDoNotFit_AreErrors) {
  struct Case {
    std::function<void()> action;
    std::vector<std::string> says;
  };
  const Array x = ones({3});
  const std::vector<Case> cases = {
      {[&] {
         scan([](Array c, Array x) { return std::pair(concatenate(std::vector<Array>{c, c}), x); }, x, x);
       },
       {"[scan] the carry changes its type: carry is f32[3] at the start and f32[6] after a step",
        "(at control_flow_test.cc:"}},
      {[&] {
         while_loop([](const std::pair<Array, Array>& s) { return sum(s.first) > 0.f; },
                    [](std::pair<Array, Array> s) { return std::pair(s.first, astype(s.second, int32)); },
                    std::pair(x, x));
       },
       {"[while_loop] the carry changes its type: carry[1] is f32[3] at the start and i32[3] after a step"}},
      {[&] {
         fori_loop(
             0, 3, [](Array, Array c) { return sum(c); }, x);
       },
       {"[scan] the carry changes its type: carry[1] is f32[3] at the start and f32[] after a step"}},
      {[&] {
         scan(
             [](std::vector<Array> c, Array x) {
               c.push_back(x);
               return std::pair(c, x);
             },
             std::vector<Array>{x}, x);
       },
       {"[scan] the carry changes its structure: it starts with 1 arrays and carry.size()=1, but a step "
        "gives 2 arrays, there carry[1] and carry.size()=2"}},
      {[&] {
         scan([](Array c, std::pair<Array, Array> x) { return std::pair(c, x.first); }, x,
              std::pair(x, ones({4})));
       },
       {"[scan] xs[1] is f32[4] and has 4 elements, but xs[0] says 3"}},
      {[&] { scan([](Array c, std::tuple<>) { return std::pair(c, c); }, x, std::tuple<>()); },
       {"[scan] xs holds no array, so nothing says how many steps there are"}},
      {[&] { scan([](Array c, Array x) { return std::pair(c, x); }, x, ones({})); },
       {"[scan] xs is f32[], a scalar, which has no elements to scan"}},
      {[&] {
         cond(
             x > 0.f, [] { return ones({}); }, [] { return ones({}); });
       },
       {"[cond] expected a condition that is a bool scalar, got bool[3]", "all or any"}},
      {[&] {
         cond(
             ones({}), [] { return ones({}); }, [] { return ones({}); });
       },
       {"[cond] expected a condition that is a bool scalar, got f32[]"}},
      {[&] {
         cond(
             true, [] { return ones({2}); }, [] { return ones({3}); });
       },
       {"[cond] the branches give different types: result is f32[3] of on_false and f32[2] of on_true"}},
      {[&] { switch_(0, std::tuple([] { return ones({2}); }, [] { return ones({2}, int32); })); },
       {"[switch_] the branches give different types: result is f32[2] of branch 0 and i32[2] of branch 1"}},
      {[&] { switch_(1.5f, std::tuple([] { return ones({2}); })); },
       {"[switch_] expected an index that is an integer scalar, got f32[]"}},
      {[&] { while_loop([](Array x) { return x; }, [](Array x) { return x; }, x); },
       {"[while_loop] expected a condition that is a bool scalar, got f32[3]"}},
      {[&] { jit([](Array x) { return x.item<float>() > 0 ? x : -x; })(ones({})); },
       {"that is being traced"}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const std::string message = error_of<Error>(cases[i].action);
    for (const std::string& part : cases[i].says) EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(Scan, OverSplitArrays_IsPartitionedOnce) {
  const Array w = waves({8, 8}), h = waves({4, 8}, 2), xs = waves({6, 4, 8}, 3);
  auto f = [](Array w, Array h, Array xs) {
    return scan(
        [&](Array h, Array x) {
          Array next = tanh(matmul(h, w) + x);
          return std::pair(next, sum(next, 1));
        },
        h, xs);
  };
  auto expected = f(w, h, xs);
  const Mesh mesh = line_mesh();
  // The batch is split: nothing travels.
  auto rows =
      jit(f).lower(device_put(w, NamedSharding(mesh, P())), device_put(h, NamedSharding(mesh, P("x"))),
                   device_put(xs, NamedSharding(mesh, P(none, "x"))));
  EXPECT_EQ(rows.communication().size(), 0u) << rows.partitioned;
  auto by_rows = jit(f)(device_put(w, NamedSharding(mesh, P())), device_put(h, NamedSharding(mesh, P("x"))),
                        device_put(xs, NamedSharding(mesh, P(none, "x"))));
  expect_equal(by_rows.first, expected.first);
  expect_equal(by_rows.second, expected.second);
  EXPECT_EQ(by_rows.first.sharding().spec(), P("x"));
  // The contracted dimension is split: something travels in each step.
  auto columns = [&](auto& f) {
    return f(device_put(w, NamedSharding(mesh, P("x"))), device_put(h, NamedSharding(mesh, P(none, "x"))),
             device_put(xs, NamedSharding(mesh, P())));
  };
  auto lower = [&](const auto&... args) { return jit(f).lower(args...); };
  auto lowered = columns(lower);
  ASSERT_GE(lowered.communication().size(), 1u) << lowered.partitioned;
  std::int64_t total = 0;
  for (const auto& each : lowered.communication()) {
    total += each.total_bytes();
    EXPECT_EQ(each.to_string().ends_with(", 6 times"), each.times == 6) << each.to_string();
  }
  EXPECT_EQ(lowered.cost().communicated_bytes, total);
  auto run = [&](const auto&... args) { return jit(f)(args...); };
  auto by_columns = columns(run);
  expect_equal(by_columns.first, expected.first);
  expect_equal(by_columns.second, expected.second);
  // Backwards, too.
  auto gradient = [&](Array w, Array h, Array xs) {
    return grad([&](Array w) { return sum(square(f(w, h, xs).first)); })(w);
  };
  auto split_gradient = [&](const auto&... args) { return jit(gradient)(args...); };
  expect_equal(columns(split_gradient), gradient(w, h, xs), 2e-4);
}

TEST(WhileAndCond, OverSplitArrays_GiveWhatOneDeviceGives) {
  const Array x = waves({8, 4});
  auto f = [](Array x) {
    Array small = while_loop([](Array x) { return sum(x * x) > 0.1f; }, [](Array x) { return x * 0.7f; }, x);
    return cond(
        sum(x) > 0.f, [](Array a) { return sum(a, 0); }, [](Array a) { return max(a, 0); }, small);
  };
  for (const PartitionSpec& spec : {P("x"), P(none, "x"), P()}) {
    const Array split = device_put(x, NamedSharding(line_mesh(), spec));
    expect_equal(jit(f)(split), f(x));
    expect_equal(jit(f)(-split), f(-x));
  }
}

TEST(ShardMap, ACollectiveInALoop_RunsInEachStep) {
  for (int devices : {2, 4}) {
    const Mesh mesh(
        std::vector<Device>(::lockstep::devices().begin(), ::lockstep::devices().begin() + devices),
        {devices}, {"x"});
    auto f = shard_map(
        [](Array x) {
          auto [last, ys] = scan(
              [](Array total, Array x) {
                Array next = 0.5f * psum(total + x, "x");
                return std::pair(next, next * axis_index("x"));
              },
              zeros({}), x);
          return std::pair(last, ys);
        },
        {mesh, {P("x")}, {P(), P("x")}});
    const Array x = waves({8 * devices});
    const std::vector<float> values = x.to_host<float>();
    float total = 0;
    std::vector<float> expected(values.size());
    for (int t = 0; t < 8; ++t) {
      float next = 0;
      for (int d = 0; d < devices; ++d) next += 0.5f * (total + values[static_cast<std::size_t>(8 * d + t)]);
      total = next;
      for (int d = 0; d < devices; ++d)
        expected[static_cast<std::size_t>(8 * d + t)] = total * static_cast<float>(d);
    }
    auto [last, ys] = f(x);
    EXPECT_NEAR(last.item<float>(), total, 1e-4 * (1 + std::abs(total)));
    expect_equal(ys, array(expected, {8 * devices}), 1e-4);
    // The gradient of a loop of collectives.
    auto value = [&](Array x) { return f(x).first; };
    const Array gradient = grad(value)(x);
    const double step = 0.05;
    std::vector<float> up = values, down = values;
    up[3] += static_cast<float>(step);
    down[3] -= static_cast<float>(step);
    EXPECT_NEAR(
        gradient.to_host<float>()[3],
        (value(array(up, {8 * devices})).item<float>() - value(array(down, {8 * devices})).item<float>()) /
            (2 * step),
        1e-2 * (1 + std::abs(gradient.to_host<float>()[3])));
  }
}

/// Where collectives stand in a program's regions: each takes a scalar and gives another, each device's part
/// of x, split over "x", being part of it.
using InRegion = std::function<Array(Array scalar, Array x)>;

Array in_all(const Array& scalar, const Array& x) { return scalar + psum(x, "x"); }
Array in_none(const Array& scalar, const Array&) { return scalar + 1; }

/// Loops while the scalar, with what `condition` adds, is below 40.
InRegion loop(InRegion condition, InRegion body) {
  return [=](Array scalar, Array x) {
    return while_loop([&](Array s) { return condition(s, x) < 40.f; },
                      [&](Array s) { return body(s, x) + 1; }, scalar);
  };
}
InRegion branch(InRegion on_true, InRegion on_false) {
  return [=](Array scalar, Array x) {
    return cond(
        scalar < 5.f, [&](Array s) { return on_true(s, x); }, [&](Array s) { return on_false(s, x); },
        scalar);
  };
}
InRegion steps(InRegion step) {
  return [=](Array scalar, Array x) {
    return scan([&](Array s, Array) { return std::pair(step(s, x), s); }, scalar, zeros({3})).first;
  };
}

TEST(ShardMap, CollectivesInEachKindOfRegion_AreInOneOrderWithLaterOnes) {
  const std::map<std::string, InRegion> all = {
      {"condition", loop(in_all, in_none)},
      {"body", loop(in_none, in_all)},
      {"condition and body", loop(in_all, in_all)},
      {"branch", branch(in_all, in_none)},
      {"both branches", branch(in_none, in_all)},
      {"scan", steps(in_all)},
      {"condition in a scan", steps(loop(in_all, in_none))},
      {"condition in a body", loop(in_none, loop(in_all, in_none))},
      {"condition in a condition", loop(loop(in_all, in_none), in_none)},
      {"condition in a branch", branch(loop(in_all, in_none), in_none)},
      {"branch in a condition", loop(branch(in_all, in_none), in_none)},
      {"scan in a condition", loop(steps(in_all), in_none)},
  };
  const Array x = device_put(array({1.f, 2.f, 3.f, 1.f}), NamedSharding(line_mesh(), P("x")));
  for (const auto& [name, region] : all) {
    SCOPED_TRACE(name);
    // Behind it stand collectives that need nothing of it: only the chain of tokens holds them back.
    auto f = jit(shard_map(
        [&, region = region](Array x) {
          const Array scalar = sum(x) * 0;
          return std::tuple(region(psum(scalar, "x"), sum(x)), psum(x * 2, "x"), psum(exp(x), "x"));
        },
        {line_mesh(), {P("x")}, {P(), P(), P()}}));
    const std::string text = f.lower(x).as_text();
    // A token that a loop's body hands on as it came would be taken out of the loop by XLA.
    for (std::size_t at = text.find("stablehlo.while"); at != text.npos;
         at = text.find("stablehlo.while", at + 1)) {
      const std::size_t body = text.find("}, {", at);
      EXPECT_EQ(text.substr(at, body - at).find("lockstep_collective"), std::string::npos) << text;
    }
    const auto [first, second, third] = f(x);
    for (int repeat = 0; repeat < 30; ++repeat) {
      const auto [a, b, c] = f(x);
      EXPECT_EQ(a.item<float>(), first.item<float>());
      EXPECT_EQ(b.to_host<float>(), std::vector<float>{14});
      EXPECT_EQ(c.to_host<float>(), third.to_host<float>());
    }
  }
}

TEST(ShardMap, ALoop_MayRunDifferentlyOftenOnEachDevice) {
  auto halvings = shard_map(
      [](Array x) {
        auto [small, count] =
            while_loop([](const std::pair<Array, Array>& s) { return sum(s.first) > 1.f; },
                       [](std::pair<Array, Array> s) { return std::pair(s.first / 2, s.second + 1); },
                       std::pair(x, zeros({1}, int32)));
        return count;
      },
      {line_mesh(), {P("x")}, {P("x")}});
  expect_equal(halvings(array({1.f, 3.f, 9.f, 100.f})), array({0, 2, 4, 7}));
  auto refused = shard_map(
      [](Array x) {
        return while_loop([](Array x) { return sum(x) > 1.f; }, [](Array x) { return x - psum(x, "x"); }, x);
      },
      {line_mesh(), {P("x")}, {P("x")}});
  EXPECT_THAT(error_of<ShardingError>([&] { refused(ones({4})); }),
              AllOf(HasSubstr("[while] the value that decides differs between the devices along 'x'"),
                    HasSubstr("they must all do the psum over 'x'")));
}

}  // namespace
}  // namespace lockstep
