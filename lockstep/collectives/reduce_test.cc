// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/reduce.h"

#include <gtest/gtest.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/half.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 3, 31, 32, 33, 511, 512, 513, 2000};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax};

template <class T>
T combine_two(ReduceOp op, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return op == ReduceOp::kSum || op == ReduceOp::kMax ? a || b : a && b;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return op == ReduceOp::kSum ? a + b : a * b;
  } else {
    switch (op) {
      case ReduceOp::kSum:
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
        return a + b;
      case ReduceOp::kProd:
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
        return a * b;
      case ReduceOp::kMin:
        return std::min(a, b);
      case ReduceOp::kMax:
        return std::max(a, b);
    }
  }
  return a;
}

template <class T>
class ReduceTest : public ::testing::Test {
 protected:
  std::vector<std::vector<T>> random_inputs(int n, std::size_t count) {
    std::vector<std::vector<T>> inputs(n);
    for (auto& input : inputs) {
      for (std::size_t i = 0; i < count; ++i) {
        if constexpr (std::is_integral_v<T>) {
          input.push_back(static_cast<T>(random_()));
        } else if constexpr (std::is_same_v<T, std::complex<float>>) {
          input.push_back(
              {static_cast<float>(static_cast<int>(random_() % 7) - 3), static_cast<float>(random_() % 5)});
        } else {
          input.push_back(static_cast<T>(std::uniform_real_distribution<double>(-3, 3)(random_)));
        }
      }
    }
    return inputs;
  }
  std::mt19937_64 random_{7};
};

using Types =
    ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                     std::uint32_t, std::uint64_t, float, double, std::complex<float>>;
TYPED_TEST_SUITE(ReduceTest, Types);

TYPED_TEST(ReduceTest, EqualsAReductionElementByElement) {
  for (ReduceOp op : kOps) {
    if (!can_reduce(op, dtype_of<TypeParam>)) continue;
    for (int n : {1, 2, 3, 4, 7}) {
      for (std::size_t count : kSizes) {
        auto inputs = this->random_inputs(n, count);
        std::vector<const void*> sources;
        for (auto& input : inputs) sources.push_back(input.data());
        std::vector<TypeParam> expected = inputs[0], out(count), copy(count);
        for (int j = 1; j < n; ++j) {
          for (std::size_t i = 0; i < count; ++i) expected[i] = combine_two(op, expected[i], inputs[j][i]);
        }
        reduce(op, dtype_of<TypeParam>, sources.data(), n, count, out.data(), copy.data(), true);
        ASSERT_EQ(out, expected) << static_cast<int>(op) << " of " << n << " x " << count;
        ASSERT_EQ(copy, expected);
        reduce(op, dtype_of<TypeParam>, sources.data(), n, count, inputs[n - 1].data(), nullptr, false);
        ASSERT_EQ(inputs[n - 1], expected) << "in place of its last source";
      }
    }
  }
}

