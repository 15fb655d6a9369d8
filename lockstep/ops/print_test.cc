// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <limits>
#include <sstream>

#include "lockstep/array/format.h"
#include "lockstep/array/trace.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::kInf;
using test::kNan;

// Expected texts are what NumPy 2.4 prints.
TEST(ArrayStr, PrintsAsNumPy) {
  EXPECT_EQ(array_str(array({1.5f, 2.25f, -3.f})), "[ 1.5   2.25 -3.  ]");
  EXPECT_EQ(array_str(array({{1.f, 0.1f}, {1e-3f, 12.f}})),
            "[[1.0e+00 1.0e-01]\n"
            " [1.0e-03 1.2e+01]]");
  EXPECT_EQ(array_str(array({1e-5f, 2500.f})), "[1.0e-05 2.5e+03]");
  EXPECT_EQ(array_str(array({1.f / 3, 2.f / 3})), "[0.33333334 0.6666667 ]");
  EXPECT_EQ(array_str(array({1.0 / 3, 2.0})), "[0.33333333 2.        ]");
  EXPECT_EQ(array_str(array({kInf, -1.f, kNan})), "[inf -1. nan]");
  EXPECT_EQ(array_str(array({10, -3, 700})), "[ 10  -3 700]");
  EXPECT_EQ(array_str(array({true, false})), "[ True False]");
  EXPECT_EQ(array_str(array({std::complex<float>(1, 2), std::complex<float>(-3, -0.5f)})),
            "[ 1.+2.j  -3.-0.5j]");
  EXPECT_EQ(array_str(astype(arange(40), float32)),
            "[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n"
            " 18. 19. 20. 21. 22. 23. 24. 25. 26. 27. 28. 29. 30. 31. 32. 33. 34. 35.\n"
            " 36. 37. 38. 39.]");
  EXPECT_EQ(array_str(reshape(arange(2000), {40, 50})),
            "[[   0    1    2 ...   47   48   49]\n"
            " [  50   51   52 ...   97   98   99]\n"
            " [ 100  101  102 ...  147  148  149]\n"
            " ...\n"
            " [1850 1851 1852 ... 1897 1898 1899]\n"
            " [1900 1901 1902 ... 1947 1948 1949]\n"
            " [1950 1951 1952 ... 1997 1998 1999]]");
  EXPECT_EQ(array_str(reshape(arange(8), {2, 2, 2})),
            "[[[0 1]\n"
            "  [2 3]]\n"
            "\n"
            " [[4 5]\n"
            "  [6 7]]]");
  EXPECT_EQ(array_str(astype(arange(1200), float32)),
            "[0.000e+00 1.000e+00 2.000e+00 ... 1.197e+03 1.198e+03 1.199e+03]");
  EXPECT_EQ(array_str(zeros({0})), "[]");
  EXPECT_EQ(array_str(Array(0.1)), "0.1");
  EXPECT_EQ(array_str(ones({})), "1.0");
  EXPECT_EQ(array_str(1e-5 * ones({})), "1e-05");
  EXPECT_EQ(array_str(astype(array({1.5f, 0.25f}), float16)), "[1.5  0.25]");
}

TEST(ArrayStr, ATracer_ShowsItsShapeAndDType) {
  Trace trace("f");
  std::ostringstream out;
  out << trace.input({DType::kF32, {2, 3}, false, {}});
  EXPECT_EQ(out.str(), "Array(f32[2,3], traced)");
}

TEST(ArrayStr, FmtFormat_PrintsTheSame) { EXPECT_EQ(fmt::format("x = {}", array({1, 2})), "x = [1 2]"); }

}  // namespace
}  // namespace lockstep
