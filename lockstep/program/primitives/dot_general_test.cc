// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/dot_general.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/test_examples.h"

namespace lockstep::ir {
namespace {

using namespace test;

/// x^T y for x[n, m] and y[n, k]: by the columns of x, and of an x that the program transposes.
struct Products {
  Program program;
  std::vector<HostArray> inputs;
};

/// `transposes`: the program has a transpose of its own, too.
Products products(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, bool transposes = true) {
  Products all{{}, {random({n, m}, -1, 1, 1, dtype), random({n, k}, -1, 1, 2, dtype)}};
  Builder b("products");
  const Value x = b.input(all.inputs[0].aval()), y = b.input(all.inputs[1].aval());
  std::vector<Value> outputs = {lax::dot_general(x, y, {{0}, {0}, {}, {}}),
                                lax::dot_general(lax::transpose(x, {1, 0}), y, {{1}, {0}, {}, {}})};
  if (transposes) outputs.push_back(lax::transpose(y, {1, 0}));
  all.program = b.finish(outputs);
  return all;
}

std::size_t barriers(const Products& all, bool for_cpu = true) {
  return count_of("optimization_barrier",
                  lower(all.program, {.for_cpu = for_cpu, .onednn = false}).stablehlo);
}

TEST(DotGeneral, ATransposedLargeMatrix_IsCopiedBeforeTheProduct) {
  EXPECT_EQ(barriers(products(128, 64, 64, DType::kF32)), 2u);
  EXPECT_EQ(barriers(products(128, 64, 64, DType::kF64)), 2u);
  EXPECT_EQ(barriers(products(127, 64, 64, DType::kF32)), 0u);
  EXPECT_EQ(barriers(products(128, 64, 63, DType::kF32)), 0u);
  EXPECT_EQ(barriers(products(128, 64, 64, DType::kBF16)), 0u);
  EXPECT_EQ(barriers(products(128, 64, 64, DType::kF32), false), 0u);
  // XLA's older loop emitters, which it gets, would copy slowly.
  EXPECT_EQ(barriers(products(128, 64, 64, DType::kF32, false)), 0u);
}

TEST(DotGeneral, ATransposedLargeMatrix_IsMultipliedByOneDnn_WhereItIsInstalled) {
  const auto calls = [](const Program& program, const LowerOptions& options) {
    return count_of(onednn::kOneDnnTarget, lower(program, options).stablehlo);
  };
  const std::size_t both = onednn::is_available() ? 2 : 0;
  EXPECT_EQ(calls(products(256, 64, 64, DType::kF32).program, {}), both);
  EXPECT_EQ(calls(products(256, 64, 64, DType::kF32, false).program, {}), both);
  EXPECT_EQ(calls(products(255, 64, 64, DType::kF32).program, {}), 0u);
  EXPECT_EQ(calls(products(256, 64, 64, DType::kF64).program, {}), 0u);
  EXPECT_EQ(calls(products(256, 64, 64, DType::kF32).program, {.for_cpu = false}), 0u);
}

TEST(DotGeneral, EightBitIntegers_AreConvertedBeforeTheProductOnCuda) {
  const auto text = [](DType dtype, std::optional<DType> wanted, bool for_cuda) {
    Builder b("products");
    const Value left = b.input({dtype, {5, 3}, false, {}}), right = b.input({dtype, {5, 4}, false, {}});
    const Value product = lax::dot_general(left, right, {{0}, {0}, {}, {}, wanted});
    return lower(b.finish(std::vector<Value>{product}), {.for_cuda = for_cuda}).stablehlo;
  };
  const auto of_type = [](const char* type) {
    return ::testing::ContainsRegex(fmt::format("dot_general.*tensor<5x3x{}>, tensor<5x4x{}>", type, type));
  };
  EXPECT_THAT(text(DType::kI8, {}, true), of_type("i32"));
  EXPECT_THAT(text(DType::kI8, DType::kI32, true), of_type("i32"));
  EXPECT_THAT(text(DType::kI8, DType::kI64, true), of_type("i64"));
  EXPECT_THAT(text(DType::kU8, {}, true), of_type("i32"));
  EXPECT_THAT(text(DType::kU8, DType::kU32, true), of_type("ui32"));
  EXPECT_THAT(text(DType::kI8, DType::kI32, false), of_type("i8"));
  EXPECT_THAT(text(DType::kI16, {}, true), of_type("i16"));
}

/// The result, [m, k], is that of [n, m], transposed, and [n, k].
void expect_product(const HostArray& result, const HostArray& x, const HostArray& y, std::size_t n,
                    double tolerance) {
  const std::size_t m = x.values.size() / n, k = y.values.size() / n;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      double sum = 0;
      for (std::size_t r = 0; r < n; ++r) sum += x.values[r * m + i] * y.values[r * k + j];
      ASSERT_NEAR(result.values[i * k + j], sum, tolerance);
    }
  }
}

/// As in the gradient of a linear layer's weights over a batch of sequences.
TEST(DotGeneral, SeveralLeadingDimensions_AreContractedAsOne) {
  const HostArray x = random({4, 32, 2, 128}, -1, 1, 1, DType::kF32),
                  y = random({4, 32, 64}, -1, 1, 2, DType::kF32);
  Builder b("products");
  const Value left = b.input(x.aval()), right = b.input(y.aval());
  const Program program =
      b.finish(std::vector<Value>{lax::dot_general(left, right, {{0, 1}, {0, 1}, {}, {}})});
  EXPECT_EQ(lower(program, {}).stablehlo.find(onednn::kOneDnnTarget) != std::string::npos,
            onednn::is_available());
  const HostArray result = evaluate(program, {x, y})[0];
  ASSERT_EQ(result.shape, (Shape{2, 128, 64}));
  expect_product(result, x, y, 128, 1e-4);
}

TEST(DotGeneral, ATransposedLargeMatrix_GivesTheSumOfProducts) {
  const Products all = products(128, 64, 64, DType::kF64);
  const std::vector<HostArray> results = evaluate(all.program, all.inputs);
  for (std::size_t which : {0, 1}) expect_product(results[which], all.inputs[0], all.inputs[1], 64, 1e-12);
}

}  // namespace
}  // namespace lockstep::ir
