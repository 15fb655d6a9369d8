// SPDX-License-Identifier: Apache-2.0
// Tests of calls that could as naturally mean something else, against JAX's numbers.

#include <complex>
#include <limits>
#include <vector>

#include "lockstep/ops/comparison.h"
#include "lockstep/ops/complex.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/linalg.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/sorting.h"
#include "lockstep/ops/statistics.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_close;
using test::integers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using C = std::complex<float>;

TEST(Average, WithWeightsOfAnAxis_WeightsAlongIt) {
  const Array square = reshape(arange(9.), {3, 3}), w = array({1.F, 2.F, 3.F});
  expect_close(average(square, w, {.axis = 0}), {4, 5, 6});
  expect_close(average(square, w, {.axis = 1}), {8.F / 6, 26.F / 6, 44.F / 6});
  expect_close(average(reshape(arange(12.), {3, 4}), w, {.axis = 0}),
               {16.F / 3, 19.F / 3, 22.F / 3, 25.F / 3});
  const Array x = reshape(arange(24.), {2, 3, 4});
  expect_close(average(x, reshape(arange(8.), {4, 2}), {.axis = {2, 0}}), {9.071429F, 13.071429F, 17.07143F});
  EXPECT_EQ(average(x, w, {.axis = 1, .keepdims = true}).shape(), (Shape{2, 1, 4}));
  expect_close(average(x, x), {15.666667F});
  EXPECT_THAT(error_of<ShapeError>([&] { average(x, ones({4}), {.axis = 1}); }),
              HasSubstr("[average] weights f32[4] do not fit f32[2,3,4]"));
  EXPECT_THAT(error_of<ShapeError>([&] { average(x, ones({4})); }), HasSubstr("one for each element"));
}

TEST(Norm, AMatrixWithAnOrd_GivesTheMatrixNorm) {
  const Array x = array({{1.F, -2.F, 3.F}, {4.F, 5.F, -7.F}});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto norm = [&](double ord) { return linalg::norm(x, {.ord = ord}); };
  expect_close(stack({norm(1), norm(-1), norm(2), norm(-2), norm(kInfinity), norm(-kInfinity)}),
               {10, 5, 9.930531F, 2.3204637F, 16, 6}, 1e-5);
  expect_close(linalg::norm(x), {10.198039F});
  EXPECT_EQ(linalg::norm(x, {.ord = 1, .keepdims = true}).shape(), (Shape{1, 1}));
  expect_close(linalg::norm(ravel(x), {.ord = 1}), {22});
  EXPECT_THAT(error_of<Error>([&] { norm(3); }), HasSubstr("[linalg::norm] expected a vector, or a matrix"));
  EXPECT_THAT(error_of<Error>([&] { linalg::norm(ones({2, 2, 2}), {.ord = 2}); }), HasSubstr("f32[2,2,2]"));
}

TEST(Quantile, OutsideOf0To1_IsTheSmallestOrTheLargest) {
  const Array x = array({3.F, 1.F, 2.F}), q = array({-0.2F, -0.6F, 0.3F, 1.2F, 1.9F});
  expect_close(quantile(x, q), {1, 1, 1.6F, 3, 3});
  expect_close(quantile(x, q, {.method = "lower"}), {1, 1, 1, 3, 3});
  expect_close(quantile(x, q, {.method = "higher"}), {1, 1, 2, 3, 3});
  expect_close(quantile(x, q, {.method = "nearest"}), {1, 1, 2, 3, 3});
  expect_close(quantile(x, q, {.method = "midpoint"}), {1, 1, 1.5F, 3, 3});
}

TEST(Diff, OfBools_MarksTheChanges) {
  const Array changes = diff(array({1.F, 0.F, 0.F, 1.F}) > 0.5);
  EXPECT_EQ(changes.dtype(), bool_);
  EXPECT_THAT(integers(changes), ElementsAre(1, 0, 1));
}

TEST(Logaddexp, ComplexNumbers_GiveTheLogOfTheSumOfExps) {
  const Array x = array(std::vector<C>{{1, 2}, {-1, 3}, {0, 0}, {700, 1}}),
              y = array(std::vector<C>{{0.5F, -1}, {2, -3}, {0, 0}, {0, 1}});
  const Array sum = logaddexp(x, y);
  expect_close(real(sum), {0.10499287F, 2.0467846F, 0.69314718F, 700}, 1e-5);
  expect_close(imag(sum), {1.7889593F, -3.0132759F, 0, 1}, 1e-5);
}

TEST(Solve, ComplexSystems_AreSolved) {
  const Array a = array(std::vector<C>{{1, 2}, {0, 1}, {-1, 0.5F}, {3, 0}}, {2, 2}),
              b = array(std::vector<C>{{1, 2}, {-1, 0.6F}});
  const auto expect_equal = [](const Array& got, const Array& expected) {
    ASSERT_EQ(got.dtype(), complex64);
    expect_close(ravel(real(got)), test::floats(ravel(real(expected))), 1e-5);
    expect_close(ravel(imag(got)), test::floats(ravel(imag(expected))), 1e-5);
  };
  expect_equal(matmul(a, linalg::solve(a, b)), b);
  expect_equal(matmul(a, linalg::solve(a, expand_dims(b, 1))), expand_dims(b, 1));
  expect_equal(matmul(a, linalg::inv(a)), astype(eye(2), complex64));
  const Array stacked = linalg::solve(stack({a, 2 * a}), stack({expand_dims(b, 1), expand_dims(b, 1)}));
  expect_equal(matmul(a, stacked[1]), expand_dims(b / 2, 1));
  EXPECT_THAT(error_of<ShapeError>([&] {
                linalg::solve(a, array(std::vector<C>{{1, 2}}));
              }),
              HasSubstr("[linalg::solve] c64[2,2] and c64[1] do not fit"));
}

TEST(Shapes, MoreBytesThanAnI64Counts_AreAnError) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  EXPECT_THAT(error_of<ShapeError>([&] { eye(kLarge, kLarge); }),
              HasSubstr("would have more than 2^63 bytes"));
  EXPECT_EQ(zeros({kLarge, 0, kLarge}).size(), 0);
}

}  // namespace
}  // namespace lockstep
