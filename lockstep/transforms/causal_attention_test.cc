// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/program/lowering.h"
#include "lockstep/program/test_evaluate.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::transforms {
namespace {

using test::count_of;

/// The number of products in the code of this attention, whose program was made for `local`.
std::size_t products(const std::vector<Aval>& whole, const std::vector<Aval>& local, bool for_cpu = true) {
  CausalAttentionParams params = causal_attention(whole, 1, false);
  params.program = causal_attention(local, 1, false).program;
  const ir::Program program = test::trace(local, [&](std::span<const ir::Value> v) {
    return emit_nested(v[0].builder(), causal_attention_p(), ir::OpParams::of(params), v);
  });
  ir::LowerOptions options;
  options.for_cpu = for_cpu;
  return count_of("stablehlo.dot_general", lower(program, options).stablehlo);
}

std::vector<Aval> operands(std::int64_t batch, std::int64_t length, std::int64_t heads,
                           std::int64_t key_heads, std::int64_t features = 8) {
  const Aval query{DType::kF32, {batch, length, heads, features}},
      key{DType::kF32, {batch, length, key_heads, features}};
  return {query, key, key};
}

TEST(CausalAttention, OfWholeSequencesOnCpus_IsComputedInParts) {
  const auto in_parts = [](const std::vector<Aval>& x) { return products(x, x); };
  EXPECT_EQ(in_parts(operands(2, 127, 4, 2)), 2U);
  EXPECT_EQ(in_parts(operands(2, 128, 4, 2)), 4U);
  EXPECT_EQ(in_parts(operands(2, 320, 4, 4)), 10U);
  EXPECT_EQ(in_parts(operands(2, 4096, 4, 4)), 16U);
  EXPECT_EQ(products(operands(2, 320, 4, 4), operands(2, 320, 4, 4), false), 2U);
}

TEST(CausalAttention, OfADevicesExamplesAndHeads_IsComputedInParts) {
  EXPECT_EQ(products(operands(8, 320, 4, 2), operands(1, 320, 4, 2)), 10U);
  EXPECT_EQ(products(operands(8, 320, 8, 4), operands(4, 320, 2, 1)), 10U);
}

TEST(CausalAttention, OfPartsOfSequencesOrGroups_IsThePartitionedProgram) {
  EXPECT_EQ(products(operands(2, 320, 4, 4), operands(2, 160, 4, 4)), 2U);
  EXPECT_EQ(products(operands(2, 320, 4, 4), operands(2, 320, 4, 4, 4)), 2U);
  EXPECT_EQ(products(operands(2, 320, 8, 2), operands(2, 320, 2, 2)), 2U);
}

}  // namespace
}  // namespace lockstep::transforms