float from_half(std::uint16_t x) {
  const int exponent = (x >> 10) & 31, mantissa = x & 1023;
  const float sign = x & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa != 0 ? std::nanf("") : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

float from_bfloat(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

/// The finite 16-bit number nearest to `value`, of two equally near ones the even one, found by looking at
/// all.
std::uint16_t nearest(float value, float (*convert)(std::uint16_t)) {
  std::uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t x = 0; x < 0x10000; ++x) {
    const float candidate = convert(static_cast<std::uint16_t>(x));
    if (!std::isfinite(candidate) || std::signbit(candidate) != std::signbit(value)) continue;
    const double d = std::abs(static_cast<double>(candidate) - value);
    if (d < distance || (d == distance && x % 2 == 0)) {
      distance = d;
      best = static_cast<std::uint16_t>(x);
    }
  }
  return best;
}

std::uint16_t add_16(DType dtype, std::uint16_t a, std::uint16_t b) {
  const void* sources[] = {&a, &b};
  std::uint16_t out;
  reduce(ReduceOp::kSum, dtype, sources, 2, 1, &out, nullptr, false);
  return out;
}

TEST(Reduce, HalfPrecision_IsRoundedToTheNearest) {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    auto finite = [&](std::uint16_t infinity) {
      std::uint16_t x;
      do x = static_cast<std::uint16_t>(random());
      while ((x & infinity) == infinity);
      return static_cast<std::uint16_t>(x & ~(infinity & (infinity << 1)));  // Away from overflow.
    };
    std::uint16_t a = finite(0x7c00), b = finite(0x7c00);
    if (i < 60) a &= 0x83ff, b &= 0x87ff;  // Subnormal ones.
    EXPECT_EQ(add_16(DType::kF16, a, b), nearest(from_half(a) + from_half(b), from_half)) << a << " " << b;
    a = static_cast<std::uint16_t>(0x3f00 + random() % 512),
    b = static_cast<std::uint16_t>(0xbe00 + random() % 512);
    EXPECT_EQ(add_16(DType::kBF16, a, b), nearest(from_bfloat(a) + from_bfloat(b), from_bfloat))
        << a << " " << b;
  }
  EXPECT_EQ(add_16(DType::kF16, 0x7bff, 0x7bff), 0x7c00);  // Overflow to infinity.
  EXPECT_EQ(add_16(DType::kF16, 0x7c00, 0xfc00) & 0x7e00, 0x7e00);
  EXPECT_EQ(add_16(DType::kBF16, 0x7f7f, 0x7f7f), 0x7f80);
  EXPECT_EQ(add_16(DType::kBF16, 0x7f80, 0xff80) & 0x7fc0, 0x7fc0);
}

#ifdef __SSE__
/// The thread's floating-point mode has these bits set as well.
class FloatBits {
 public:
  explicit FloatBits(unsigned bits) : before_(_mm_getcsr()) { _mm_setcsr(before_ | bits); }
  ~FloatBits() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
};
constexpr unsigned kFlush = 0x8040;  ///< subnormal floats are taken for zero, and none result
constexpr unsigned kRoundUp = 0x4000;

template <class T>
T of_two(ReduceOp op, T a, T b) {
  T out;
  const void* sources[] = {&a, &b};
  reduce(op, dtype_of<T>, sources, 2, 1, &out, nullptr, false);
  return out;
}

/// As in compiled programs, and as JAX has it.
TEST(Reduce, SubnormalFloats_AreZeroInSums_InEveryFloatingPointMode) {
  for (const unsigned bits : {0u, kFlush, kRoundUp}) {
    const FloatBits mode(bits);
    const unsigned before = _mm_getcsr();
    EXPECT_EQ(of_two(ReduceOp::kSum, 1e-40f, 1e-40f), 0.0f) << bits;
    EXPECT_EQ(of_two(ReduceOp::kSum, 1e-310, 1e-310), 0.0) << bits;
    EXPECT_EQ(of_two(ReduceOp::kSum, 3e-38f, -2.5e-38f), 0.0f) << bits;
    EXPECT_EQ(of_two(ReduceOp::kProd, 1e-30f, 1e-10f), 0.0f) << bits;
    EXPECT_EQ(of_two(ReduceOp::kSum, 1.0f, 1e-9f), 1.0f) << "rounded to the nearest";
    EXPECT_EQ(_mm_getcsr(), before) << "the thread's mode, and the flags of what it computed";
  }
}

TEST(Reduce, SubnormalFloats_AreOrderedInMinimaAndMaxima_InEveryFloatingPointMode) {
  for (const unsigned bits : {0u, kFlush}) {
    float larger, smaller;
    {
      const FloatBits mode(bits);
      larger = of_two(ReduceOp::kMax, 0.0f, 1e-40f);
      smaller = of_two(ReduceOp::kMin, 0.0f, -1e-40f);
    }
    EXPECT_EQ(larger, 1e-40f) << bits;
    EXPECT_EQ(smaller, -1e-40f) << bits;
  }
}

