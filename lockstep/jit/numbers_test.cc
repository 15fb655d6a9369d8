// SPDX-License-Identifier: Apache-2.0
// Numbers among the arguments: traced, as in JAX.

#include "lockstep/jit/numbers.h"

#include <cmath>
#include <tuple>
#include <utility>

#include "lockstep/array/disable_jit.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using ::testing::AllOf;
using ::testing::HasSubstr;

Aval weak(DType dtype) { return {dtype, {}, true, {}}; }

TEST(Numbers, AreTraced_WithJaxsDTypes) {
  std::vector<Aval> avals;
  auto see = jit([&](Array x) {
    avals.push_back(x.aval());
    return x;
  });
  EXPECT_EQ(see(0.1).aval(), weak(float32));
  EXPECT_EQ(see(0.2f).aval(), weak(float32));
  EXPECT_EQ(see(3).aval(), weak(int32));
  EXPECT_EQ(see(4L).item<std::int32_t>(), 4);
  EXPECT_EQ(see(std::size_t{5}).item<std::int32_t>(), 5);
  EXPECT_EQ(see(true).aval(), (Aval{bool_, {}, false, {}}));
  EXPECT_THAT(avals, ::testing::ElementsAre(weak(float32), weak(int32), Aval{bool_, {}, false, {}}));
  EXPECT_THAT(error_of<DTypeError>([&] { see(std::int64_t{1} << 40); }), HasSubstr("1099511627776"));
}

TEST(Numbers, AScheduleOfLearningRates_IsTracedOnce) {
  int traces = 0;
  auto step = jit([&](Array w, Array rate) {
    ++traces;
    return w - rate * w;
  });
  Array w = astype(ones({4}), bfloat16);
  for (int i = 0; i < 5; ++i) w = step(w, 0.5 / (1 << i));
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(w.dtype(), bfloat16) << "the number is weak";

  auto generic = jit([&](auto x, auto k) { return x * k; });
  expect_equal(generic(test::waves({3}), 2.0), 2 * test::waves({3}));
  EXPECT_EQ(generic(2, 3).aval(), weak(int32));
}

TEST(Doubles, WithF64Arrays_KeepAllTheirDigits) {
  const Array x = ones({2}, float64);
  auto first = [](const Array& y) {
    EXPECT_EQ(y.dtype(), float64);
    return y.to_host<double>()[0];
  };
  EXPECT_EQ(first(Array(0.1) * x), 0.1);
  EXPECT_EQ(first(where(x > 0, Array(0.1), x)), 0.1);
  EXPECT_EQ(first(power(x + 1, Array(0.1))), std::pow(2, 0.1));

  int traces = 0;
  auto scaled = jit([&](const Array& x, const Array& k) {
    ++traces;
    return x * k;
  });
  for (double k : {0.1, 0.7, 1e-9}) EXPECT_EQ(first(scaled(x, k)), k);
  EXPECT_EQ(first(scaled(x, Array(0.3))), 0.3);
  EXPECT_EQ(traces, 1);
  // A weak array that is no number has the digits of f32.
  const Array computed = Array(0.1) + Array(0.2);
  EXPECT_EQ(first(scaled(x, computed)), static_cast<double>(0.1f + 0.2f));
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(first(scaled(x, 0.1f)), static_cast<double>(0.1f)) << "a float is its own value";

  const Array number(0.1);
  EXPECT_EQ(first(jit([&](const Array& x) { return x * number; })(x)), 0.1);
  EXPECT_EQ(first(jit([](const Array& x) { return x * Array(0.1); })(x)), 0.1);
  auto arithmetic = jit([](const Array& x, const Array& k) { return x * (k * k / 3 - sqrt(k) * 0.1); });
  EXPECT_DOUBLE_EQ(first(arithmetic(x, 0.7)), 0.7 * 0.7 / 3 - std::sqrt(0.7) * 0.1);

  auto nested = jit([&](const Array& x, const Array& k) {
    auto step = [&](const Array& c) { return c + k; };
    return fori_loop(
               0, 3, [&](const Array&, const Array& c) { return step(c); }, x) *
           scaled(x, k);
  });
  EXPECT_DOUBLE_EQ(first(nested(x, 0.1)), 0.1 * (1 + 0.1 + 0.1 + 0.1));
  EXPECT_EQ(first(vmap([](const Array& x, const Array& k) { return x * k; })(x, 0.1)), 0.1);
  auto weighed = [](const Array& x, const Array& k) { return sum(x * k); };
  EXPECT_EQ(first(grad(weighed)(x, 0.1)), 0.1);
  EXPECT_EQ(first(jit(grad(weighed))(x, 0.1)), 0.1);
  const Array rows = ones({local_device_count()}, float64);
  EXPECT_EQ(first(pmap([](const Array& x, const Array& k) { return x * k; })(rows, 0.1)), 0.1);
  DisableJit eager;
  EXPECT_EQ(first(scaled(x, 0.1)), 0.1);
}

