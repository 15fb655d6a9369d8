// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/shape.h"

#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using test::floats;
using test::integers;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(Creation, FilledAndCountedArrays_HaveTheirValuesAndDTypes) {
  EXPECT_THAT(floats(zeros({2})), ElementsAre(0, 0));
  EXPECT_THAT(integers(ones({2}, int8)), ElementsAre(1, 1));
  EXPECT_EQ(full({2}, 7).dtype(), int32);
  EXPECT_FALSE(full({2}, 7).aval().weak_type);
  EXPECT_EQ(full({}, 3000000000, int64).item<std::int64_t>(), 3000000000);
  EXPECT_THAT(floats(full({2, 2}, array({1.f, 2.f}))), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(integers(arange(4)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(integers(arange(5, -4, -3)), ElementsAre(5, 2, -1));
  EXPECT_THAT(floats(arange(0.5, 2.5, 0.3)),
              ElementsAre(0.5, 0.800000011920929f, 1.100000023841858f, 1.4000000953674316f,
                          1.7000000476837158f, 2.0, 2.3000001907348633f));
  EXPECT_EQ(arange(3, float32).dtype(), float32);
  EXPECT_EQ(arange(3, 1).shape(), Shape{0});
  EXPECT_THAT(floats(linspace(0, 1, 4)), ElementsAre(0, 0.3333333432674408f, 0.6666666865348816f, 1));
  EXPECT_THAT(floats(eye(2, 3)), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_THAT(floats(one_hot(array({2, -1}), 3)), ElementsAre(0, 0, 1, 0, 0, 0));
  EXPECT_THROW(zeros({2, -1}), ShapeError);
  EXPECT_THROW(arange(0, 5, 0), Error);
}

TEST(Creation, ZerosOnesAndFullLike_HaveTheShapeAndDType) {
  Array x = array({{1, 2}, {3, 4}});
  EXPECT_THAT(integers(zeros_like(x)), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(ones_like(x, float32).dtype(), float32);
  EXPECT_THAT(floats(full_like(x, 2.5, float32)), ElementsAre(2.5, 2.5, 2.5, 2.5));
  EXPECT_THAT(floats(zeros_like(array({std::numeric_limits<float>::quiet_NaN()}))), ElementsAre(0));
}

TEST(Creation, HostData_KeepsItsDType) {
  EXPECT_EQ(array({1.0, 2.0}).dtype(), float64);
  EXPECT_EQ(array({1.f}).dtype(), float32);
  EXPECT_EQ(array({true, false}).dtype(), bool_);
  EXPECT_THAT(integers(array(std::vector<bool>{true, false})), ElementsAre(1, 0));
  EXPECT_EQ(array({1, 2, 3, 4}, {2, 2}).shape(), (Shape{2, 2}));
  EXPECT_EQ(array(std::vector<std::uint8_t>{1, 2}).dtype(), uint8);
  EXPECT_THAT(error_of<ShapeError>([] {
                array({1, 2, 3}, {2, 2});
              }),
              HasSubstr("3 values do not fill shape [2,2]"));
  EXPECT_THAT(error_of<ShapeError>([] { array({{1, 2}, {3}}); }), HasSubstr("shape_test.cc:"));
}

TEST(Shapes, Reshape_InfersTheOmittedSize) {
  Array x = arange(6);
  EXPECT_EQ(reshape(x, {2, -1}).shape(), (Shape{2, 3}));
  EXPECT_EQ(ravel(reshape(x, {3, 2})).shape(), Shape{6});
  EXPECT_EQ(reshape(zeros({0, 3}), {0, 4}).shape(), (Shape{0, 4}));
  std::string message = error_of<ShapeError>([&] { reshape(x, {4, -1}); });
  EXPECT_THAT(message, HasSubstr("[reshape] i32[6], of 6 elements, cannot be given shape [4,-1]"));
  EXPECT_THROW(reshape(x, {-1, -1}), ShapeError);
}

TEST(Shapes, Axes_AreMovedAddedAndRemoved) {
  Array x = reshape(arange(6), {1, 2, 3});
  EXPECT_EQ(transpose(x).shape(), (Shape{3, 2, 1}));
  EXPECT_THAT(integers(transpose(x, {0, -1, 1})), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(swapaxes(x, 0, -1).shape(), (Shape{3, 2, 1}));
  EXPECT_EQ(moveaxis(x, 0, -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(expand_dims(x, -1).shape(), (Shape{1, 2, 3, 1}));
  EXPECT_EQ(squeeze(x).shape(), (Shape{2, 3}));
  EXPECT_EQ(squeeze(x, 0).shape(), (Shape{2, 3}));
  EXPECT_THROW(squeeze(x, 1), ShapeError);
  EXPECT_THROW(transpose(x, {0, 0, 1}), ShapeError);
  EXPECT_THROW(expand_dims(x, 4), ShapeError);
}

TEST(Shapes, Arrays_AreJoinedSplitSlicedAndPadded) {
  Array x = array({{1, 2}, {3, 4}});
  EXPECT_THAT(integers(concatenate({x, array({{5, 6}})})), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(integers(concatenate({x, x}, -1)), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
  EXPECT_EQ(concatenate({x, zeros({1, 2})}).dtype(), float32);
  EXPECT_THAT(integers(stack({index(x, 0), index(x, -1)}, 1)), ElementsAre(1, 3, 2, 4));
  EXPECT_THROW(stack({x, index(x, 0)}), ShapeError);
  EXPECT_THROW(concatenate({}), ShapeError);
  EXPECT_THROW(index(x, 2), ShapeError);
  std::vector<Array> halves = split(x, 2, 1);
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_THAT(integers(halves[1]), ElementsAre(2, 4));
  EXPECT_THROW(split(x, 3), ShapeError);
  EXPECT_THAT(integers(slice(x, {0, 1}, {2, 2})), ElementsAre(2, 4));
  EXPECT_THAT(integers(slice(arange(10), {1}, {9}, {3})), ElementsAre(1, 4, 7));
  EXPECT_THAT(integers(pad(x, {{1, 0}, {0, 1}}, 9)), ElementsAre(9, 9, 9, 1, 2, 9, 3, 4, 9));
  EXPECT_THAT(integers(broadcast_to(array({1, 2}), {2, 2})), ElementsAre(1, 2, 1, 2));
  EXPECT_THROW(broadcast_to(x, {2}), ShapeError);
}

TEST(Shapes, DynamicSlices_TakeArraysAsStarts) {
  Array x = arange(6);
  EXPECT_THAT(integers(dynamic_slice(x, {index(array({2}), 0)}, {3})), ElementsAre(2, 3, 4));
  EXPECT_THAT(integers(dynamic_slice(x, {100}, {2})), ElementsAre(4, 5));
  EXPECT_THAT(integers(dynamic_update_slice(x, array({7, 8}), {1})), ElementsAre(0, 7, 8, 3, 4, 5));
  EXPECT_THROW(dynamic_slice(x, {}, {2}), ShapeError);
}

TEST(Shapes, Triangles_KeepTheirSideOfTheDiagonal) {
  Array x = ones({2, 3});
  EXPECT_THAT(floats(tril(x)), ElementsAre(1, 0, 0, 1, 1, 0));
  EXPECT_THAT(floats(triu(x, 1)), ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THROW(tril(ones({3})), ShapeError);
}

/// The sums of products, one by one, of matrices.
std::vector<float> product_of(const std::vector<float>& x, const std::vector<float>& y, int n, int k, int m) {
  std::vector<float> result;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < m; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += x[i * k + l] * y[l * m + j];
      result.push_back(sum);
    }
  }
  return result;
}

TEST(LinearAlgebra, Matmul_MultipliesVectorsMatricesAndStacks) {
  Array x = reshape(arange(6, float32), {2, 3}), y = reshape(arange(12, float32) - 5, {3, 4});
  const std::vector<float> expected = product_of(floats(x), floats(y), 2, 3, 4);
  EXPECT_THAT(floats(matmul(x, y)), ElementsAreArray(expected));
  Array row = index(x, 1), column = ravel(slice(y, {0, 2}, {3, 3}));
  EXPECT_THAT(floats(matmul(row, y)),
              ElementsAreArray(std::vector<float>(expected.begin() + 4, expected.end())));
  EXPECT_THAT(floats(matmul(x, column)), ElementsAre(expected[2], expected[6]));
  EXPECT_EQ(matmul(row, column).item<float>(), expected[6]);

  // Stacks: of 5 left, 5 right, both, and both with sizes of 1 to broadcast.
  Array factors = reshape(arange(1, 6, 1, float32), {5, 1, 1});
  std::vector<float> stacked;
  for (int i = 1; i <= 5; ++i) {
    for (float value : expected) stacked.push_back(static_cast<float>(i) * value);
  }
  EXPECT_THAT(floats(matmul(factors * x, y)), ElementsAreArray(stacked));
  EXPECT_THAT(floats(matmul(x, factors * y)), ElementsAreArray(stacked));
  EXPECT_THAT(floats(matmul(factors * x, broadcast_to(y, {5, 3, 4}))), ElementsAreArray(stacked));
  Array both = matmul(expand_dims(factors * x, 1), expand_dims(y, 0));
  EXPECT_EQ(both.shape(), (Shape{5, 1, 2, 4}));
  EXPECT_THAT(floats(both), ElementsAreArray(stacked));
  EXPECT_EQ(matmul(row, factors * y).shape(), (Shape{5, 4}));
  EXPECT_EQ(matmul(factors * x, column).shape(), (Shape{5, 2}));
}

TEST(LinearAlgebra, ShapesThatDoNotFit_AreErrorsThatNameThem) {
  EXPECT_THAT(
      error_of<ShapeError>([] {
        matmul(zeros({2, 3}), zeros({4, 5}));
      }),
      HasSubstr("[matmul] shapes f32[2,3] and f32[4,5] do not fit: dimension 1 of the first has size 3, "
                "dimension 0 of the second has size 4 (at shape_test.cc:"));
  EXPECT_THAT(error_of<ShapeError>([] {
                matmul(zeros({2, 2, 3}), zeros({4, 3, 5}));
              }),
              HasSubstr("do not broadcast"));
  EXPECT_THROW(matmul(zeros({2, 3}), 2.0), ShapeError);
}

TEST(LinearAlgebra, DotAndOuter_GiveNumPysValues) {
  EXPECT_EQ(dot(array({1.f, 2.f}), array({3.f, 4.f})).item<float>(), 11);
  EXPECT_EQ(dot(zeros({2, 3}), zeros({5, 3, 4})).shape(), (Shape{2, 5, 4}));
  EXPECT_THAT(floats(dot(array({1.f, 2.f}), 3)), ElementsAre(3, 6));
  EXPECT_THAT(integers(outer(array({1, 2}), array({3, 4}))), ElementsAre(3, 4, 6, 8));
  EXPECT_EQ(matmul(zeros({2, 2}, bfloat16), zeros({2, 2}, int32)).dtype(), bfloat16);
}

}  // namespace
}  // namespace lockstep
