// SPDX-License-Identifier: Apache-2.0
// Floats of 8 bits: XLA's conversions are those of base/half.h, and what JAX's users do with such numbers.

#include <cmath>
#include <sstream>
#include <vector>

#include "lockstep/array/print.h"
#include "lockstep/base/half.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Float8 : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  float value(std::uint8_t bits) const { return narrow_float_value(dtype(), &bits); }
  std::uint8_t bits(float number) const {
    return dtype() == DType::kF8E4M3FN ? f8_e4m3fn_bits(number) : f8_e5m2_bits(number);
  }

  /// All numbers, those between each two, and those beyond the largest.
  std::vector<float> numbers() const {
    std::vector<float> all = {0.f, -0.f, 1e9f, -1e9f, HUGE_VALF, -HUGE_VALF};
    for (int i = 0; i < 0x7F; ++i) {
      const float low = value(static_cast<std::uint8_t>(i)), high = value(static_cast<std::uint8_t>(i + 1));
      if (!std::isfinite(high)) break;
      for (const float x : {low, low + (high - low) / 4, low + (high - low) / 2, high - (high - low) / 4})
        all.insert(all.end(), {x, -x});
    }
    const auto largest = static_cast<float>(finfo(dtype()).max);
    for (const float factor : {1.f, 1.01f, 1.03f, 1.04f, 1.1f, 1.2f, 2.f}) all.push_back(largest * factor);
    return all;
  }
};

TEST_P(Float8, IsConvertedAsItsFormatDefines) {
  const std::vector<float> given = numbers();
  const std::vector<float> back = astype(astype(array(given), dtype()), float32).to_host<float>();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const float expected = value(bits(given[i]));
    EXPECT_TRUE(back[i] == expected || (std::isnan(back[i]) && std::isnan(expected)))
        << given[i] << " is " << back[i] << ", not " << expected;
    EXPECT_EQ(std::signbit(back[i]), std::signbit(expected)) << given[i];
  }
}

TEST_P(Float8, AConstant_EqualsAnArgument) {
  for (const double number : {0.1, 1.0, -3.3, 447.0, 460.0, 500.0, 60000.0, 1e6, -1e6, 1e-4, HUGE_VAL}) {
    const float constant = astype(full({}, number, dtype()), float32).item<float>();
    const float argument = astype(astype(Array(number), dtype()), float32).item<float>();
    EXPECT_TRUE(constant == argument || (std::isnan(constant) && std::isnan(argument)))
        << number << " is " << constant << " as a constant, and " << argument << " as an argument";
  }
}

TEST_P(Float8, SumsAreRoundedOnce_AndMaxAndMinWork) {
  const Array x = astype(array(std::vector<float>(256, 0.25f)), dtype());
  EXPECT_EQ(astype(sum(x), float32).item<float>(), 64);
  EXPECT_EQ(astype(mean(x), float32).item<float>(), 0.25f);
  const Array some = astype(array({-3.f, -0.5f, -8.f}), dtype());
  EXPECT_EQ(astype(max(some), float32).item<float>(), -0.5f);
  EXPECT_EQ(astype(min(-some), float32).item<float>(), 0.5f);
  EXPECT_EQ(argmin(some).item<int>(), 2);
}

TEST_P(Float8, MatrixProducts_MayHaveAWiderDType) {
  const Array x = astype(array({1.5f, -2.f, 0.5f, 3.f, 1.f, -1.f}, Shape{2, 3}), dtype());
  const Array narrow = astype(x, float32);
  const Array y = matmul(x, transpose(x), {.preferred_element_type = float32});
  EXPECT_EQ(y.dtype(), float32);
  EXPECT_EQ(y.to_host<float>(), matmul(narrow, transpose(narrow)).to_host<float>());
  EXPECT_EQ(matmul(x, transpose(x)).dtype(), dtype());
}

TEST_P(Float8, WithNumbersAndIntegers_StaysFloat8_AndOtherFloatsAreErrors) {
  const Array x = astype(array({1.f, 2.f}), dtype());
  EXPECT_EQ((x * 2.5).dtype(), dtype());
  EXPECT_EQ((x + array({1, 2})).dtype(), dtype());
  for (const DType other : {DType::kF32, DType::kBF16, DType::kC64}) {
    EXPECT_THAT(error_of<DTypeError>([&] { x + zeros({2}, other); }),
                AllOf(HasSubstr("(at float8_test.cc:"), HasSubstr("convert them with astype")));
  }
  EXPECT_THROW(x.to_host<float>(), DTypeError);
}

TEST(Print, Float8Elements_ArePrintedAsTheirNumbers) {
  std::ostringstream out;
  out << astype(array({0.5f, -448.f, 1.25f}), float8_e4m3fn);
  EXPECT_EQ(out.str(), "[   0.5  -448.      1.25]");
}

INSTANTIATE_TEST_SUITE_P(DTypes, Float8, ::testing::Values(DType::kF8E4M3FN, DType::kF8E5M2),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace lockstep
