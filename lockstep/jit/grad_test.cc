// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/grad.h"

#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Grad, APolynomial_HasItsDerivative) {
  auto cube = [](Array x) { return x * x * x; };
  expect_equal(grad(cube)(Array(2.0f)) * 1, Array(12.0f) * 1);
  expect_equal(grad(grad(cube))(Array(2.0f)) * 1, Array(12.0f) * 1);
  expect_equal(grad(grad(grad(cube)))(Array(2.0f)) * 1, Array(6.0f) * 1);
}

TEST(Grad, PowersAtZero_HaveJaxsDerivatives) {
  auto slopes = [](float x, float y) {
    auto [dx, dy] =
        grad<0, 1>([](Array x, Array y) { return power(x, y); })(test::number(x), test::number(y));
    return std::pair(dx.item<float>(), dy.item<float>());
  };
  EXPECT_TRUE(std::isnan(slopes(0, 0).first));
  EXPECT_EQ(slopes(0, 0).second, 0);
  EXPECT_EQ(slopes(0, 2), std::pair(0.f, 0.f));
  EXPECT_EQ(slopes(0, 1), std::pair(1.f, 0.f));
  EXPECT_EQ(slopes(0, -0.5f).first, -INFINITY);
  auto slope = [](auto f) { return grad(f)(test::number(0.f)).template item<float>(); };
  EXPECT_TRUE(std::isnan(slope([](Array x) { return power(x, 0.0); })));
  EXPECT_EQ(slope([](Array x) { return power(x, 0); }), 0);
  EXPECT_EQ(slope([](Array x) { return power(x, test::number(0)); }), 0) << "a whole exponent";
}

/// Expects that a const object can be called, and gives the same as another that is not.
template <class F, class... Args>
void expect_const_callable(F function, const Args&... args) {
  const F fixed = function;
  expect_equal(sum(fixed(args...)), sum(function(args...)));
}

TEST(Grad, AndOtherTransforms_CanBeCalledAsConst) {
  int calls = 0;
  auto cube = [&calls, own = 0](Array x) mutable {
    calls += ++own > 0;
    return sum(x * x * x);
  };
  const Array x = array({1.f, 2.f});
  expect_const_callable(grad(cube), x);
  expect_const_callable([both = value_and_grad(cube)](Array y) { return both(y).second; }, x);
  expect_const_callable(vmap(grad(cube)), waves({3, 2}));
  expect_const_callable(jacfwd(cube), x);
  expect_const_callable(jacrev(cube), x);
  expect_const_callable(hessian(cube), x);
  expect_const_callable(remat(cube), x);
  expect_const_callable(jit(grad(remat(cube))), x);
  expect_const_callable(
      custom_jvp(cube, [](std::tuple<Array> at,
                          std::tuple<Array> t) { return std::pair(std::get<0>(at), std::get<0>(t)); }),
      x);
  expect_const_callable(
      custom_vjp(
          cube, [](Array y) { return std::pair(sum(y), y); }, [](Array y, Array) { return std::tuple(y); }),
      x);
  EXPECT_GT(calls, 10);
}

TEST(ValueAndGrad, OfATree_GivesTheValueAndATreeOfGradients) {
  struct Line {
    Array slope, offset;
  };
  auto loss = [](const Line& line, Array x) { return sum(line.slope * x + line.offset); };
  auto [value, grads] = value_and_grad(loss)(Line{Array(2.0f), Array(1.0f)}, array({1.f, 2.f, 3.f}));
  EXPECT_FLOAT_EQ(value.item<float>(), 15);
  EXPECT_FLOAT_EQ(grads.slope.template item<float>(), 6);
  EXPECT_FLOAT_EQ(grads.offset.template item<float>(), 3);
}

TEST(ValueAndGrad, GradientsOfSeveralArguments_AreATuple) {
  auto loss = [](Array x, Array y, Array z) { return sum(x * y * y + z); };
  auto [value, grads] = value_and_grad<0, 1>(loss)(array({2.f}), array({3.f}), array({1.f}));
  EXPECT_FLOAT_EQ(value.item<float>(), 19);
  EXPECT_FLOAT_EQ(std::get<0>(grads).item<float>(), 9);
  EXPECT_FLOAT_EQ(std::get<1>(grads).item<float>(), 12);
  EXPECT_FLOAT_EQ(grad<2>(loss)(array({2.f}), array({3.f}), array({1.f})).item<float>(), 1);
}

