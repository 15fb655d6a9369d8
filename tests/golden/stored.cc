// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/stored.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <fstream>
#include <limits>
#include <map>

#include "lockstep/ops/ops.h"
#include "lockstep/testing/data_file.h"

namespace lockstep::golden {
namespace {

double number(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return text == "-inf" ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

/// The distance of two numbers in steps from one f32 to the next.
double steps_between(double x, double y) {
  auto place = [](double value) {
    const auto bits = static_cast<std::int64_t>(std::bit_cast<std::int32_t>(static_cast<float>(value)));
    return bits >= 0 ? bits : std::numeric_limits<std::int32_t>::min() - bits;
  };
  return static_cast<double>(std::abs(place(x) - place(y)));
}

}  // namespace

const Json& file() {
  static const Json all = [] {
    std::ifstream in(testing::data_file(LOCKSTEP_GOLDEN_FILE));
    return Json::parse(in);
  }();
  return all;
}

DType dtype_of_numpys(const std::string& name) {
  static const std::map<std::string, DType> all = {{"bool", bool_},
                                                   {"int8", int8},
                                                   {"int16", int16},
                                                   {"int32", int32},
                                                   {"int64", int64},
                                                   {"uint8", uint8},
                                                   {"uint16", uint16},
                                                   {"uint32", uint32},
                                                   {"uint64", uint64},
                                                   {"float16", float16},
                                                   {"bfloat16", bfloat16},
                                                   {"float32", float32},
                                                   {"float64", float64},
                                                   {"complex64", complex64},
                                                   {"complex128", complex128},
                                                   {"float8_e4m3fn", float8_e4m3fn},
                                                   {"float8_e5m2", float8_e5m2}};
  return all.at(name);
}

Stored::Stored(const Json& json)
    : dtype(dtype_of_numpys(json["dtype"].get<std::string>())), shape(json["shape"].get<Shape>()) {
  for (const Json& value : json["values"]) {
    const double x = number(value);
    values.push_back(real_dtype(dtype) == float64 || !is_inexact(dtype) ? x : static_cast<float>(x));
  }
}

Stored::Stored(DType dtype, Shape shape, std::vector<double> values)
    : dtype(dtype), shape(std::move(shape)), values(std::move(values)) {}

Array Stored::array() const {
  if (!is_complex(dtype)) return astype(lockstep::array(values, shape), dtype);
  std::vector<std::complex<double>> numbers;
  for (std::size_t i = 0; i < values.size(); i += 2) numbers.emplace_back(values[i], values[i + 1]);
  return astype(lockstep::array(numbers, shape), dtype);
}

std::vector<double> doubles(const Array& x) {
  if (is_complex(x.dtype())) {
    std::vector<double> parts;
    for (std::complex<double> z : astype(x, complex128).to_host<std::complex<double>>())
      parts.insert(parts.end(), {z.real(), z.imag()});
    return parts;
  }
  if (x.dtype() != float32) return astype(x, float64).to_host<double>();
  const std::vector<float> narrow = x.to_host<float>();
  return {narrow.begin(), narrow.end()};
}

Tolerance::Tolerance(const Json& entry)
    : rtol(entry.value("rtol", 0.0)), atol(entry.value("atol", 0.0)), ulp(entry.value("ulp", 0.0)) {}

void expect_stored(const Array& x, const Stored& expected, const Tolerance& tolerance) {
  ASSERT_EQ(x.shape(), expected.shape);
  ASSERT_EQ(x.dtype(), expected.dtype);
  const std::vector<double> found = doubles(x);
  ASSERT_EQ(found.size(), expected.values.size());
  const bool exact = !is_inexact(x.dtype());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double want = expected.values[i];
    if (found[i] == want || (std::isnan(found[i]) && std::isnan(want))) continue;
    const double allowed = exact ? 0 : tolerance.atol + tolerance.rtol * std::abs(want);
    const bool near = !exact && tolerance.ulp > 0 && steps_between(found[i], want) <= tolerance.ulp;
    ASSERT_TRUE(near || std::abs(found[i] - want) <= allowed)
        << "element " << i << ": " << found[i] << ", not " << want << ", " << steps_between(found[i], want)
        << " units in the last place";
  }
}

}  // namespace lockstep::golden