struct Times {
  Array step, end;
};

TEST(Doubles, InTreesWithF64Arrays_KeepAllTheirDigits) {
  const Times times{0.1, 0.3};
  auto advanced = jit([](const Array& x, const Times& times) { return x * times.step + times.end; });
  EXPECT_DOUBLE_EQ(advanced(ones({}, float64), times).item<double>(), 0.4);
}

TEST(Doubles, WithF32Arrays_LeaveProgramsInF32) {
  const Array x = test::waves({8});
  auto twice = [](const Array& x, const Array& k) { return x * (k * k) + k; };
  const float k = 0.1f;
  const std::vector<float> found = jit(twice)(x, 0.1).to_host<float>();
  const std::vector<float> narrow = jit(twice)(x, k).to_host<float>();
  EXPECT_EQ(found, narrow);
  EXPECT_EQ(jit(twice).lower(x, 0.1).as_text(), jit(twice).lower(x, Array(k)).as_text());
}

TEST(Numbers, OverAMesh_GoToEveryDevice) {
  int traces = 0;
  auto times = jit([&](Array x, Array k) {
    ++traces;
    return x * k;
  });
  const Array x = device_put(test::waves({8}), NamedSharding(line_mesh(), P("x")));
  expect_equal(times(x, 2.0), 2 * test::waves({8}));
  expect_equal(times(x, 3.0), 3 * test::waves({8}));
  EXPECT_EQ(traces, 1);
}

TEST(Numbers, ForParametersOfNumberType_AreCompiledIn) {
  int traces = 0;
  auto power = jit([&](Array x, int n, Array scale) {
    ++traces;
    Array y = scale;
    for (int i = 0; i < n; ++i) y = y * x;
    return y;
  });
  EXPECT_EQ(power(2.0, 3, 10.0).item<float>(), 80);
  EXPECT_EQ(power(3.0, 3, 1.0).item<float>(), 27);
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(power(3.0, 2, 1.0).item<float>(), 9);
  EXPECT_EQ(traces, 2);
}

TEST(Numbers, AmongStaticArgnums_AreConstants) {
  int traces = 0;
  auto function = [&](Array x, Array k) {
    ++traces;
    return x * k;
  };
  const Array x = astype(ones({2}), bfloat16);
  for (int argument : {1, -1}) {
    traces = 0;
    auto times = jit(function, {.static_argnums = {argument}});
    EXPECT_EQ(times(x, 2.0).dtype(), bfloat16);
    times(x, 2.0);
    EXPECT_EQ(traces, 1);
    expect_equal(astype(times(x, 3.0), float32), 3 * ones({2}));
    EXPECT_EQ(traces, 2);
  }
  EXPECT_THAT(error_of<TraceError>([&] { jit(function, {.static_argnums = {2}})(x, 2.0); }),
              AllOf(HasSubstr("static_argnums has 2"), HasSubstr("with 2 arguments")));
  EXPECT_THAT(error_of<TraceError>([&] { jit(function, {.static_argnums = {0}})(x, 2.0); }),
              AllOf(HasSubstr("argument 0"), HasSubstr("holds arrays")));
  auto named =
      jit([](Array x, std::string how) { return how == "twice" ? 2 * x : x; }, {.static_argnums = {1}});
  expect_equal(named(ones({2}), std::string("twice")), 2 * ones({2}));
}

TEST(Numbers, PassedToLoweredAndCompiledFunctions_AreTraced) {
  auto times = jit([](Array x, Array k) { return x * k; });
  auto compiled = times.lower(ones({2}), 2.0).compile();
  expect_equal(compiled(ones({2}), 2.0), 2 * ones({2}));
  expect_equal(compiled(ones({2}), 5.0), 5 * ones({2}));
  EXPECT_THAT(error_of<TraceError>([&] { compiled(ones({2}), 5); }),
              HasSubstr("lowered for arguments of other"));
}

TEST(Numbers, PassedToAFunctionWithinAnother_AreTracedThere) {
  auto inner = jit([](Array x, Array k) { return x * k; });
  auto outer = jit([&](Array x) { return inner(x, 2.5); });
  EXPECT_EQ(outer(astype(ones({2}), bfloat16)).dtype(), bfloat16);
  auto both = jit([&](Array x, int n, Array k) {
    return grad([](Array x, int n, Array k) { return n * k * sum(x * x); })(x, n, k);
  });
  expect_equal(both(test::waves({3}), 2, 1.5), 6 * test::waves({3}));
}

TEST(Numbers, AreDifferentiated) {
  auto cube = [](Array x) { return x * x * x; };
  Array slope = grad(cube)(2.0);
  EXPECT_EQ(slope.aval(), weak(float32));
  EXPECT_EQ(slope.item<float>(), 12);
  EXPECT_EQ(jit(grad(cube))(3.0).item<float>(), 27);
  auto [value, both] = value_and_grad<1, 0>([](Array x, Array y) { return x * y; })(3.0, 2.0);
  EXPECT_EQ(value.item<float>(), 6);
  EXPECT_EQ(std::get<0>(both).item<float>(), 3);
  EXPECT_EQ(std::get<1>(both).item<float>(), 2);
  EXPECT_THAT(error_of<TraceError>([&] { grad([](Array x) { return x * 2.0; })(3); }),
              HasSubstr("an integer cannot be differentiated"));

  auto [primal, tangent] = jvp(cube, std::tuple(2.0), std::tuple(1.0));
  EXPECT_EQ(primal.item<float>(), 8);
  EXPECT_EQ(tangent.item<float>(), 12);
  EXPECT_EQ(std::get<0>(vjp(cube, 2.0).second(1.0)).item<float>(), 12);
  EXPECT_EQ(jacfwd(cube)(2.0).item<float>(), 12);
  EXPECT_EQ(grad(remat(cube))(2.0).item<float>(), 12);
}

TEST(Numbers, AreTheSameForAllExamplesOfVmap) {
  expect_equal(vmap([](Array x, Array k) { return x * k; })(test::waves({3}), 2.0), 2 * test::waves({3}));
  expect_equal(vmap([](Array x, int n) { return x * n; })(test::waves({3}), 2), 2 * test::waves({3}));
}

struct Norm {
  Array scale, count;
};

TEST(Messages, NameAnArrayOfATreeByItsPath) {
  EXPECT_THAT(error_of<TraceError>([] {
                grad([](const Norm& norm) { return sum(norm.scale); })(Norm{ones({2}), zeros({}, int64)});
              }),
              HasSubstr("[grad] argument 0.count is i64[], and an integer cannot be differentiated"));
  const Sharding split = NamedSharding(line_mesh(), P("x"));
  auto two = jit(
      [](const Array& x) {
        return std::pair(x, Norm{x, sum(x)});
      },
      {.out_shardings = {split, split}});
  EXPECT_THAT(error_of<ShardingError>([&] { two(ones({8})); }),
              HasSubstr("[jit, result[1].count] P('x') has 1 entries"));
}

TEST(Grad, GivesTheGradientsInTheOrderOfArgnums) {
  auto f = [](Array x, Array y, std::vector<Array> zs) {
    return sum(x * y) + 7 * sum(zs[0]) + 8 * sum(zs[1]);
  };
  const Array x = test::waves({2}), y = test::waves({2}, 3);
  const std::vector<Array> zs = {ones({3}), ones({4})};
  auto [zs_grad, x_grad] = grad<2, 0>(f)(x, y, zs);
  expect_equal(x_grad, y);
  expect_equal(zs_grad[0], 7 * ones({3}));
  expect_equal(zs_grad[1], 8 * ones({4}));
  auto [first, second] = grad<0, 1>(f)(x, y, zs);
  expect_equal(first, y);
  expect_equal(second, x);
}

TEST(Pmap, FewerRowsThanDevices_RunOnTheFirstDevices) {
  auto total = pmap([](Array x) { return psum(x, "i"); });
  for (std::int64_t rows : {1, 2, 4}) {
    const Array x = test::waves({rows, 3});
    expect_equal(total(x), broadcast_to(sum(x, 0), {rows, 3}));
  }
  const Array y = test::waves({3, 2}, 1);
  auto last = pmap([](Array x, Array y) { return x * y; }, {.in_axes = {std::nullopt, 1}, .out_axes = {1}});
  expect_equal(last(test::waves({3}), y), reshape(test::waves({3}), {3, 1}) * y);
}

TEST(Pmap, CapturedArraysAndNumbers_AreUsed) {
  const Array w = test::waves({3}), split = device_put(test::waves({4}), NamedSharding(line_mesh(), P("x")));
  const Array x = test::waves({4, 3}, 2);
  auto add = pmap([&](Array x) {
    Array total = 0.;
    total = total + x + w + linspace(0, 1, 3) + sum(split);
    return total;
  });
  for (int i = 0; i < 2; ++i) expect_equal(add(x), x + w + linspace(0, 1, 3) + sum(test::waves({4})));
  auto closure = [&, k = 3.0](Array x) { return pmean(x * k, "i") + w; };
  expect_equal(pmap(closure, {.out_axes = {std::nullopt}})(x), mean(x * 3.0, 0) + w);
  const Array half = astype(x, bfloat16);
  EXPECT_EQ(pmap([](Array x, Array k) { return x * k; }, {.in_axes = {0, std::nullopt}})(half, 2.0).dtype(),
            bfloat16);
  expect_equal(pmap([](Array x, int n) { return x * n; })(x, 2), 2 * x);
}

}  // namespace
}  // namespace lockstep
