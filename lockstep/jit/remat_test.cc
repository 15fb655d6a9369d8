// SPDX-License-Identifier: Apache-2.0
// remat, custom_jvp and custom_vjp.

#include "lockstep/jit/remat.h"

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::count;
using test::error_of;
using test::expect_equal;
using test::line_mesh;
using test::number;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Checkpoint, KeepsTheValue_AndComputesItAgainInTheDerivative) {
  const Array w = waves({4, 4}), x = waves({4}, 2);
  auto layer = [](Array w, Array x) { return tanh(matmul(w, tanh(matmul(w, x)))); };
  auto plain = [&](Array w) { return sum(layer(w, x)); };
  auto saving = [&](Array w) { return sum(remat(layer)(w, x)); };
  expect_equal(saving(w), plain(w));
  expect_equal(grad(saving)(w), grad(plain)(w));
  expect_equal(jit(grad(grad([&](Array a) { return saving(a * w); })))(number(0.5f)),
               grad(grad([&](Array a) { return plain(a * w); }))(number(0.5f)));
  expect_equal(vmap(grad(saving))(waves({2, 4, 4}, 3)), vmap(grad(plain))(waves({2, 4, 4}, 3)));
  auto dots = [&](auto& f) {
    return count(jit(value_and_grad(f)).lower(w).as_text(), "stablehlo.dot_general");
  };
  EXPECT_GT(dots(saving), dots(plain));
  EXPECT_THAT(jit(grad(saving)).lower(w).as_text(), HasSubstr("stablehlo.optimization_barrier"));
  const Array split = device_put(w, NamedSharding(line_mesh(), P("x")));
  expect_equal(jit(grad(saving))(split), grad(plain)(w));
}

TEST(Checkpoint, AScanOfARematBody_StacksLessThanAPlainOne) {
  const Array w = waves({3, 3}), xs = waves({5, 3}, 2);
  auto step = [w](Array h, Array x) {
    Array next = tanh(matmul(w, sin(h * x)) + cos(h));
    return std::pair(next, std::tuple<>());
  };
  auto plain = [&](Array h) { return sum(scan(step, h, xs).first); };
  auto saving = [&](Array h) { return sum(scan(remat(step), h, xs).first); };
  const Array h = waves({3}, 4);
  expect_equal(grad(saving)(h), grad(plain)(h));
  auto kept = [&](auto& f) { return jit(grad(f)).lower(h).compile().cost().temporary_bytes; };
  EXPECT_LT(count(jit(grad(saving)).lower(h).program, "f32[5,3]"),
            count(jit(grad(plain)).lower(h).program, "f32[5,3]"));
  EXPECT_GT(kept(plain), 0);
}

/// log(1 + exp(x)), with the derivative that does not overflow.
Array softplus(const Array& x) {
  return custom_jvp([](Array x) { return log1p(exp(x)); },
                    [](std::tuple<Array> x, std::tuple<Array> t) {
                      return std::pair(log1p(exp(std::get<0>(x))),
                                       std::get<0>(t) * (1 - 1 / (1 + exp(std::get<0>(x)))));
                    })(x);
}

TEST(CustomJvp, IsTheDerivative_InEveryTransformation) {
  const Array x = array({1.f, 100.f, -3.f});
  auto value = [](Array x) { return sum(softplus(x)); };
  expect_equal(grad(value)(x), array({1 - 1 / (1 + std::exp(1.f)), 1.f, 1 - 1 / (1 + std::exp(-3.f))}));
  expect_equal(vmap(grad([](Array x) { return softplus(x); }))(x), grad(value)(x));
  expect_equal(jit(grad(value))(device_put(waves({8}), NamedSharding(line_mesh(), P("x")))),
               grad(value)(waves({8})));
  const float s = 1 / (1 + std::exp(-1.f));
  EXPECT_NEAR(grad(grad([](Array x) { return softplus(x); }))(number(1.f)).item<float>(), s * (1 - s), 1e-6);
  auto in_a_loop = [](Array x) {
    return fori_loop(
        0, 3, [](Array, Array x) { return softplus(x); }, x);
  };
  auto plain_loop = [](Array x) {
    return fori_loop(
        0, 3, [](Array, Array x) { return log1p(exp(x)); }, x);
  };
  expect_equal(grad(in_a_loop)(number(0.3f)), grad(plain_loop)(number(0.3f)));
}

