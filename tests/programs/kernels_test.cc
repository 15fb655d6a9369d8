// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/ops/apply.h"
#include "lockstep/program/primitives/reduction.h"

// XLA's CPU backend compiles in several ways, of which runtime::compile chooses by what a program holds, and
// calls vector functions of its own for most of these operations. Each must give the function's values in
// every way, dtype and length.

namespace lockstep {
namespace {

struct Function {
  const char* name;
  Array (*apply)(const Array&);
  double (*expected)(double);
  double low = -2, high = 2;
};

const Function kFunctions[] = {
    {"exp", [](const Array& x) { return exp(x); }, std::exp},
    {"exp2", [](const Array& x) { return exp2(x); }, std::exp2},
    {"expm1", [](const Array& x) { return expm1(x); }, std::expm1},
    {"log", [](const Array& x) { return log(x); }, std::log, 0.25, 4},
    {"log1p", [](const Array& x) { return log1p(x); }, std::log1p, -0.5, 4},
    {"sin", [](const Array& x) { return sin(x); }, std::sin},
    {"cos", [](const Array& x) { return cos(x); }, std::cos},
    {"tan", [](const Array& x) { return tan(x); }, std::tan, -1, 1},
    {"sinh", [](const Array& x) { return sinh(x); }, std::sinh},
    {"cosh", [](const Array& x) { return cosh(x); }, std::cosh},
    {"tanh", [](const Array& x) { return tanh(x); }, std::tanh},
    {"arcsin", [](const Array& x) { return arcsin(x); }, std::asin, -0.9, 0.9},
    {"arccos", [](const Array& x) { return arccos(x); }, std::acos, -0.9, 0.9},
    {"arctan", [](const Array& x) { return arctan(x); }, std::atan},
    {"arcsinh", [](const Array& x) { return arcsinh(x); }, std::asinh},
    {"arccosh", [](const Array& x) { return arccosh(x); }, std::acosh, 1.5, 4},
    {"arctanh", [](const Array& x) { return arctanh(x); }, std::atanh, -0.9, 0.9},
    {"sqrt", [](const Array& x) { return sqrt(x); }, std::sqrt, 0.25, 4},
    {"cbrt", [](const Array& x) { return cbrt(x); }, std::cbrt, 0.25, 4},
    {"power", [](const Array& x) { return power(x, x); }, [](double v) { return std::pow(v, v); }, 0.25, 3},
    {"arctan2", [](const Array& x) { return arctan2(x, x * x); },
     [](double v) { return std::atan2(v, v * v); }, 0.25, 3},
    {"erf", [](const Array& x) { return erf(x); }, std::erf},
    {"erfc", [](const Array& x) { return erfc(x); }, std::erfc},
    {"gammaln", [](const Array& x) { return gammaln(x); }, std::lgamma, 0.5, 4},
    {"log2", [](const Array& x) { return log2(x); }, std::log2, 0.25, 4},
    {"log10", [](const Array& x) { return log10(x); }, std::log10, 0.25, 4},
    {"rint", [](const Array& x) { return rint(x); }, std::nearbyint},
    {"floor", [](const Array& x) { return floor(x); }, std::floor},
    {"hypot", [](const Array& x) { return hypot(x, x); }, [](double v) { return std::hypot(v, v); }},
    {"remainder", [](const Array& x) { return fmod(x, x * 0 + 0.75); },
     [](double v) { return std::fmod(v, 0.75); }, 0.1, 0.7},
};

class Kernels : public ::testing::TestWithParam<std::tuple<DType, std::string>> {};

TEST_P(Kernels, GiveTheFunctionsValues_InEveryWayOfCompiling) {
  const auto& [dtype, way] = GetParam();
  const std::vector<std::int64_t> sizes = {8, 64};
  std::vector<Array> inputs;
  std::vector<std::vector<double>> numbers;
  for (const Function& function : kFunctions) {
    for (const std::int64_t n : sizes) {
      std::vector<double> values;
      for (std::int64_t i = 0; i < n; ++i) {
        const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(n);
        values.push_back(function.low + at * (function.high - function.low));
      }
      inputs.push_back(astype(array(values, Shape{n, 1}), dtype));
      numbers.push_back(astype(inputs.back(), float64).to_host<double>());
    }
  }
  auto all = [&, way = way](const std::vector<Array>& x) {
    std::vector<Array> results;
    for (std::size_t i = 0; i < x.size(); ++i) results.push_back(kFunctions[i / sizes.size()].apply(x[i]));
    if (way == "loops")
      results.push_back(fori_loop(
          0, 3, [](Array i, Array c) { return c + i; }, full({}, 0, int32)));
    if (way == "transposes") results.push_back(transpose(ones({4, 5, 6}) * sum(x[0])));
    return results;
  };
  const std::vector<Array> results = jit(all)(inputs);
  const double eps = dtype == float16 ? 2e-3 : dtype == bfloat16 ? 2e-2 : dtype == float32 ? 2e-5 : 1e-11;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Function& function = kFunctions[i / sizes.size()];
    const std::vector<double> got = astype(results[i], float64).to_host<double>();
    for (std::size_t k = 0; k < got.size(); ++k) {
      const double want = function.expected(numbers[i][k]);
      ASSERT_NEAR(got[k], want, eps * (1 + std::abs(want)))
          << function.name << " of " << numbers[i][k] << ", element " << k << " of " << got.size();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Kernels,
                         ::testing::Combine(::testing::Values(float16, bfloat16, float32, float64),
                                            ::testing::Values("plain", "loops", "transposes")),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) + "_" + std::get<1>(info.param);
                         });

// argmax and argmin of each dtype along each axis, against a loop; whole and split over four devices.

constexpr std::int64_t kLineLength = 40;

std::vector<DType> real_dtypes() {
  std::vector<DType> all;
  for (std::size_t i = 0; i < kNumDTypes; ++i)
    if (!is_complex(static_cast<DType>(i))) all.push_back(static_cast<DType>(i));
  return all;
}

/// A few values, so that many are equal, and of floating dtypes lines with no, one and many NaN.
Array with_ties(DType dtype, std::int64_t axis) {
  Shape shape = {4, 4, 4};
  shape[static_cast<std::size_t>(axis)] = kLineLength;
  const Array number = reshape(arange(16 * kLineLength), shape);
  Array x = astype(remainder(number * 17, 23) / 3, float32);
  if (is_floating(dtype)) x = where(equal(remainder(number, 61), 60), NAN, x - 3.);
  return astype(x, dtype);
}

/// The first NaN, else the first of the largest (`sign` > 0) or smallest, of the elements from `row` on.
std::int64_t first_best(const double* row, int sign) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < kLineLength && !std::isnan(row[best]); ++i)
    if (std::isnan(row[i]) || (sign > 0 ? row[i] > row[best] : row[i] < row[best])) best = i;
  return best;
}

