// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sleef/sleef.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "lockstep/base/find_function.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/collectives/test_for_each.h"
#include "lockstep/sleef/loops.h"

namespace lockstep::sleef {
namespace {

using Real = long double;

struct Reference {
  const char* name;
  Real (*of_one)(Real) = nullptr;
  Real (*of_two)(Real, Real) = nullptr;
};
const Reference kReferences[] = {{"sin", std::sin},
                                 {"cos", std::cos},
                                 {"tan", std::tan},
                                 {"asin", std::asin},
                                 {"acos", std::acos},
                                 {"atan", std::atan},
                                 {"sinh", std::sinh},
                                 {"log", std::log},
                                 {"cbrt", std::cbrt},
                                 {"erf", std::erf},
                                 {"atan2", nullptr, std::atan2},
                                 {"pow", nullptr, std::pow}};

using test::in_turn;

/// Numbers of all magnitudes and near 1, zeros, infinities and NaN.
template <class T>
std::vector<T> numbers(unsigned seed) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, 1);
  constexpr T kInf = std::numeric_limits<T>::infinity();
  std::vector<T> all = {T(0), -T(0), T(1), -T(1), kInf, -kInf, std::numeric_limits<T>::quiet_NaN()};
  for (int i = 0; i < 20'000; ++i) {
    all.push_back(std::bit_cast<T>(static_cast<Bits>(engine())));
    all.push_back(static_cast<T>(normal(engine) * (i % 3 == 0 ? 1 : i % 3 == 1 ? 10 : 1e-3)));
  }
  return all;
}

/// The difference in units in the last place of `want`; 0 for the same infinity, and for two NaN.
template <class T>
Real units(T got, Real want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) && std::isnan(got) ? 0 : 1e9;
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : 1e9;
  const Real unit = std::max(std::exp2(Real(std::ilogb(want) - std::numeric_limits<T>::digits + 1)),
                             Real(std::numeric_limits<T>::min()));
  return want == 0 ? (got == 0 ? 0 : 1e9) : std::abs(Real(got) - want) / unit;
}

template <class T>
void expect_all_within_a_unit(DType dtype) {
  const std::vector<T> x = numbers<T>(1), y = numbers<T>(2);
  std::vector<T> result(x.size());
  for (const Reference& reference : kReferences) {
    const void* const operands[] = {x.data(), y.data()};
    compute(reference.name, dtype, std::span(operands).first(reference.of_one == nullptr ? 2 : 1),
            result.data(), static_cast<std::int64_t>(x.size()), in_turn);
    Real worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real want = reference.of_one != nullptr ? reference.of_one(x[i]) : reference.of_two(x[i], y[i]);
      const Real error = units(result[i], want);
      if (error > worst) worst = error, at = i;
    }
    EXPECT_LE(worst, 1.0) << reference.name << "(" << x[at] << ", " << y[at] << ") = " << result[at];
  }
}

TEST(Sleef, EachFunction_IsWithinAUnitInTheLastPlace) {
  if (!is_available()) GTEST_SKIP() << description();
  expect_all_within_a_unit<float>(DType::kF32);
  expect_all_within_a_unit<double>(DType::kF64);
}

TEST(Sleef, AnElement_HasTheSameResultWhereverItIs) {
  if (!is_available()) GTEST_SKIP() << description();
  const std::vector<double> x = numbers<double>(3);
  std::vector<double> all(x.size()), some(x.size());
  const void* operand = x.data();
  compute("tan", DType::kF64, {&operand, 1}, all.data(), static_cast<std::int64_t>(x.size()), in_turn);
  for (const std::int64_t count : {1, 7, 8, 9, 100}) {
    compute("tan", DType::kF64, {&operand, 1}, some.data(), count, in_turn);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(some[i]), std::bit_cast<std::uint64_t>(all[i]));
  }
}

/// Also of instructions that this processor has, but that are not its widest.
TEST(Loops, WithEachInstructionSet_ComputeAllElements) {
  if (!is_available()) GTEST_SKIP() << description();
  std::string why_not;
  void* const library = load_trusted_library("libsleef.so.3", &why_not);
  ASSERT_NE(library, nullptr) << why_not;
  for (const Instructions* instructions : usable_instructions()) {
    const auto expect_all = [&]<class T>(const Loops<T>& loops, char type, int lanes) {
      Function cos = nullptr, atan2 = nullptr;
      const std::string last = fmt::format("{}{}_u10{}", type, lanes, instructions->name);
      ASSERT_TRUE(find_function(library, ("Sleef_cos" + last).c_str(), cos));
      ASSERT_TRUE(find_function(library, ("Sleef_atan2" + last).c_str(), atan2));
      const std::vector<T> all = numbers<T>(4);
      for (std::size_t count = 0; count < 40; ++count) {
        std::vector<T> x(all.end() - 40, all.end() - 40 + count), y(all.end() - count, all.end()),
            result(count);
        loops.of_one(cos, x.data(), result.data(), count);
        for (std::size_t i = 0; i < count; ++i) EXPECT_LE(units(result[i], std::cos(Real(x[i]))), 1) << x[i];
        loops.of_two(atan2, x.data(), y.data(), result.data(), count);
        for (std::size_t i = 0; i < count; ++i)
          EXPECT_LE(units(result[i], std::atan2(Real(x[i]), Real(y[i]))), 1) << x[i] << ", " << y[i];
      }
    };
    expect_all(instructions->f32, 'f', instructions->f32_lanes);
    expect_all(instructions->f64, 'd', instructions->f64_lanes);
  }
}

}  // namespace
}  // namespace lockstep::sleef
