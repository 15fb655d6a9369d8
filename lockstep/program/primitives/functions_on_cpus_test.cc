// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/functions_on_cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/special.h"
#include "lockstep/program/test_examples.h"
#include "lockstep/sleef/sleef.h"

namespace lockstep::ir {
namespace {

using namespace test;
using ::testing::HasSubstr;
using ::testing::Not;

const Primitive* const kOfOne[] = {&sin_p(),  &cos_p(),  &tan_p(), &asin_p(), &acos_p(),
                                   &atan_p(), &sinh_p(), &log_p(), &cbrt_p(), &erf_p()};
const Primitive* const kOfTwo[] = {&atan2_p(), &pow_p()};

/// All functions of these numbers, which are f64, in this dtype, as f64.
std::vector<HostArray> results(const std::vector<double>& x, const std::vector<double>& y, DType dtype) {
  Joined joined;
  const Shape shape = {static_cast<std::int64_t>(x.size())};
  std::vector<Value> inputs;
  for (const Value& input : joined.inputs({{DType::kF64, shape, x}, {DType::kF64, shape, y}}))
    inputs.push_back(lax::convert_element_type(input, dtype));
  const auto want = [&](const Primitive& primitive, std::size_t count) {
    const std::vector<Value> result = joined.builder().emit(primitive, {}, std::span(inputs).first(count));
    joined.want({lax::convert_element_type(result[0], DType::kF64)});
  };
  for (const Primitive* primitive : kOfOne) want(*primitive, 1);
  for (const Primitive* primitive : kOfTwo) want(*primitive, 2);
  return joined.run();
}

std::string name_of(std::size_t function) {
  return (function < std::size(kOfOne) ? kOfOne[function] : kOfTwo[function - std::size(kOfOne)])->name;
}

/// XLA computes the few, SLEEF the many; the numbers of the ends of each dtype are among them.
TEST(FunctionsOnCpus, OfManyElements_EqualXlasOfFew) {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> ends = {0, -0.0, 1, -1, kInf, -kInf, kNan, 0.5, -0.5, 2, 1e3, -1e3, 1e30, 1e-30};
  std::vector<double> x, y;
  for (const double a : ends)
    for (const double b : ends) {
      x.push_back(a);
      y.push_back(b);
    }
  ASSERT_LT(x.size(), 255U);
  std::vector<double> many_x = x, many_y = y;
  many_x.resize(1000, 0.25);
  many_y.resize(1000, 0.25);
  for (const auto& [dtype, error] :
       {std::pair{DType::kF64, 1e-15}, {DType::kF32, 5e-7}, {DType::kF16, 2e-3}, {DType::kBF16, 1.6e-2}}) {
    const std::vector<HostArray> few = results(x, y, dtype), many = results(many_x, many_y, dtype);
    for (std::size_t f = 0; f < few.size(); ++f)
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double a = few[f].values[i], b = many[f].values[i];
        const std::string of = fmt::format("{} of {}, {} in {}", name_of(f), x[i], y[i], name(dtype));
        ASSERT_EQ(std::isnan(a), std::isnan(b)) << of;
        if (std::isnan(a) || a == b) {
          ASSERT_TRUE(a != 0 || std::signbit(a) == std::signbit(b)) << of;
          continue;
        }
        ASSERT_NEAR(a, b, error * std::abs(a)) << of;
      }
  }
}

std::string text(const Primitive& primitive, DType dtype, std::int64_t count,
                 const LowerOptions& options = {}) {
  const std::size_t operands = primitive.name == "pow" ? 2 : 1;
  const std::vector<Aval> avals(operands, Aval{dtype, {count}, false, {}});
  Builder builder("f");
  std::vector<Value> inputs;
  for (const Aval& aval : avals) inputs.push_back(builder.input(aval));
  return lower(builder.finish(builder.emit(primitive, {}, inputs)), options).stablehlo;
}

TEST(FunctionsOnCpus, WhereSleefIsNotFaster_AreComputedByXla) {
  if (!sleef::is_available()) GTEST_SKIP() << sleef::description();
  const std::string call(sleef::kSleefTarget);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    EXPECT_THAT(text(sin_p(), dtype, 256), HasSubstr(call));
    EXPECT_THAT(text(sin_p(), dtype, 255), Not(HasSubstr(call)));
    LowerOptions other;
    other.for_cpu = false;
    EXPECT_THAT(text(sin_p(), dtype, 256, other), Not(HasSubstr(call)));
  }
  EXPECT_THAT(text(log_p(), DType::kF64, 256), HasSubstr(call));
  EXPECT_THAT(text(log_p(), DType::kF32, 256), Not(HasSubstr(call)));
  EXPECT_THAT(text(pow_p(), DType::kF32, 256), HasSubstr(call));
  EXPECT_THAT(text(pow_p(), DType::kI32, 256), Not(HasSubstr(call)));
}

TEST(FunctionsOnCpus, PowersThatAreAProductOrARoot_AreComputedByXla) {
  if (!sleef::is_available()) GTEST_SKIP() << sleef::description();
  const auto power = [](double exponent) {
    const Program program = trace({{DType::kF64, {256}, false, {}}}, [&](auto v) {
      const Value half = lax::full_like(v[0], 0.5);
      return std::vector{lax::pow(v[0], lax::sub(lax::full_like(v[0], exponent + 0.5), half))};
    });
    return lower(program, {}).stablehlo;
  };
  for (const double exponent : {-1., 0., 0.5, 1., 2., 3.})
    EXPECT_THAT(power(exponent), HasSubstr("stablehlo.power")) << exponent;
  EXPECT_THAT(power(2.2), Not(HasSubstr("stablehlo.power")));
}

}  // namespace
}  // namespace lockstep::ir
