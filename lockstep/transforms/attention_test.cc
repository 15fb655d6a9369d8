// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/onednn/onednn.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/test_evaluate.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::transforms {
namespace {

using test::count_of;

/// Whether the code of this attention, whose program was made for `local`, is a call of oneDNN.
bool is_called(const std::vector<Aval>& whole, const std::vector<Aval>& local,
               const ir::LowerOptions& options = {}) {
  AttentionParams params = attention_of(whole, {.scale = 1, .block = 256}, false);
  params.program = attention_of(local, {.scale = 1, .block = 256}, false).program;
  const ir::Program program = test::trace(local, [&](std::span<const ir::Value> v) {
    return emit_nested(v[0].builder(), attention_p(), ir::OpParams::of(params), v);
  });
  const std::string text = lower(program, options).stablehlo;
  const std::size_t calls = count_of("attention", text), products = count_of("stablehlo.dot_general", text);
  EXPECT_EQ(products, calls > 0 ? 0U : 2U);
  return calls > 0;
}

std::vector<Aval> operands(std::int64_t batch, std::int64_t length, std::int64_t heads,
                           std::int64_t key_heads, DType dtype = DType::kF32) {
  const Aval query{dtype, {batch, length, heads, 8}}, key{dtype, {batch, length, key_heads, 8}};
  return {query, key, key};
}

TEST(Attention, OfWholeSequencesOnCpus_IsComputedByOneDnn) {
  if (!onednn::is_available()) GTEST_SKIP() << onednn::description();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    EXPECT_TRUE(is_called(operands(2, 320, 4, 2, dtype), operands(2, 320, 4, 2, dtype)));
  EXPECT_TRUE(is_called(operands(8, 320, 4, 2), operands(1, 320, 4, 2)));
  EXPECT_TRUE(is_called(operands(8, 320, 8, 4), operands(4, 320, 2, 1)));
}

TEST(Attention, WithLengthsOfKeys_IsComputedByOneDnn) {
  if (!onednn::is_available()) GTEST_SKIP() << onednn::description();
  std::vector<Aval> whole = operands(8, 320, 4, 2), local = operands(2, 320, 4, 2);
  whole.push_back({DType::kI32, {8}});
  local.push_back({DType::kI32, {2}});
  EXPECT_TRUE(is_called(whole, whole));
  EXPECT_TRUE(is_called(whole, local));
}

TEST(Attention, WithMaskAndBias_IsComputedByOneDnn) {
  if (!onednn::is_available()) GTEST_SKIP() << onednn::description();
  std::vector<Aval> whole = operands(8, 320, 4, 2), local = operands(2, 320, 4, 2);
  whole.insert(whole.end(), {{DType::kBool, {8, 1, 1, 320}}, {DType::kBF16, {1, 4, 320, 1}}});
  local.insert(local.end(), {{DType::kBool, {2, 1, 1, 320}}, {DType::kBF16, {1, 4, 320, 1}}});
  EXPECT_TRUE(is_called(whole, whole));
  EXPECT_TRUE(is_called(whole, local));
}

TEST(Attention, WithABiasSharedByAllExamplesAndHeads_HasItsDerivativeByXla) {
  if (!onednn::is_available()) GTEST_SKIP() << onednn::description();
  const auto calls = [](const Shape& bias, bool is_used) {
    std::vector<Aval> avals = operands(2, 320, 4, 2);
    avals.push_back({DType::kF32, bias});
    const AttentionParams forward = attention_of(avals, {.scale = 1, .block = 256}, false);
    const std::vector<Aval> results = forward.program->output_avals();
    avals.insert(avals.end(), {results[0], results[1], results[0]});
    const ir::Program program = test::trace(avals, [&](std::span<const ir::Value> v) {
      std::vector<ir::Value> all =
          emit_nested(v[0].builder(), attention_p(),
                      ir::OpParams::of(attention_of(avals, {.scale = 1, .block = 256}, true)), v);
      if (!is_used) all.pop_back();
      return all;
    });
    return count_of("attention_backward", lower(eliminate_dead_code(program), {}).stablehlo);
  };
  EXPECT_EQ(calls({1, 1, 320, 320}, true), 0U);
  EXPECT_EQ(calls({1, 1, 320, 320}, false), 1U) << "without the bias's cotangent";
  EXPECT_EQ(calls({1, 4, 320, 320}, true), 1U);
  EXPECT_EQ(calls({2, 1, 1, 320}, true), 1U);
}

TEST(Attention, OfSplitSequencesOrGroups_IsCompiledByXla) {
  EXPECT_FALSE(is_called(operands(2, 320, 4, 4), operands(2, 160, 4, 4)));
  EXPECT_FALSE(is_called(operands(2, 320, 8, 2), operands(2, 320, 2, 2)));
}

TEST(Attention, WhereOneDnnIsNotUsed_IsCompiledByXla) {
  const std::vector<Aval> x = operands(2, 320, 4, 2), of_f64 = operands(2, 320, 4, 2, DType::kF64),
                          short_ones = operands(2, 127, 4, 2);
  ir::LowerOptions without, other;
  without.onednn = false;
  other.for_cpu = false;
  EXPECT_FALSE(is_called(of_f64, of_f64));
  EXPECT_FALSE(is_called(short_ones, short_ones));
  EXPECT_FALSE(is_called(x, x, without));
  EXPECT_FALSE(is_called(x, x, other));
}

}  // namespace
}  // namespace lockstep::transforms
