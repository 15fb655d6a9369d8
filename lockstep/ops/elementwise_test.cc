// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/special.h"

#include <cmath>
#include <limits>

#include "lockstep/array/trace.h"
#include "lockstep/ops/arithmetic.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_close;
using test::floats;
using test::integers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
using test::kNan;

TEST(Elementwise, Operators_ComputeWithArraysAndNumbersOnEitherSide) {
  Array x = array({1.f, 2.f, 4.f});
  EXPECT_THAT(floats(1.0 - x), ElementsAre(0, -1, -3));
  EXPECT_THAT(floats(x * 2), ElementsAre(2, 4, 8));
  EXPECT_THAT(floats(x + x), ElementsAre(2, 4, 8));
  EXPECT_THAT(floats(8 / x), ElementsAre(8, 4, 2));
  EXPECT_THAT(floats(-x), ElementsAre(-1, -2, -4));
  EXPECT_THAT(floats(x % 3), ElementsAre(1, 2, 1));
  Array y = x;
  y += 1;
  y *= x;
  y -= 1.0f;
  y /= 2;
  EXPECT_THAT(floats(y), ElementsAre(0.5, 2.5, 9.5));
  EXPECT_THAT(floats(x), ElementsAre(1, 2, 4));
}

TEST(Elementwise, Comparisons_GiveBools) {
  Array x = array({1, 2, 3});
  EXPECT_EQ((x < 2).dtype(), bool_);
  EXPECT_THAT(integers(x < 2), ElementsAre(1, 0, 0));
  EXPECT_THAT(integers(2 <= x), ElementsAre(0, 1, 1));
  EXPECT_THAT(integers(x > 2), ElementsAre(0, 0, 1));
  EXPECT_THAT(integers(x >= array({3, 2, 1})), ElementsAre(0, 1, 1));
  EXPECT_THAT(integers(x == 2), ElementsAre(0, 1, 0));
  EXPECT_THAT(integers(x != x), ElementsAre(0, 0, 0));
  EXPECT_THAT(integers((!(x == 2)) & (x < 3)), ElementsAre(1, 0, 0));
  EXPECT_THAT(integers(logical_or(x - 1, false)), ElementsAre(0, 1, 1));
  EXPECT_THAT(integers(~x ^ x), ElementsAre(-1, -1, -1));
  EXPECT_THAT(integers(x | 4), ElementsAre(5, 6, 7));
}

TEST(Elementwise, Broadcasting_FollowsNumPy) {
  Array column = array({{1.f}, {2.f}}), row = array({10.f, 20.f, 30.f});
  Array sum = column + row;
  EXPECT_EQ(sum.shape(), (Shape{2, 3}));
  EXPECT_THAT(floats(sum), ElementsAre(11, 21, 31, 12, 22, 32));
  EXPECT_EQ((zeros({3, 0}) + zeros({1, 1})).shape(), (Shape{3, 0}));
}

TEST(Elementwise, ShapesThatDoNotBroadcast_AreNamedWithTheDimensionAndTheLine) {
  std::string message = error_of<ShapeError>([] { zeros({4, 3}) + zeros({4, 5}); });
  EXPECT_THAT(message,
              HasSubstr("[add] shapes f32[4,3] and f32[4,5] do not broadcast: dimension 1 has sizes 3 and 5 "
                        "(at elementwise_test.cc:"));
}

TEST(Elementwise, IntegersDividedByZero_GiveJaxsValues) {
  const Array x = array({7, 0, -7}), u = astype(array({7, 0, 3}), uint8);
  EXPECT_THAT(integers(floor_divide(x, 0)), ElementsAre(-2, -1, -2));
  EXPECT_THAT(integers(floor_divide(astype(x, int8), 0)), ElementsAre(-2, -1, -2));
  EXPECT_THAT(integers(floor_divide(u, 0)), ElementsAre(255, 255, 255));
  for (const Array& each : {remainder(x, 0), fmod(x, 0), remainder(u, 0), fmod(u, 0)})
    EXPECT_THAT(integers(each), ElementsAre(0, 0, 0));
  EXPECT_THAT(integers(power(array({0, 2}), array({0, 3}))), ElementsAre(1, 8));
}

