// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"

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

}  // namespace
}  // namespace lockstep