TEST(Reduce, HalfPrecisionKeepsSubnormals_WhereTheProcessorFlushesFloats) {
  std::vector<std::uint16_t> numbers, doubles;
  for (std::uint32_t x = 0; x < 0x10000; ++x) {
    const auto half = static_cast<std::uint16_t>(x);
    if ((half & 0x7c00) >= 0x7800) continue;  // Its double is not finite.
    numbers.push_back(half);
    doubles.push_back(static_cast<std::uint16_t>((half & 0x7c00) == 0 ? (half & 0x8000) | (half & 0x3ff) << 1
                                                                      : half + 0x400));
  }
  const std::vector<std::uint16_t> zeros(numbers.size());
  std::vector<std::uint16_t> sum(numbers.size()), twice(numbers.size()), largest(numbers.size());
  {
    const FloatBits flushing(kFlush);
    const void* with_zero[] = {numbers.data(), zeros.data()};
    const void* with_itself[] = {numbers.data(), numbers.data()};
    reduce(ReduceOp::kSum, DType::kF16, with_zero, 2, sum.size(), sum.data(), nullptr, false);
    reduce(ReduceOp::kSum, DType::kF16, with_itself, 2, sum.size(), twice.data(), nullptr, false);
    reduce(ReduceOp::kMax, DType::kF16, with_itself, 2, sum.size(), largest.data(), nullptr, false);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0x8000) continue;  // -0 + 0 is 0.
    ASSERT_EQ(sum[i], numbers[i]) << from_half(numbers[i]);
    ASSERT_EQ(twice[i], doubles[i]) << from_half(numbers[i]);
    ASSERT_EQ(largest[i], numbers[i]) << from_half(numbers[i]);
  }
}
#endif

TEST(Reduce, HalfPrecision_IsRoundedOnceForAllSources) {
  // 2048 + 1 + 1 in half precision is 2048 if rounded after each step, and 2050 in the end.
  const std::uint16_t large = 0x6800, one = 0x3c00;
  const void* sources[] = {&large, &one, &one};
  std::uint16_t out;
  reduce(ReduceOp::kSum, DType::kF16, sources, 3, 1, &out, nullptr, false);
  EXPECT_EQ(from_half(out), 2050.0f);
}

/// Bits of all kinds, the same by each of the ways in which terms are combined.
TEST(Reduce, EveryWayOfCombiningPartialTerms_GivesTheSameBits) {
  std::mt19937_64 random(3);
  for (int number = 0; number < static_cast<int>(kNumDTypes); ++number) {
    const auto dtype = static_cast<DType>(number);
    for (const ReduceOp op : kOps) {
      if (!can_reduce(op, dtype) || dtype == DType::kBool) continue;
      constexpr std::size_t kCount = 2000;
      const std::size_t size = size_of(dtype), partial_size = size_of(partial_type(op, dtype));
      std::vector<std::vector<std::uint64_t>> inputs(3), partials(3);
      const void* sources[3];
      Term terms[3];
      for (std::size_t i = 0; i < 3; ++i) {
        inputs[i].resize(kCount * size / 8);
        // No number is as large as 2, none is NaN.
        std::uint64_t kept = ~std::uint64_t{0};
        const std::size_t part = size_of(real_dtype(dtype));
        for (std::size_t at = part - 1; at < 8; at += part) kept &= ~(std::uint64_t{0x40} << (8 * at));
        for (std::uint64_t& word : inputs[i]) word = random() & kept;
        sources[i] = inputs[i].data();
        partials[i].resize(kCount * partial_size / 8);
        const Term term{sources[i]};
        reduce(op, dtype, {&term, 1}, kCount, {partials[i].data(), nullptr, /*is_partial=*/true});
        terms[i] = {partials[i].data(), /*is_partial=*/true};
      }
      std::vector<std::uint64_t> out(inputs[0].size()), again(out.size());
      reduce(op, dtype, sources, 3, kCount, out.data(), nullptr, false);
      reduce(op, dtype, {terms, 3}, kCount, {again.data()});
      EXPECT_EQ(out, again) << name(dtype) << ", operation " << static_cast<int>(op);
    }
  }
}