TEST(Elementwise, Division_GivesJaxsValues) {
  Array x = array({-7, -3, 3, 7}), y = array({2, -2, -2, 2});
  EXPECT_THAT(integers(remainder(x, y)), ElementsAre(1, -1, -1, 1));
  EXPECT_THAT(integers(floor_divide(x, y)), ElementsAre(-4, 1, -2, 3));
  EXPECT_EQ(divide(x, y).dtype(), float32);
  EXPECT_THAT(floats(divide(x, y)), ElementsAre(-3.5, 1.5, -1.5, 3.5));
  Array a = array({-7.5f, -3.f, 3.f, 7.25f}), b = array({2.f, -2.f, -2.5f, 2.f});
  EXPECT_THAT(floats(remainder(a, b)), ElementsAre(0.5, -1, -2, 1.25));
  EXPECT_THAT(floats(floor_divide(a, b)), ElementsAre(-4, 1, -2, 3));
}

TEST(Elementwise, IntegerPowers_AreMultipliedOut) {
  Array x = array({-2.f, 0.f, 3.f});
  EXPECT_THAT(floats(power(x, 2)), ElementsAre(4, 0, 9));
  EXPECT_THAT(floats(power(x, 7)), ElementsAre(-128, 0, 2187));
  EXPECT_THAT(floats(power(x, 0)), ElementsAre(1, 1, 1));
  EXPECT_THAT(floats(power(x, -2)), ElementsAre(0.25, kInfinity, ::testing::FloatEq(1 / 9.f)));
  EXPECT_THAT(integers(power(array({2, -3}), 3)), ElementsAre(8, -27));
  EXPECT_THROW(power(array({2, 3}), -1), DTypeError);
  expect_close(power(array({2.f, 9.f}), 0.5), {1.41421356f, 3.f});
  expect_close(power(0.9, array({1, 2})), {0.9f, 0.81f});
}

TEST(Elementwise, PowersOfIntegerArrays_TreatUnsignedExponentsAsPositive) {
  const Array x = array({0, 0, 1, 3, 3, 5});
  const Array bytes = power(astype(x, uint8), astype(array({255, 128, 255, 255, 128, 200}), uint8));
  EXPECT_THAT(integers(bytes), ElementsAre(0, 0, 1, 171, 1, 225));
  for (DType dtype : {uint16, uint32, uint64}) {
    const Array half = left_shift(full({6}, 1, dtype), 8 * static_cast<int>(size_of(dtype)) - 1);
    EXPECT_THAT(integers(power(astype(x, dtype), half)), ElementsAre(0, 0, 1, 1, 1, 1));
    EXPECT_THAT(integers(power(astype(x, dtype), half + 2)), ElementsAre(0, 0, 1, 9, 9, 25));
  }
  EXPECT_THAT(integers(power(array({2, 3, 1, -1}), array({-1, -2, -3, -3}))), ElementsAre(0, 0, 1, -1));
}

TEST(Elementwise, Rounding_KeepsIntegers_AndRoundsHalvesToEven) {
  EXPECT_EQ(floor(array({1, 2})).dtype(), int32);
  EXPECT_THAT(floats(round(array({0.5f, 1.5f, -2.5f}))), ElementsAre(0, 2, -2));
  EXPECT_THAT(floats(ceil(array({0.2f, -0.2f}))), ElementsAre(1, 0));
}

