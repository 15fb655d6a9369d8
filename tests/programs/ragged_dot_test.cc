// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows, of sizes for which CPUs call oneDNN; tests/golden compares small ones with
// JAX's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/random/random.h"
#include "tests/programs/test_exchanges.h"

namespace lockstep {
namespace {

/// 700 rows, of which 30 are in no group.
const std::vector<int> kSizes = {300, 0, 1, 99, 250, 20};

Array normal(unsigned seed, const Shape& shape) { return random::normal(random::key(seed), shape); }

/// Group by group.
Array expected(const Array& x, const Array& y) {
  std::vector<Array> parts;
  int first = 0;
  for (std::size_t g = 0; g < kSizes.size(); ++g) {
    const Array rows = x[slice(first, first + kSizes[g])];
    parts.push_back(matmul(rows, y[static_cast<int>(g)], {.precision = Precision::kHighest}));
    first += kSizes[g];
  }
  parts.push_back(zeros({x.shape()[0] - first, y.shape()[2]}, x.dtype()));
  return concatenate(parts);
}

double farthest(const Array& a, const Array& b) {
  EXPECT_EQ(a.shape(), b.shape());
  return max(abs(astype(a, float32) - astype(b, float32))).item<float>();
}

TEST(RaggedDot, ValuesAndDerivatives_AreThoseOfEachGroupsProduct) {
  const Array y = normal(1, {6, 64, 48}), ct = normal(2, {700, 48}), x = normal(0, {700, 64});
  const Array sizes = array(kSizes);
  for (const auto& [dtype, tolerance] :
       {std::pair(float32, 1e-4), std::pair(float64, 1e-4), std::pair(bfloat16, 0.5)}) {
    const auto sum_of = [&](const auto& product) {
      return [&](const Array& x, const Array& y) { return sum(product(x, y) * astype(ct, dtype)); };
    };
    const auto ragged = [&](const Array& x, const Array& y) { return ragged_dot(x, y, sizes); };
    const Array rows = astype(x, dtype), matrices = astype(y, dtype);
    EXPECT_LT(farthest(jit(ragged)(rows, matrices), expected(rows, matrices)), tolerance);
    const auto [of_rows, of_matrices] = jit(grad<0, 1>(sum_of(ragged)))(rows, matrices);
    const auto [rows_want, matrices_want] = jit(grad<0, 1>(sum_of(expected)))(rows, matrices);
    EXPECT_LT(farthest(of_rows, rows_want), tolerance);
    EXPECT_LT(farthest(of_matrices, matrices_want), 4 * tolerance);
  }
}

TEST(RaggedDot, UnderVmap_EqualsThatOfEachExample) {
  const Array x = normal(0, {3, 200, 32}), y = normal(1, {3, 4, 32, 16});
  const Array sizes = array({50, 0, 100, 20, 10, 10, 10, 10, 200, 0, 0, 0}).reshape({3, 4});
  const Array all = jit(
      vmap([](const Array& x, const Array& y, const Array& s) { return ragged_dot(x, y, s); }))(x, y, sizes);
  const Array shared =
      jit(vmap([](const Array& x, const Array& y, const Array& s) { return ragged_dot(x, y, s); },
               {.in_axes = {0, std::nullopt, 0}}))(x, y[1], sizes);
  for (int i = 0; i < 3; ++i) {
    EXPECT_LT(farthest(all[i], ragged_dot(x[i], y[i], sizes[i])), 1e-4);
    EXPECT_LT(farthest(shared[i], ragged_dot(x[i], y[1], sizes[i])), 1e-4);
  }
}

TEST(RaggedDot, OfSplitRows_MovesNothing_AndOfSplitColumnsOnlySums) {
  const Array x = normal(0, {512, 64}), y = normal(1, {6, 64, 48}), sizes = array({300, 0, 1, 99, 50, 20});
  const auto f =
      jit([](const Array& x, const Array& y, const Array& sizes) { return ragged_dot(x, y, sizes); });
  const Array want = f(x, y, sizes);
  const Array by_rows = device_put(x, NamedSharding(test::line_mesh(), P("x")));
  EXPECT_THAT(test::exchanges(f, by_rows, y, sizes), ::testing::IsEmpty());
  EXPECT_LT(farthest(f(by_rows, y, sizes), want), 1e-4);
  const Array by_columns = device_put(x, NamedSharding(test::line_mesh(), P(nullptr, "x"))),
              rows_of_y = device_put(y, NamedSharding(test::line_mesh(), P(nullptr, "x")));
  EXPECT_THAT(test::exchanges(f, by_columns, rows_of_y, sizes),
              ::testing::ElementsAre("1 x all-reduce of 98304 B"));
  EXPECT_LT(farthest(f(by_columns, rows_of_y, sizes), want), 1e-4);
}

}  // namespace
}  // namespace lockstep
