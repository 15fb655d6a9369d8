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
  const std::string text = lower(all.program, {.for_cpu = for_cpu}).stablehlo;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find("optimization_barrier", at)) != text.npos; ++at) ++count;
  return count;
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

TEST(DotGeneral, ATransposedLargeMatrix_GivesTheSumOfProducts) {
  const std::int64_t m = 128, n = 64, k = 64;
  const Products all = products(m, n, k, DType::kF64);
  const std::vector<HostArray> results = evaluate(all.program, all.inputs);
  const std::vector<double>&x = all.inputs[0].values, &y = all.inputs[1].values;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < k; ++j) {
      double sum = 0;
      for (std::int64_t r = 0; r < n; ++r) sum += x[r * m + i] * y[r * k + j];
      for (std::size_t which : {0, 1}) ASSERT_NEAR(results[which].values[i * k + j], sum, 1e-12);
    }
  }
}

}  // namespace
}  // namespace lockstep::ir