TEST(Elementwise, Functions_AgreeWithTheStandardLibrary) {
  const std::vector<float> points = {0.25f, 0.5f, 1.5f, 3.f};
  const struct {
    Array (*of_array)(const Operand&);
    double (*of_number)(double);
  } kFunctions[] = {
      {exp, [](double v) { return std::exp(v); }},
      {expm1, [](double v) { return std::expm1(v); }},
      {log, [](double v) { return std::log(v); }},
      {log1p, [](double v) { return std::log1p(v); }},
      {tanh, [](double v) { return std::tanh(v); }},
      {sqrt, [](double v) { return std::sqrt(v); }},
      {sin, [](double v) { return std::sin(v); }},
      {cos, [](double v) { return std::cos(v); }},
      {abs, [](double v) { return std::abs(v); }},
      {rsqrt, [](double v) { return 1 / std::sqrt(v); }},
      {square, [](double v) { return v * v; }},
      {sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {negative, [](double v) { return -v; }},
      {reciprocal, [](double v) { return 1 / v; }},
  };
  int number = 0;
  for (const auto& function : kFunctions) {
    SCOPED_TRACE(number++);
    std::vector<float> expected;
    for (float point : points) expected.push_back(static_cast<float>(function.of_number(point)));
    expect_close(function.of_array(array(points)), expected, 1e-5);
  }
  EXPECT_EQ(exp(array({1, 2})).dtype(), float32);
  EXPECT_EQ(exp(2).dtype(), float32);
}

TEST(Elementwise, NanAndInfinities_AreRecognized) {
  Array x = array({1.f, kInfinity, -kInfinity, kNan});
  EXPECT_THAT(integers(isfinite(x)), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(integers(isnan(x)), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(integers(isinf(x)), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(integers(isfinite(array({1}))), ElementsAre(1));
}

TEST(Elementwise, LogAddExp_NeitherOverflowsNorLosesSmallTerms) {
  expect_close(logaddexp(array({1000.f, -kInfinity, 0.f}), array({1000.f, -kInfinity, -30.f})),
               {1000.6931f, -kInfinity, 9.3576e-14f}, 1e-6);
  EXPECT_NEAR(floats(logaddexp(array({-30.f}), 0.0))[0], 9.3576e-14f, 1e-17);
}

TEST(Elementwise, NanAndInfinities_GiveJaxsValues) {
  EXPECT_THAT(floats(hypot(array({kInfinity, kNan, 3.f}), array({kNan, -kInfinity, 4.f}))),
              ElementsAre(kInfinity, kInfinity, 5));
  EXPECT_THAT(floats(floor_divide(array({-1.f, 7.f, -7.f, 7.f}), array({kInfinity, 0.f, 0.f, 2.f}))),
              ElementsAre(-1, kInfinity, -kInfinity, 3));
  EXPECT_THAT(integers(isnan(xlogy(array({0.f, 0.f}), array({kNan, 0.f})))), ElementsAre(1, 0));
  EXPECT_THAT(integers(isnan(entr(array({kNan, 0.f, -1.f})))), ElementsAre(1, 0, 0));
  EXPECT_THAT(integers(isnan(gamma(array({-1.f, -2.f, -0.5f})))), ElementsAre(1, 1, 0));
  expect_close(ndtri(array({1e-10f, 0.5f, 0.1f})), {-6.3613408f, 0.f, -1.2815516f}, 1e-5);
  expect_close(betaln(array({2.f}), array({1e10f})), {-46.0517019f}, 1e-5);
}

TEST(Elementwise, ErfInv_AgreesWithJax) {
  expect_close(erf_inv(array({-0.999999f, -0.5f, 0.f, 0.1f, 0.9f, 0.9999f, 1.f})),
               {-3.4570746421813965f, -0.4769362807273865f, 0.f, 0.08885598927736282f, 1.163087010383606f,
                2.7510268688201904f, kInfinity});
  EXPECT_NEAR(erf_inv(array({0.5})).item<double>(), 0.4769362762044699, 1e-15);
}

TEST(Elementwise, ClipAndWhere_PromoteTheirDTypes) {
  EXPECT_THAT(floats(clip(array({-7.5f, 3.f, 7.25f}), -3, 5.0)), ElementsAre(-3, 3, 5));
  Array chosen = where(array({true, false}), array({1, 2}), array({0.5f, 1.5f}));
  EXPECT_EQ(chosen.dtype(), float32);
  EXPECT_THAT(floats(chosen), ElementsAre(1, 1.5));
  EXPECT_THAT(integers(where(array({{1}, {0}}), array({1, 2}), 9)), ElementsAre(1, 2, 9, 9));
}

TEST(Elementwise, Astype_ConvertsAsNumPy) {
  EXPECT_THAT(integers(astype(array({1.9f, -1.9f}), int8)), ElementsAre(1, -1));
  EXPECT_THAT(integers(astype(array({0.f, 0.5f}), bool_)), ElementsAre(0, 1));
  EXPECT_EQ(astype(0.1, float64).to_host<double>()[0], 0.1);
}

TEST(Elementwise, SumOfBools_IsTheirOr) {
  Array x = array({true, true, false});
  EXPECT_EQ((x + x).dtype(), bool_);
  EXPECT_THAT(integers(x + array({false, true, false})), ElementsAre(1, 1, 0));
}

TEST(Elementwise, InATrace_NumbersAreConstantsOfTheProgram) {
  Trace trace("f");
  Array x = trace.input({float32, {3}, false, {}});
  Array y = 1.5 - x;
  EXPECT_TRUE(y.is_tracer());
  EXPECT_THAT(to_string(trace.finish({&y, 1})),
              HasSubstr("full[value=1.5 dtype=f32 shape=[3] weak_type=true]"));
}

TEST(Elementwise, NewNumbersOutsideOfTraces_CompileNoNewPrograms) {
  // 2,000 compilations would take the better part of a minute; the deadline of the tests holds it.
  Array x = zeros({2});
  for (int i = 0; i < 2000; ++i) x = x + 0.5 * i;
  EXPECT_THAT(floats(x), ElementsAre(999500, 999500));
}

TEST(Elementwise, NumbersOutsideOfTraces_DifferBySignTypeAndValue) {
  const Array ones = array({1.f}), wide = array({1.0});
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(floats(ones / 0.0), ElementsAre(kInfinity));
    EXPECT_THAT(floats(ones / -0.0), ElementsAre(-kInfinity));
    EXPECT_THAT(floats(ones + 3), ElementsAre(4));
    EXPECT_EQ((array({1}) + 3).dtype(), int32);
    EXPECT_EQ((wide + 0.1).to_host<double>(), std::vector<double>{1.1});
    for (int i = 0; i < 200; ++i) EXPECT_THAT(floats(ones * i), ElementsAre(static_cast<float>(i)));
  }
}

TEST(Elementwise, ADeletedArrayOfANumber_IsMadeAgain) {
  Array two_and_a_half = Operand(2.5).as_array();
  EXPECT_THAT(floats(array({1.f}) + 2.5), ElementsAre(3.5));
  two_and_a_half.delete_();
  EXPECT_THAT(floats(array({1.f}) + 2.5), ElementsAre(3.5));
}

// Values of NumPy, and of JAX where it does not hang on them.
TEST(Elementwise, GcdAndLcmOfTheLeastInteger_GiveNumPysValues) {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  Array x = array({kLeast, kLeast, 6, kLeast, 0, kLeast, -12});
  Array y = array({6, -6, kLeast, kLeast, kLeast, 1, 18});
  EXPECT_THAT(integers(gcd(x, y)), ElementsAre(2, 2, 2, kLeast, kLeast, 1, 6));
  EXPECT_THAT(integers(lcm(x, y)), ElementsAre(kLeast, kLeast, kLeast, kLeast, 0, kLeast, 36));
  Array bytes = astype(array({-128, -128, 127}), int8);
  EXPECT_THAT(integers(astype(gcd(bytes, astype(array({6, 127, -128}), int8)), int32)), ElementsAre(2, 1, 1));
}

}  // namespace
}  // namespace lockstep