TEST(Reduce, PartialResults_HaveThePartialType) {
  const std::uint16_t large = 0x6800, one = 0x3c00;  // 2048 and 1 in f16
  for (const ReduceOp op : kOps) {
    const bool widens = op == ReduceOp::kSum || op == ReduceOp::kProd;
    EXPECT_EQ(partial_type(op, DType::kF16), widens ? DType::kF32 : DType::kF16);
    EXPECT_EQ(partial_type(op, DType::kF32), DType::kF32);
    const Term terms[] = {{&large}, {&one}};
    std::uint32_t partial[2] = {0, 77};
    reduce(op, DType::kF16, {terms, 2}, 1, {partial, nullptr, /*is_partial=*/true});
    if (widens) {
      EXPECT_EQ(std::bit_cast<float>(partial[0]), op == ReduceOp::kSum ? 2049.0f : 2048.0f);
    } else {
      EXPECT_EQ(partial[0], op == ReduceOp::kMax ? large : one) << "nothing behind the 2 bytes of an f16";
    }
    const Term again[] = {{partial, /*is_partial=*/true}, {&one}};
    std::uint16_t out[2] = {0, 77};
    reduce(op, DType::kF16, {again, 2}, 1, {out});
    EXPECT_EQ(from_half(out[0]), op == ReduceOp::kSum ? 2050 : op == ReduceOp::kMin ? 1 : 2048);
    EXPECT_EQ(out[1], 77);
    EXPECT_EQ(partial[1], 77u);
  }
}

/// Compares all pairs with the numbers that the bits stand for.
TEST(Reduce, Float8_EqualsFloatsRoundedOnce) {
  std::vector<std::uint8_t> a, b;
  for (int i = 0; i < 256; ++i) {
    for (int j = 0; j < 256; ++j) {
      a.push_back(static_cast<std::uint8_t>(i));
      b.push_back(static_cast<std::uint8_t>(j));
    }
  }
  const void* sources[] = {a.data(), b.data()};
  std::vector<std::uint8_t> out(a.size());
  for (const DType dtype : {DType::kF8E4M3FN, DType::kF8E5M2}) {
    const auto bits = dtype == DType::kF8E4M3FN ? f8_e4m3fn_bits : f8_e5m2_bits;
    for (const ReduceOp op : kOps) {
      reduce(op, dtype, sources, 2, out.size(), out.data(), nullptr, false);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const float x = narrow_float_value(dtype, &a[i]), y = narrow_float_value(dtype, &b[i]);
        const float got = narrow_float_value(dtype, &out[i]);
        const bool ordered = op == ReduceOp::kMin || op == ReduceOp::kMax;
        if (ordered && (std::isnan(x) || std::isnan(y))) {
          ASSERT_TRUE(std::isnan(got));
          continue;
        }
        const std::uint8_t expected = bits(combine_two<float>(op, x, y));
        const float wanted = narrow_float_value(dtype, &expected);
        ASSERT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted))) << x << " and " << y;
      }
    }
  }
}

TEST(Reduce, Booleans_AreReducedByOrAndAnd) {
  const bool a[] = {false, false, true, true}, b[] = {false, true, false, true};
  const void* sources[] = {a, b};
  for (ReduceOp op : kOps) {
    bool out[4];
    reduce(op, DType::kBool, sources, 2, 4, out, nullptr, false);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], combine_two<bool>(op, a[i], b[i]));
  }
}

TEST(Reduce, NaN_StaysNaNInMinimumAndMaximum) {
  std::vector<float> numbers(100, 1.0f), nans(100, std::nanf(""));
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (bool first : {false, true}) {
      const void* sources[] = {first ? nans.data() : numbers.data(), first ? numbers.data() : nans.data()};
      std::vector<float> out(100);
      reduce(op, DType::kF32, sources, 2, 100, out.data(), nullptr, false);
      for (float x : out) EXPECT_TRUE(std::isnan(x));
    }
  }
}

TEST(Reduce, AComplexMinimum_Throws) {
  std::complex<double> a, b, out;
  const void* sources[] = {&a, &b};
  for (const DType dtype : {DType::kC64, DType::kC128})
    EXPECT_THROW(reduce(ReduceOp::kMin, dtype, sources, 2, 1, &out, nullptr, false), DTypeError);
}

TEST(CopyBytes, CopiesAtAnyAlignment) {
  std::vector<char> in(5000), out(5000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i * 7);
  for (std::size_t offset : {0, 1, 63, 64}) {
    for (std::size_t bytes : {0, 1, 100, 129, 4000}) {
      std::fill(out.begin(), out.end(), 1);
      copy_bytes(out.data() + offset, in.data(), bytes, true);
      ASSERT_EQ(std::memcmp(out.data() + offset, in.data(), bytes), 0);
      ASSERT_EQ(out[offset + bytes], 1);
    }
  }
}

}  // namespace
}  // namespace lockstep::collectives
