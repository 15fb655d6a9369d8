// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/trigonometric_on_cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/special.h"
#include "lockstep/program/test_examples.h"

namespace lockstep::ir {
namespace {

using namespace test;
using ::testing::HasSubstr;
using ::testing::Not;

struct Function {
  const Primitive& primitive;
  double (*expected)(double);
};
const Function kFunctions[] = {{sin_p(), [](double x) { return std::sin(x); }},
                               {cos_p(), [](double x) { return std::cos(x); }},
                               {tan_p(), [](double x) { return std::tan(x); }}};

/// Of these numbers, which are f32, each function's results in this dtype.
std::vector<HostArray> results(const std::vector<double>& numbers, DType dtype) {
  Joined joined;
  const HostArray x{DType::kF32, {static_cast<std::int64_t>(numbers.size())}, numbers};
  const Value input = lax::convert_element_type(joined.inputs({x})[0], dtype);
  for (const Function& f : kFunctions) {
    const std::vector<Value> result = joined.builder().emit(f.primitive, {}, std::vector{input});
    joined.want({lax::convert_element_type(result[0], DType::kF32)});
  }
  return joined.run();
}

/// Numbers of all magnitudes, and those next to multiples of a quarter turn, where little of the result is
/// left of what is subtracted.
TEST(TrigonometricOnCpus, OfNumbersOfAllMagnitudes_AreWithinAUnitInTheLastPlace) {
  std::mt19937 bits(1);
  std::vector<double> all;
  while (all.size() < 200'000)
    if (const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits())); std::isfinite(x))
      all.push_back(x);
  for (double quarters = 1; quarters < 1e38; quarters = std::ceil(quarters * 1.0003)) {
    const auto near = static_cast<float>(quarters * std::numbers::pi / 2);
    for (const float x : {std::nextafter(near, 0.f), near, std::nextafter(near, 1e38f)}) all.push_back(x);
  }
  all.push_back(16367173.0 * std::exp2(72));  // the nearest one to a multiple
  const std::vector<HostArray> got = results(all, DType::kF32);
  for (std::size_t f = 0; f < std::size(kFunctions); ++f) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double want = kFunctions[f].expected(all[i]), magnitude = std::abs(want);
      if (magnitude < std::numeric_limits<float>::min()) continue;  // may be 0
      const double unit = std::exp2(std::ilogb(magnitude) - 23);
      ASSERT_LE(std::abs(got[f].values[i] - want), 0.51 * unit)
          << kFunctions[f].primitive.name << " of " << all[i];
    }
  }
}

TEST(TrigonometricOnCpus, OfZerosKeepTheSign_OfInfinitiesAndNanAreNan) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<double> some = {0.0, -0.0, infinity, -infinity, std::nan("")};
    some.resize(256, 1.0);
    const std::vector<HostArray> got = results(some, dtype);
    for (std::size_t f = 0; f < std::size(kFunctions); ++f) {
      const std::vector<double>& y = got[f].values;
      const std::string of = kFunctions[f].primitive.name + " of " + std::string(name(dtype));
      for (const std::size_t i : {2, 3, 4}) EXPECT_TRUE(std::isnan(y[i])) << of;
      EXPECT_NEAR(y[5], kFunctions[f].expected(1), 1e-2) << of;
      for (const std::size_t i : {0, 1}) {
        EXPECT_EQ(y[i], kFunctions[f].expected(0)) << of;
        if (y[i] == 0) EXPECT_EQ(std::signbit(y[i]), i == 1) << of;
      }
    }
  }
}

TEST(TrigonometricOnCpus, OfFewElementsOfF64OrOnOtherPlatforms_AreComputedByXla) {
  const auto text = [](DType dtype, std::int64_t count, bool for_cpu) {
    const Program program = trace({{dtype, {count}}}, [](auto v) { return std::vector{lax::sin(v[0])}; });
    return lower(program, {.for_cpu = for_cpu}).stablehlo;
  };
  EXPECT_THAT(text(DType::kF32, 256, true), Not(HasSubstr("stablehlo.sine")));
  EXPECT_THAT(text(DType::kF32, 255, true), HasSubstr("stablehlo.sine"));
  EXPECT_THAT(text(DType::kF64, 256, true), HasSubstr("stablehlo.sine"));
  EXPECT_THAT(text(DType::kF32, 256, false), HasSubstr("stablehlo.sine"));
}

}  // namespace
}  // namespace lockstep::ir
