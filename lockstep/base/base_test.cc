// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/dtype.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/base/half.h"
#include "lockstep/base/kept.h"
#include "lockstep/base/options.h"

namespace lockstep {
namespace {

TEST(DType, InfoAndNames_AreThoseOfEachDType) {
  for (std::size_t i = 0; i < kNumDTypes; ++i) {
    const DTypeInfo& row = info(static_cast<DType>(i));
    EXPECT_EQ(static_cast<std::size_t>(row.dtype), i);
    EXPECT_EQ(dtype_named(row.name), row.dtype);
  }
  static_assert(dtype_of<float> == float32);
  static_assert(dtype_of<const std::int64_t> == int64);
  static_assert(dtype_of<long long> == int64);
  EXPECT_EQ(size_of(dtype_of<double>), sizeof(double));
  static_assert(dtype_of<std::complex<float>> == complex64);
  static_assert(dtype_of<std::complex<double>> == complex128);
  EXPECT_EQ(size_of(complex128), sizeof(std::complex<double>));
  EXPECT_EQ(real_dtype(complex128), float64);
  EXPECT_EQ(complex_dtype(float64), complex128);
  EXPECT_EQ(complex_dtype(float16), complex64);
  EXPECT_TRUE(is_floating(bfloat16));
  EXPECT_FALSE(is_floating(int32));
}

/// The limits are those of the numbers that the bits stand for.
TEST(DType, FInfo_AgreesWithTheNumbersOfAllBits) {
  for (std::size_t i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!is_narrow_float(dtype)) continue;
    SCOPED_TRACE(name(dtype));
    const FInfo& limits = finfo(dtype);
    std::vector<float> numbers;
    bool infinite = false;
    for (std::uint32_t bits = 0; bits < 1u << (8 * size_of(dtype)); ++bits) {
      const float value = narrow_float_value(dtype, &bits);
      infinite = infinite || std::isinf(value);
      if (std::isfinite(value)) numbers.push_back(value);
    }
    std::ranges::sort(numbers);
    EXPECT_EQ(numbers.back(), limits.max);
    EXPECT_EQ(numbers.front(), limits.min);
    EXPECT_EQ(*std::ranges::upper_bound(numbers, 1.f), 1 + limits.eps);
    EXPECT_EQ(std::ldexp(1.0, -limits.nmant), limits.eps);
    EXPECT_EQ(infinite, limits.has_infinity);
    // The numbers of all digits begin where the steps first double.
    const double least = *std::ranges::upper_bound(numbers, 0.f);
    EXPECT_EQ(std::ldexp(least, limits.nmant), limits.tiny);
  }
  EXPECT_EQ(finfo(complex128).eps, finfo(float64).eps);
  EXPECT_THROW(finfo(int32), DTypeError);
}

/// Each number's bits are its own, and what is between two gets those of the nearer one, at half of the way
/// those of the even one.
TEST(Float8, IsRoundedToTheNearest_AndReadBack) {
  const auto check = [](float (*value)(std::uint8_t), std::uint8_t (*bits_of)(float)) {
    std::uint8_t before = 0;
    for (int bits = 0; bits < 0x80; ++bits) {
      const auto here = static_cast<std::uint8_t>(bits);
      const float number = value(here);
      if (std::isnan(number)) {
        EXPECT_TRUE(std::isnan(value(bits_of(number))));
        continue;
      }
      EXPECT_EQ(bits_of(number), here);
      EXPECT_EQ(bits_of(-number), here | 0x80);
      EXPECT_EQ(value(here | 0x80), -number);
      if (bits > 0 && std::isfinite(number)) {
        const float low = value(before), half = low + (number - low) / 2;
        EXPECT_EQ(bits_of(half), bits % 2 == 0 ? here : before) << half;
        EXPECT_EQ(bits_of(std::nextafter(half, 1e9f)), here);
        EXPECT_EQ(bits_of(std::nextafter(half, 0.f)), before);
      }
      before = here;
    }
  };
  check(f8_e4m3fn_value, f8_e4m3fn_bits);
  check(f8_e5m2_value, f8_e5m2_bits);
  EXPECT_EQ(f8_e4m3fn_bits(464), 0x7E) << "448 is even";
  EXPECT_EQ(f8_e4m3fn_bits(465), 0x7F);
  EXPECT_EQ(f8_e4m3fn_bits(-HUGE_VALF), 0xFF);
  EXPECT_EQ(f8_e5m2_bits(61439), 0x7B);
  EXPECT_EQ(f8_e5m2_bits(61440), 0x7C);
}

TEST(Half, KnownBits_GiveTheirNumbers) {
  EXPECT_EQ(f16_value(0x3C00), 1);
  EXPECT_EQ(f16_value(0xC000), -2);
  EXPECT_EQ(f16_value(0x7BFF), 65504);
  EXPECT_EQ(f16_value(0x0400), std::ldexp(1.f, -14));
  EXPECT_EQ(f16_value(0x0001), std::ldexp(1.f, -24)) << "the least number";
  EXPECT_TRUE(std::signbit(f16_value(0x8000)));
  EXPECT_EQ(f16_value(0xFC00), -HUGE_VALF);
  EXPECT_TRUE(std::isnan(f16_value(0x7E00)));
  EXPECT_EQ(bf16_value(0x3F80), 1);
  EXPECT_EQ(bf16_value(0xC040), -3);
  EXPECT_TRUE(std::isnan(bf16_value(0x7FC0)));
}

TEST(Fail, ThrowsTheGivenTypeWithTheFormattedText) {
  try {
    fail<ShapeError>("[add] expected {}, got {}", 3, 4);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "[add] expected 3, got 4");
  }
}

TEST(CallSiteScope, TheOutermostScope_GivesTheCallSite) {
  EXPECT_FALSE(CallSiteScope::current().known());
  {
    CallSiteScope outer(CallSite{"/home/user/train.cc", 7, "main"});
    CallSiteScope inner(CallSite{"ops.cc", 9, "mean"});
    EXPECT_EQ(CallSiteScope::current().to_string(), "train.cc:7");
  }
  EXPECT_FALSE(CallSiteScope::current().known());
}

TEST(Fingerprint, IsTheSameInEveryRun) {
  EXPECT_EQ(fingerprint("lockstep"), fingerprint(std::string("lock") + "step"));
  EXPECT_EQ(fingerprint(""), 0x2d06800538d394c2u);  // XXH3's own value for the empty input
  EXPECT_NE(combine(1, 2), combine(2, 1));
}

TEST(ManualClock, StandsStillUntilAdvanced) {
  ManualClock clock;
  auto start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(std::chrono::seconds(3));
  EXPECT_EQ(clock.now() - start, std::chrono::seconds(3));
}

TEST(MapEnvironment, AnEmptyValue_DiffersFromAnUnsetVariable) {
  MapEnvironment environment(std::map<std::string, std::string>{{"A", ""}});
  EXPECT_EQ(environment.get("A"), "");
  EXPECT_EQ(environment.get("B"), std::nullopt);
}

struct Thing : Kept {
  explicit Thing(int number) : number(number) {}
  int number;
};

class KeptTest : public ::testing::Test {
 protected:
  KeptTest() { set_max_kept(3); }
  ~KeptTest() override { set_max_kept(options::kMaxCompiledPrograms.otherwise); }

  /// The thing of this number, all of one hash.
  std::shared_ptr<Thing> find(int number) {
    return things_.find(7, [&](const Thing& thing) { return thing.number == number; });
  }
  std::shared_ptr<Thing> add(int number) {
    return things_.add(7, std::make_shared<Thing>(number),
                       [&](const Thing& thing) { return thing.number == number; });
  }

  KeptByUse<Thing> things_;
};

TEST_F(KeptTest, DropsTheLeastRecentlyUsed) {
  for (int number : {1, 2, 3}) add(number);
  EXPECT_NE(find(1), nullptr);
  add(4);
  EXPECT_EQ(find(2), nullptr);
  EXPECT_NE(find(1), nullptr);
  add(5);
  EXPECT_EQ(things_.size(), 3u);
  EXPECT_NE(find(5), nullptr);
  EXPECT_NE(find(1), nullptr) << "used after 4 was added";
  EXPECT_EQ(find(3), nullptr);
}

TEST_F(KeptTest, ADroppedObject_RemainsUsable_AndAnEqualOneIsNotKeptTwice) {
  const auto first = add(1);
  EXPECT_EQ(add(1), first);
  EXPECT_EQ(things_.size(), 1u);
  things_.erase(7, first.get());
  EXPECT_EQ(find(1), nullptr);
  add(1);
  things_.clear();
  EXPECT_EQ(things_.size(), 0u);
  EXPECT_EQ(first->number, 1);
  EXPECT_FALSE(first->is_kept());
}

}  // namespace
}  // namespace lockstep
