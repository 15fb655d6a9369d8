// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/promotion.h"

#include <sstream>

#include "lockstep/ops/creation.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using ::testing::HasSubstr;

// As JAX 0.10.2 gives it with 64-bit dtypes enabled: i* and f* are weak, and - is an error.
constexpr const char* kNames = "b i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2";
constexpr struct {
  const char* left;
  const char* results;
} kTable[] = {
    {"b", "b i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"i8", "i8 i8 i16 i32 i64 i16 i32 i64 f* f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"i16", "i16 i16 i16 i32 i64 i16 i32 i64 f* f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"i32", "i32 i32 i32 i32 i64 i32 i32 i64 f* f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"i64", "i64 i64 i64 i64 i64 i64 i64 i64 f* f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"u8", "u8 i16 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"u16", "u16 i32 i32 i32 i64 u16 u16 u32 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"u32", "u32 i64 i64 i64 i64 u32 u32 u32 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"u64", "u64 f* f* f* f* u64 u64 u64 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"f16", "f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f32 f64 c64 c128 - -"},
    {"bf16", "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 c64 c128 - -"},
    {"f32", "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64 c128 - -"},
    {"f64", "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128 - -"},
    {"c64", "c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c128 c64 c128 - -"},
    {"c128", "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 - -"},
    {"f8_e4m3fn",
     "f8_e4m3fn f8_e4m3fn f8_e4m3fn f8_e4m3fn f8_e4m3fn f8_e4m3fn f8_e4m3fn f8_e4m3fn f8_e4m3fn - - - - - - "
     "f8_e4m3fn -"},
    {"f8_e5m2",
     "f8_e5m2 f8_e5m2 f8_e5m2 f8_e5m2 f8_e5m2 f8_e5m2 f8_e5m2 f8_e5m2 f8_e5m2 - - - - - - - f8_e5m2"},
    {"i*", "i* i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
    {"f*", "f* f* f* f* f* f* f* f* f* f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2"},
};

ElementType type_named(const std::string& text) {
  if (text == "b") return {DType::kBool, false};
  if (text == "i*") return {DType::kI32, true};
  if (text == "f*") return {DType::kF32, true};
  if (const auto dtype = dtype_named(text)) return {*dtype, false};
  ADD_FAILURE() << text;
  return {};
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(Promotion, EveryPairOfDTypes_GivesWhatJaxGives) {
  const std::vector<std::string> right = words(kNames);
  for (const auto& row : kTable) {
    const std::vector<std::string> results = words(row.results);
    ASSERT_EQ(results.size(), right.size());
    for (std::size_t i = 0; i < right.size(); ++i) {
      const ElementType pair[] = {type_named(row.left), type_named(right[i])};
      const ElementType swapped[] = {pair[1], pair[0]};
      SCOPED_TRACE(std::string(row.left) + " with " + right[i]);
      if (results[i] == "-") {
        EXPECT_THROW(promote("add", pair), DTypeError);
        continue;
      }
      EXPECT_EQ(promote("add", pair), type_named(results[i]));
      EXPECT_EQ(promote("add", swapped), type_named(results[i]));
    }
  }
}

TEST(Promotion, ToInexact_GivesWhatJaxGives) {
  const std::vector<std::string> from = words(kNames);
  const std::vector<std::string> to =
      words("f32 f32 f32 f32 f64 f32 f32 f32 f64 f16 bf16 f32 f64 c64 c128 f8_e4m3fn f8_e5m2");
  for (std::size_t i = 0; i < from.size(); ++i)
    EXPECT_EQ(to_inexact(type_named(from[i])), type_named(to[i])) << from[i];
}

TEST(Promotion, ThreeDTypes_GiveTheirLeastUpperBound) {
  const ElementType types[] = {type_named("i8"), type_named("u8"), type_named("f*")};
  EXPECT_EQ(promote("add", types), type_named("f*"));
}

TEST(Operand, Numbers_TakeTheDTypeOfArrays) {
  Array half = zeros({2}, bfloat16), whole = zeros({2}, int8), wide = zeros({2}, float64);
  EXPECT_EQ((half * 2.5).dtype(), bfloat16);
  EXPECT_EQ((2 + half).dtype(), bfloat16);
  EXPECT_EQ((whole + 1).dtype(), int8);
  EXPECT_EQ((whole + 1.0).dtype(), float32);
  EXPECT_TRUE((whole + 1.0).aval().weak_type);
  EXPECT_EQ((whole / 2).dtype(), float32);
  EXPECT_EQ((1.0f - wide).dtype(), float64);
  EXPECT_EQ((true + whole).dtype(), int8);
}

TEST(Operand, NumbersWithF64Arrays_KeepAllTheirDigits) {
  EXPECT_EQ((zeros({1}, float64) + 0.1).to_host<double>()[0], 0.1);
}

TEST(Operand, ANumberThatTheDTypeCannotHold_IsAnErrorAtTheUsersLine) {
  Array x = zeros({2}, int8);
  std::string message = error_of<DTypeError>([&] { x + 200; });
  EXPECT_THAT(message, HasSubstr("200 does not fit into i8"));
  EXPECT_THAT(message, HasSubstr("promotion_test.cc:"));
  EXPECT_THROW(zeros({2}, uint32) - (-1), DTypeError);
  EXPECT_THROW(zeros({2}, int32) + 3000000000, DTypeError);
  EXPECT_EQ((zeros({1}, int64) + 3000000000).to_host<std::int64_t>()[0], 3000000000);
  EXPECT_EQ((zeros({1}, float32) + 3000000000).to_host<float>()[0], 3e9f);
}

TEST(Operand, AnArrayWithoutAValue_IsAnErrorAtTheUsersLine) {
  Array nothing;
  EXPECT_THAT(error_of<Error>([&] { nothing + 1; }), HasSubstr("promotion_test.cc:"));
}

}  // namespace
}  // namespace lockstep
