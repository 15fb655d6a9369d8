// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the tests of operations.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/testing/errors.h"

namespace lockstep::test {

using testing::error_of;

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The elements; x must be f32.
inline std::vector<float> floats(const Array& x) { return x.to_host<float>(); }

/// The elements of an array of integers or bools, as i32.
inline std::vector<std::int32_t> integers(const Array& x) { return astype(x, int32).to_host<std::int32_t>(); }

/// Expects this shape, and integers or bools of these values.
inline void expect(const Array& x, const Shape& shape, const std::vector<std::int32_t>& values) {
  EXPECT_EQ(x.shape(), shape);
  EXPECT_EQ(integers(x), values);
}

/// Expects each float to be within `tolerance`, relative and absolute, of the expected one; infinities must
/// be equal.
inline void expect_close(const Array& x, const std::vector<float>& expected, double tolerance = 2e-6) {
  ASSERT_EQ(x.dtype(), float32);
  std::vector<float> values = floats(x);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i]) continue;
    EXPECT_LE(std::abs(values[i] - expected[i]), tolerance * (1 + std::abs(expected[i])))
        << "element " << i << ": " << values[i] << ", not " << expected[i];
  }
}

}  // namespace lockstep::test