/// Along `axis`, of all lines.
std::vector<std::int64_t> first_bests(const Array& x, std::int64_t axis, int sign) {
  const std::vector<double> rows = moveaxis(astype(x, float64), axis, 2).to_host<double>();
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < rows.size(); i += kLineLength) all.push_back(first_best(&rows[i], sign));
  return all;
}

class ArgMaxAlong : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(ArgMaxAlong, OfEachDType_IsTheFirstNanOrTheFirstBest) {
  const std::int64_t axis = GetParam();
  std::vector<Array> all, halves;
  for (DType dtype : real_dtypes()) all.push_back(with_ties(dtype, axis));
  const NamedSharding split(test::line_mesh(), P("x"));
  for (const Array& x : all) halves.push_back(device_put(x, split));
  auto places = [axis](const std::vector<Array>& arrays) {
    std::vector<Array> out;
    for (const Array& x : arrays) {
      out.push_back(astype(argmax(x, axis), int64));
      out.push_back(astype(argmin(x, axis), int64));
    }
    return out;
  };
  const std::vector<Array> found = jit(places)(all), of_parts = jit(places)(halves);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<std::int64_t> expected = first_bests(all[i / 2], axis, i % 2 == 0 ? 1 : -1);
    EXPECT_EQ(found[i].to_host<std::int64_t>(), expected) << to_string(all[i / 2].aval()) << " " << i % 2;
    EXPECT_EQ(of_parts[i].to_host<std::int64_t>(), expected) << to_string(all[i / 2].aval()) << " split";
  }
}

INSTANTIATE_TEST_SUITE_P(Axis, ArgMaxAlong, ::testing::Values(0, 1, 2));

TEST(ArgMax, OfEachIndexDType_HasThatDType) {
  const Array x = with_ties(float32, 1);
  for (DType index : {DType::kI8, DType::kU8, DType::kI16, DType::kU32, DType::kI64}) {
    const Array places = ops::run("places", std::string(name(index)), {x},
                                  [&](ops::Tracers t) { return ir::lax::argmax(t[0], 1, index); });
    EXPECT_EQ(places.dtype(), index);
    EXPECT_EQ(astype(places, int64).to_host<std::int64_t>(), first_bests(x, 1, 1));
  }
}

// Computed once more with other roundings, no element would equal the largest one.
TEST(ArgMax, OfComputedElements_IsThePlaceOfTheirMaximum) {
  const auto computed = [](const Array& a) { return exp(a) * sin(3. * a) + a / 7.; };
  for (std::int64_t n : {1, 7, 64, 1000}) {
    const Array x = test::waves({16, n});
    auto largest = [&](const Array& a) {
      const Array y = computed(a);
      return std::tuple(y, argmax(computed(a), 1), max(y, {.axis = 1, .keepdims = true}));
    };
    const auto [y, places, best] = jit(largest)(x);
    test::expect_equal(take_along_axis(y, expand_dims(places, 1), 1), best);
  }
}

}  // namespace
}  // namespace lockstep