TEST(CustomVjp, ClipsAGradient) {
  auto clip = custom_vjp([](Array x, Array, Array) { return x; },
                         [](Array x, Array low, Array high) { return std::pair(x, std::pair(low, high)); },
                         [](std::pair<Array, Array> r, Array g) {
                           return std::tuple(maximum(r.first, minimum(g, r.second)), zeros_like(r.first),
                                             zeros_like(r.second));
                         });
  auto f = [&](Array x) { return sum(sin(clip(x * 10, number(-1.f), number(1.f)))); };
  const Array x = array({0.f, 0.1f, 0.5f});
  expect_equal(f(x), sum(sin(x * 10)));
  auto expected = [&](Array x) {
    return 10 * maximum(array({-1.f, -1.f, -1.f}), minimum(cos(x * 10), array({1.f, 1.f, 1.f})));
  };
  expect_equal(grad(f)(x), expected(x));
  expect_equal(jit(grad(f))(x), expected(x));
  auto single = custom_vjp([](Array x) { return x * x; }, [](Array x) { return std::pair(x * x, x); },
                           [](Array x, Array g) { return 3 * x * g; });
  expect_equal(vmap(grad([&](Array x) { return single(x); }))(x), 3 * x);
  auto scanned = [&](Array x) {
    return scan([&](Array c, Array x) { return std::pair(single(c) + x, std::tuple<>()); }, x, ones({2}))
        .first;
  };
  // 3 c of each of the two steps
  EXPECT_NEAR(grad(scanned)(number(0.5f)).item<float>(), 3 * 0.5 * 3 * 1.25, 1e-5);
}

/// JAX's log1pexp, whose rule calls it.
Array log1pexp(const Array& x) {
  return custom_jvp([](Array x) { return log(1 + exp(x)); },
                    [](std::tuple<Array> x, std::tuple<Array> t) {
                      return std::pair(log1pexp(std::get<0>(x)),
                                       (1 - 1 / (1 + exp(std::get<0>(x)))) * std::get<0>(t));
                    })(x);
}

/// The same for a derivative backwards.
Array own_exp(const Array& x) {
  return custom_vjp([](Array x) { return exp(x); }, [](Array x) { return std::pair(own_exp(x), x); },
                    [](Array x, Array g) { return g * own_exp(x); })(x);
}

TEST(CustomDerivatives, MayCallTheFunctionInItsOwnRule) {
  auto f = [](Array x) { return log1pexp(x); };
  EXPECT_EQ(grad(f)(number(100.f)).item<float>(), 1.f);
  const float s = 1 / (1 + std::exp(-1.f));
  EXPECT_NEAR(grad(f)(number(1.f)).item<float>(), s, 1e-6);
  EXPECT_NEAR(grad(grad(f))(number(1.f)).item<float>(), s * (1 - s), 1e-6);
  EXPECT_NEAR(grad(grad(grad(f)))(number(1.f)).item<float>(), s * (1 - s) * (1 - 2 * s), 1e-6);
  auto g = [](Array x) { return own_exp(x); };
  for (const Array& derivative :
       {grad(g)(number(1.f)), grad(grad(g))(number(1.f)), grad(grad(grad(g)))(number(1.f))})
    EXPECT_NEAR(derivative.item<float>(), std::exp(1.f), 1e-5);
  // Built once, and called by name.
  std::function<Array(Array)> named;
  named = custom_jvp([](Array x) { return log(1 + exp(x)); },
                     [&](std::tuple<Array> x, std::tuple<Array> t) {
                       return std::pair(named(std::get<0>(x)),
                                        (1 - 1 / (1 + exp(std::get<0>(x)))) * std::get<0>(t));
                     });
  auto looped = [&](Array x) {
    return fori_loop(
        0, 2, [&](Array, Array x) { return named(x); }, x);
  };
  EXPECT_NEAR(jit(grad(looped))(number(1.f)).item<float>(), s * (1 - 1 / (2 + std::exp(1.f))), 1e-6);
}

TEST(CustomDerivatives, RunOnlyIfTheFunctionIsDifferentiated) {
  int forwards = 0, backwards = 0;
  auto f = custom_vjp([](Array x) { return x * x; },
                      [&](Array x) {
                        ++forwards;
                        return std::pair(x * x, x);
                      },
                      [&](Array x, Array g) {
                        ++backwards;
                        return 3 * x * g;
                      });
  const Array x = number(2.f);
  EXPECT_EQ(jit(f)(x).item<float>(), 4);
  EXPECT_EQ(vmap(f)(ones({3})).shape(), (Shape{3}));
  EXPECT_EQ(forwards + backwards, 0);
  EXPECT_EQ(grad(f)(x).item<float>(), 6);
  EXPECT_EQ(forwards, 1);
  EXPECT_EQ(backwards, 1);
  // A tracer from outside that a rule uses is what it was.
  auto scaled = [](Array w, Array x) {
    const Array k = w * 2;
    auto g = custom_jvp([](Array x) { return round(x); },
                        [k](std::tuple<Array> x, std::tuple<Array> t) {
                          return std::pair(round(std::get<0>(x)), k * std::get<0>(t));
                        });
    auto step = [&](Array c, std::tuple<>) { return std::pair(g(c) + x, std::tuple<>()); };
    return scan(step, x, std::tuple<>(), {.length = 1}).first;
  };
  EXPECT_EQ(jit(grad<1>(scaled))(number(3.f), x).item<float>(), 7);
  EXPECT_EQ(grad<1>(scaled)(number(3.f), x).item<float>(), 7);
}

/// The function's gradient is asked for.
template <class F>
void differentiate(F f, const Array& x) {
  grad([&](Array x) { return sum(f(x)); })(x);
}

TEST(CustomDerivatives, RulesThatDoNotFit_AreErrors) {
  const Array x = ones({3});
  auto square = [](Array x) { return x * x; };
  EXPECT_THAT(error_of<TraceError>([&] {
                differentiate(custom_jvp(square,
                                         [](std::tuple<Array> x, std::tuple<Array> t) {
                                           return std::pair(std::get<0>(x), sum(std::get<0>(t)));
                                         }),
                              x);
              }),
              AllOf(HasSubstr("[custom_jvp] result is f32[3], but the rule gives f32[] for its derivative"),
                    HasSubstr("remat_test.cc:")));
  EXPECT_THAT(error_of<TraceError>([&] {
                differentiate(custom_vjp(
                                  square, [](Array x) { return std::pair(sum(x), x); },
                                  [](Array x, Array g) { return x * g; }),
                              x);
              }),
              HasSubstr("[custom_vjp, forward] result is f32[3] from the function and f32[] from the rule"));
  EXPECT_THAT(error_of<TraceError>([&] {
                differentiate(custom_vjp(
                                  square, [](Array x) { return std::pair(x * x, x); },
                                  [](Array x, Array g) { return std::tuple(sum(x * g)); }),
                              x);
              }),
              HasSubstr("[custom_vjp, backward] argument[0] is f32[3], but the rule gives f32[]"));
  auto outside = [&](Array w) {
    return sum(custom_vjp([w](Array x) { return x * w; }, [w](Array x) { return std::pair(x * w, x); },
                          [w](Array, Array g) { return w * g; })(x));
  };
  EXPECT_THAT(
      error_of<TraceError>([&] { grad(outside)(x); }),
      HasSubstr(
          "[custom_vjp] its functions use f32[3] from outside, with respect to which it is differentiated"));
}

}  // namespace
}  // namespace lockstep