TEST(ValueAndGrad, OtherResults_ArePassedThrough) {
  auto loss = [](Array x) { return std::tuple(sum(x * x), x + 1, argmax(x)); };
  auto [result, gradient] = value_and_grad(loss)(array({1.f, 3.f}));
  EXPECT_FLOAT_EQ(std::get<0>(result).item<float>(), 10);
  expect_equal(std::get<1>(result), array({2.f, 4.f}));
  EXPECT_EQ(std::get<2>(result).item<std::int32_t>(), 1);
  expect_equal(gradient, array({2.f, 6.f}));
}

TEST(Grad, WithinJit_AndOfCapturedArrays_AgreesWithOutside) {
  Array factor = waves({3, 2});
  auto loss = [&](Array w) { return sum(tanh(matmul(w, factor))); };
  Array w = waves({4, 3}, 2);
  expect_equal(jit([&](Array w) { return grad(loss)(w); })(w), grad(loss)(w));
}

TEST(Grad, OtherArgumentsOfIntegers_AreAllowed) {
  auto loss = [](Array x, Array i) { return sum(x * one_hot(i, 3)); };
  expect_equal(grad(loss)(array({1.f, 2.f, 3.f}), array({1})), array({0.f, 1.f, 0.f}));
}

TEST(Grad, AValueThatIsNoFloatingScalar_IsAnError) {
  EXPECT_THAT(error_of<TraceError>([] { grad([](Array x) { return x * 2; })(ones({3})); }),
              AllOf(HasSubstr("floating scalar"), HasSubstr("f32[3]"), HasSubstr("grad_test.cc:")));
  EXPECT_THAT(error_of<TraceError>([] { grad([](Array x) { return sum(astype(x, int32)); })(ones({3})); }),
              AllOf(HasSubstr("floating scalar"), HasSubstr("i32[]")));
}

TEST(Grad, AnIntegerArgument_IsAnError) {
  EXPECT_THAT(error_of<TraceError>([] {
                grad([](Array x) { return sum(x * 1.5f); })(array({1, 2}));
              }),
              AllOf(HasSubstr("i32[2]"), HasSubstr("grad_test.cc:")));
}

struct Case {
  const char* name;
  std::function<Array(Array)> loss;
};

class Differences : public ::testing::TestWithParam<Case> {};

TEST_P(Differences, FiniteDifferences_AgreeWithTheGradient) {
  const auto& loss = GetParam().loss;
  std::vector<double> x;
  for (int i = 0; i < 6; ++i) x.push_back(0.3 + 0.1 * ((i * 5) % 6) + 0.01 * i);
  auto value = jit([&](Array x) { return loss(x); });
  const std::vector<double> slopes =
      grad([&](Array x) { return loss(x); })(array(x, {2, 3})).to_host<double>();
  const double h = 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto at = [&](double shift) {
      std::vector<double> moved = x;
      moved[i] += shift;
      return value(array(moved, {2, 3})).item<double>();
    };
    const double expected = (at(h) - at(-h)) / (2 * h);
    EXPECT_NEAR(slopes[i], expected, 1e-7 * (1 + std::abs(expected))) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Grad, Differences,
    ::testing::Values(
        Case{"Elementwise",
             [](Array x) { return sum(exp(x) * sin(x) + log(x) / sqrt(x) - tanh(x) * cos(x)); }},
        Case{"Powers", [](Array x) { return sum(power(x, 2.5) + reciprocal(x) + log1p(x) * expm1(x)); }},
        Case{"Matmul", [](Array x) { return sum(square(matmul(x, transpose(x)))); }},
        Case{"Reductions", [](Array x) { return sum(logsumexp(x, 1)) + prod(x) + sum(max(x, 0)) + var(x); }},
        Case{"Shapes",
             [](Array x) {
               Array wide = concatenate({x, 2 * x}, 1);
               return sum(square(reshape(slice(wide, {0, 1}, {2, 6}, {1, 2}), {3, 2})) *
                          pad(slice(x, {0, 0}, {1, 2}), {{1, 1}, {0, 0}}, 3));
             }},
        Case{"Broadcasts",
             [](Array x) { return mean(x / sum(x, {.axis = 1, .keepdims = true}) + index(x, 0)); }},
        Case{"DynamicSlice",
             [](Array x) {
               return sum(square(dynamic_slice(x, {0, 1}, {2, 2})) * dynamic_slice(x, {0, 0}, {2, 2}));
             }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep
