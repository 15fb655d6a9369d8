// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sparse/bcoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/sparse/sparse.h"

namespace lockstep::sparse {
namespace {

using ::testing::ElementsAre;

/// 0 2 0
/// 1 0 3
BCOO small() {
  const std::vector<float> data = {1, 2, 3};
  const std::vector<std::int64_t> rows = {1, 0, 1}, columns = {0, 1, 2};
  return BCOO::from_coo(data, rows, columns, {2, 3});
}

TEST(Bcoo, FromCoo_StoresIndicesAsI32) {
  const BCOO x = small();
  EXPECT_EQ(x.indices.dtype(), int32);
  EXPECT_THAT(x.indices.to_host<std::int32_t>(), ElementsAre(1, 0, 0, 1, 1, 2));
  EXPECT_EQ(x.nse(), 3);
  EXPECT_THAT(x.todense().to_host<float>(), ElementsAre(0, 2, 0, 1, 0, 3));
}

TEST(Bcoo, UnderJit_IsAnArgumentAndAResult) {
  auto doubled = jit([](const BCOO& x) { return x.with_values(2 * x.data); });
  EXPECT_THAT(doubled(small()).todense().to_host<float>(), ElementsAre(0, 4, 0, 2, 0, 6));
  auto sorted = jit([](const BCOO& x) { return x.sum_duplicates(); });
  EXPECT_THAT(sorted(small()).indices.to_host<std::int32_t>(), ElementsAre(0, 1, 1, 0, 1, 2));
}

TEST(Bcoo, FromdenseUnderJit_RequiresNse) {
  auto without = jit([](const Array& x) { return BCOO::fromdense(x).data; });
  EXPECT_THROW(without(ones({2, 2})), TraceError);
  auto with = jit([](const Array& x) { return BCOO::fromdense(x, 5); });
  const BCOO x = with(eye(3));
  EXPECT_EQ(x.nse(), 5);
  EXPECT_THAT(x.todense().to_host<float>(), ElementsAre(1, 0, 0, 0, 1, 0, 0, 0, 1));
}

TEST(Bcoo, ShapesThatDoNotFit_AreErrors) {
  const BCOO x = small();
  EXPECT_THROW(matmul(x, ones({2})), ShapeError);
  EXPECT_THROW(matmul(ones({3}), x), ShapeError);
  EXPECT_THROW(matmul(x, ones({3, 1, 1})), ShapeError);
  EXPECT_THROW(x.transpose({0, 0}), ShapeError);
  EXPECT_THROW(matmul(BCOO::fromdense(ones({3})), ones({3})), ShapeError);
  const std::vector<float> data = {1, 2};
  const std::vector<int> one = {0}, two = {0, 1};
  EXPECT_THROW(BCOO::from_coo(data, one, two, {2, 2}), ShapeError);
  EXPECT_THROW(BCOO::from_coo(data, two, two, {2}), ShapeError);
}

TEST(Bcoo, ProductOfOtherDtypes_IsPromoted) {
  EXPECT_EQ(matmul(small(), ones({3}, float64)).dtype(), float64);
  EXPECT_EQ(matmul(ones({2}, int32), small()).dtype(), float32);
}

TEST(Bcsr, OfRowPointers_IsItsMatrix) {
  const std::vector<double> data = {2, 1, 3};
  const std::vector<int> columns = {1, 0, 2};
  const std::vector<std::int64_t> pointers = {0, 1, 3};
  const BCSR x = BCSR::from_csr(data, columns, pointers, {2, 3});
  EXPECT_EQ(x.longest_row, 2);
  EXPECT_THAT(x.todense().to_host<double>(), ElementsAre(0, 2, 0, 1, 0, 3));
  EXPECT_THAT(x.T().todense().to_host<double>(), ElementsAre(0, 1, 2, 0, 0, 3));
  EXPECT_THAT(x.to_bcoo().indices.to_host<std::int32_t>(), ElementsAre(0, 1, 1, 0, 1, 2));
  EXPECT_THROW(BCSR::from_csr(data, columns, std::vector<int>{0, 2, 1}, {2, 3}), ShapeError);
  EXPECT_THROW(BCSR::from_csr(data, columns, std::vector<int>{0, 1, 4}, {2, 3}), ShapeError);
  EXPECT_THROW(BCSR::from_csr(data, columns, std::vector<int>{0, 1}, {2, 3}), ShapeError);
}

TEST(Bcsr, WithAndWithoutTheLongestRow_GivesTheSameProduct) {
  const BCSR fast = BCSR::fromdense(reshape(arange(20) % 3, {5, 4}).astype(float32));
  BCSR slow = fast;
  slow.longest_row = 0;
  ASSERT_GT(fast.longest_row, 0);
  const Array x = arange(4).astype(float32), wide = arange(12).astype(float32).reshape({4, 3});
  EXPECT_EQ(matmul(fast, x).to_host<float>(), matmul(slow, x).to_host<float>());
  EXPECT_EQ(matmul(fast, wide).to_host<float>(), matmul(slow, wide).to_host<float>());
  auto loss = [](const BCSR& a, const Array& x) { return sum(square(matmul(a, x))); };
  EXPECT_EQ(sparse::grad(loss)(fast, x).data.to_host<float>(),
            sparse::grad(loss)(slow, x).data.to_host<float>());
}

TEST(Bcsr, OfNegativeAndStrayIndices_IsTheSameMatrix) {
  const std::vector<float> data = {1, 2, 3, 4};
  const std::vector<int> rows = {-1, 0, -5, 1}, columns = {0, -1, 1, 7};
  const BCOO x = BCOO::from_coo(data, rows, columns, {2, 3});
  EXPECT_THAT(x.todense().to_host<float>(), ElementsAre(0, 0, 2, 1, 0, 0));
  EXPECT_THAT(BCSR::from_bcoo(x).todense().to_host<float>(), ElementsAre(0, 0, 2, 1, 0, 0));
  EXPECT_EQ(x.sum_duplicates().nse(), 2);
}

TEST(SparseGrad, UnderJit_HasTheIndicesOfTheMatrix) {
  auto loss = [](const BCOO& a, const Array& x) { return sum(square(matmul(a, x))); };
  const auto [value, gradient] = jit(sparse::value_and_grad(loss))(small(), array({1.0f, 2.0f, 3.0f}));
  EXPECT_EQ(value.item<float>(), 16 + 100);
  EXPECT_THAT(gradient.todense().to_host<float>(), ElementsAre(0, 16, 0, 20, 0, 60));
}

}  // namespace
}  // namespace lockstep::sparse
