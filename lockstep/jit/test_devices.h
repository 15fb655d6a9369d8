// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the tests of jit/ and of programs, which have four CPU devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/array/device_put.h"
#include "lockstep/base/error.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/test_four_devices.h"
#include "lockstep/testing/errors.h"

namespace lockstep::test {

using testing::error_of;

/// "jit_test.cc:42", for messages that name the user's line.
inline std::string line(const std::string& file, int number) { return file + ":" + std::to_string(number); }

/// f32 numbers between -1 and 1; different ones for each seed.
inline Array waves(const Shape& shape, int seed = 1) {
  std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(std::sin(0.7f * static_cast<float>(i * seed + seed)));
  return array(values, shape);
}

/// A scalar of T's dtype, not weak.
template <class T>
Array number(T value) {
  return array(std::vector<T>{value}, Shape{});
}

/// How often `part` occurs in a text.
inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

inline Mesh line_mesh() { return make_mesh({{"x", 4}}); }
inline Mesh square_mesh() { return make_mesh({{"x", 2}, {"y", 2}}); }

/// Expects each element to be equal within `tolerance`, relative and absolute.
inline void expect_equal(const Array& actual, const Array& expected, double tolerance = 2e-5) {
  ASSERT_EQ(actual.shape(), expected.shape());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  auto a = astype(actual, float64).to_host<double>(), b = astype(expected, float64).to_host<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(std::abs(a[i] - b[i]), tolerance * (1 + std::abs(b[i]))) << "element " << i;
  }
}

}  // namespace lockstep::test
