// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sparse/row_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/sharding/device_mesh.h"
#include "lockstep/sparse/sparse.h"

namespace lockstep::sparse {
namespace {

class FourDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 4}); }
  void TearDown() override { shutdown(); }
};
const ::testing::Environment* const kFourDevices = ::testing::AddGlobalTestEnvironment(new FourDevices);

NamedSharding rows() { return NamedSharding(make_mesh({{"rows", 4}}), P("rows")); }

/// Elements within `band` of the diagonal, a row longer than the others, and an empty one.
Array matrix(std::int64_t size, std::int64_t columns, std::int64_t band, std::int64_t long_row = -1) {
  std::vector<float> all(static_cast<std::size_t>(size * columns));
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (i == long_row || (std::abs(i - j) <= band && i != 2))
        all[static_cast<std::size_t>(i * columns + j)] = static_cast<float>((i * 7 + j * 3) % 11 - 5);
  return array(all, {size, columns});
}

Array numbers(const Shape& shape, DType dtype) {
  return (reshape(arange(num_elements(shape)), shape) % 7 - 3).astype(dtype);
}

void expect_near(const Array& x, const Array& y) {
  ASSERT_EQ(x.shape(), y.shape());
  ASSERT_EQ(x.dtype(), y.dtype());
  EXPECT_LT(max(abs(x - y)).item<double>(), 1e-4);
}

/// All products and derivatives of a matrix in blocks are those of the matrix.
void expect_dense(const Array& dense, DType dtype, std::int64_t halo) {
  const Array whole = dtype == complex64 ? dense * array({std::complex<float>(1, 2)}) : dense.astype(dtype);
  const RowBlocks blocks = split_rows(BCSR::fromdense(whole), rows());
  EXPECT_EQ(blocks.halo, halo);
  const std::int64_t m = whole.shape()[0], n = whole.shape()[1];
  const Array x = numbers({n}, dtype), y = numbers({m}, dtype);
  auto product = jit([](const RowBlocks& a, const Array& x) { return matmul(a, x); });
  auto left = jit([](const Array& x, const RowBlocks& a) { return matmul(x, a); });
  expect_near(product(blocks, x), matmul(whole, x));
  expect_near(product(blocks, numbers({n, 3}, dtype)), matmul(whole, numbers({n, 3}, dtype)));
  expect_near(left(y, blocks), matmul(y, whole));
  expect_near(left(numbers({2, m}, dtype), blocks), matmul(numbers({2, m}, dtype), whole));
  auto loss = [](const auto& a, const Array& x) { return sum(square(abs(matmul(a, x) + 1))); };
  expect_near(lockstep::grad<1>(loss)(blocks, x), lockstep::grad<1>(loss)(whole, x));
  const RowBlocks gradient = sparse::grad(loss)(blocks, x);
  expect_near(matmul(gradient, x), matmul(where(whole != 0, lockstep::grad<0>(loss)(whole, x), 0), x));
}

TEST(RowBlocks, OfABand_GivesWhatTheMatrixGives) {
  for (DType dtype : {float32, float64, complex64}) expect_dense(matrix(16, 16, 2), dtype, 2);
}
TEST(RowBlocks, WithALongRow_GivesWhatTheMatrixGives) {
  expect_dense(matrix(64, 64, 1, 7), float32, -1);
  expect_dense(matrix(64, 64, 1, 40), complex64, -1);
}
TEST(RowBlocks, OfRowsThatDevicesDoNotDivide_GivesWhatTheMatrixGives) {
  expect_dense(matrix(13, 13, 1), float32, 1);
  expect_dense(matrix(3, 3, 1), float32, 1);
}
TEST(RowBlocks, OfARectangle_GivesWhatTheMatrixGives) {
  expect_dense(matrix(10, 7, 2), float32, -1);
  expect_dense(matrix(8, 20, 3), float64, -1);
}
TEST(RowBlocks, OfADiagonal_NeedsNoHalo) { expect_dense(matrix(16, 16, 0), float32, 0); }
TEST(RowBlocks, WithoutElements_GivesZeros) {
  const RowBlocks blocks = split_rows(BCSR::fromdense(zeros({8, 8})), rows());
  EXPECT_EQ(matmul(blocks, full({8}, NAN)).to_host<float>(), std::vector<float>(8));
}

TEST(RowBlocks, AbsentElements_DoNotMeetNan) {
  const RowBlocks blocks = split_rows(BCSR::fromdense(matrix(16, 16, 1)), rows());
  std::vector<float> x(16, 1);
  x[0] = NAN;
  x[15] = INFINITY;
  const std::vector<float> y = matmul(blocks, array(x)).to_host<float>();
  for (std::size_t i = 2; i < 14; ++i) EXPECT_TRUE(std::isfinite(y[i])) << i;
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(RowBlocks, AreSplitEvenly) {
  const RowBlocks blocks = split_rows(BCSR::fromdense(matrix(64, 64, 1, 7)), rows());
  EXPECT_EQ(blocks.data.shape(), (Shape{3, 4, 16}));
  EXPECT_EQ(blocks.rest_data.shape(), (Shape{4, 55}));
  EXPECT_EQ(blocks.data.sharding().shard_shape(blocks.data.shape()), (Shape{3, 1, 16}));
  EXPECT_EQ(blocks.rest_data.sharding().shard_shape(blocks.rest_data.shape()), (Shape{1, 55}));
}

std::vector<std::string> moved_by(const RowBlocks& blocks, const Array& x) {
  std::vector<std::string> all;
  for (const auto& line :
       jit([](const RowBlocks&a, const Array&x) { return matmul(a, x); }).lower(blocks, x).communication())
    all.push_back(line.kind + " " + std::to_string(line.bytes));
  return all;
}

TEST(RowBlocks, Product_MovesOnlyTheVector) {
  const Array x = device_put(numbers({64}, float64), rows());
  const RowBlocks band = split_rows(BCSR::fromdense(matrix(64, 64, 2).astype(float64)), rows());
  EXPECT_EQ(moved_by(band, x), (std::vector<std::string>{"permute 16", "permute 16"}));
  const RowBlocks wide = split_rows(BCSR::fromdense(matrix(64, 64, 1, 7).astype(float64)), rows());
  EXPECT_EQ(moved_by(wide, x), (std::vector<std::string>{"all-gather 512"}));
  EXPECT_EQ(jit([](const RowBlocks& a, const Array& x) { return matmul(a, x); })(band, x).sharding(), rows());
}

TEST(RowBlocks, OfAnotherSharding_AreErrors) {
  const BCSR a = BCSR::fromdense(eye(4));
  EXPECT_THROW(split_rows(a, NamedSharding(make_mesh({{"rows", 4}}), P(none, "rows"))), ShardingError);
}

}  // namespace
}  // namespace lockstep::sparse
