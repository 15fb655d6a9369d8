// SPDX-License-Identifier: Apache-2.0
// The numbers are what JAX 0.10.2 gives for the same lines.

#include "lockstep/nn/convolution.h"

#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/rearrange.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/test_values.h"

namespace lockstep::nn {
namespace {

using test::error_of;
using test::expect_close;
using ::testing::HasSubstr;

/// 0, 1, … modulo n, less `less`.
Array counted(std::int64_t count, std::int64_t n, std::int64_t less, const Shape& shape) {
  return reshape(astype(remainder(arange(count), n) - less, float32), shape);
}
void expect(const Array& x, const Shape& shape, const std::vector<float>& values) {
  EXPECT_EQ(x.shape(), shape);
  expect_close(x, values);
}

const Array& image() {
  static const Array x = counted(24, 5, 2, {1, 2, 3, 4});
  return x;
}

TEST(Convolution, GeneralDimensions_GiveJaxsValues) {
  const Array x = counted(32, 7, 3, {1, 4, 4, 2}), k = counted(36, 5, 2, {3, 3, 2, 2});
  const std::vector<float> same = {-15, 17, 23, -22, 20, 13, -12, -1};
  expect(
      conv_general_dilated(
          x, k, {.window_strides = {2, 2}, .padding = "SAME", .dimension_numbers = {"NHWC", "HWIO", "NHWC"}}),
      {1, 2, 2, 2}, same);
  expect(conv(x, k, {.window_strides = {2, 2}, .padding = "SAME"}), {1, 2, 2, 2}, same);
  expect(conv_general_dilated(image(), counted(8, 3, 1, {2, 2, 1, 2}),
                              {.window_strides = {1, 2},
                               .padding = {{1, 0}, {2, 1}},
                               .lhs_dilation = {2, 1},
                               .rhs_dilation = {1, 2}}),
         {1, 2, 6, 3}, {0, 0, 0, 0,  0, 2,  0, 0, 0, 1, -4, 2,  0, 0, 0, 2, -3, 2,
                        0, 0, 0, -2, 0, -2, 0, 0, 0, 2, 0,  -1, 0, 0, 0, 1, 0,  0});
  expect(conv(reshape(arange(5, float32), {1, 5, 1}), reshape(array({1.f, 2.f, 4.f}), {3, 1, 1}),
              {.padding = "SAME_LOWER"}),
         {1, 5, 1}, {4, 10, 17, 24, 11});
}

TEST(Convolution, Groups_AreConvolvedSeparately) {
  expect(conv_general_dilated(image(), counted(8, 3, 1, {4, 1, 1, 2}), {.feature_group_count = 2}),
         {1, 4, 3, 3}, {2, 1, 0,  -2, 2, 1, -1, -2, 2, -1, -1, -1, 4, -1, -1, -1, 4, -1,
                        1, 2, -2, 0,  1, 2, -1, 0,  1, 0,  -1, -2, 1, 0,  -1, 2,  1, 0});
  expect(conv_general_dilated(concatenate({image(), image() * 2}), counted(16, 3, 1, {4, 2, 1, 2}),
                              {.batch_group_count = 2}),
         {1, 4, 3, 3}, {1, 0, 4,  -3, 1, 0, -2, -3, 1, -1, -1, -1, -1, -1, -1, 4,  -1, -1,
                        0, 2, -6, 8,  0, 2, -4, 8,  0, 2,  0,  8,  -6, 2,  0,  -4, -6, 2});
}

TEST(Pooling, GivesJaxsValues) {
  const Array m = reshape(astype(remainder(arange(16) * 5, 11), float32), {1, 4, 4, 1});
  expect(max_pool(m, {2, 2}, {.strides = {2, 2}}), {1, 2, 2, 1}, {9, 10, 10, 9});
  expect(min_pool(m, {3, 3}, {.strides = {2, 2}, .padding = "SAME"}), {1, 2, 2, 1}, {0, 0, 1, 0});
  expect(avg_pool(m, {2, 2}, {.strides = {2, 2}, .padding = {{1, 1}, {0, 0}}}), {1, 3, 2, 1},
         {1.25, 3.5, 5, 4, 3.75, 3.25});
  expect(avg_pool(m, {2, 2}, {.strides = {2, 2}, .padding = {{1, 1}, {0, 0}}, .count_include_pad = false}),
         {1, 3, 2, 1}, {2.5, 7, 5, 4, 7.5, 6.5});
  EXPECT_EQ(max_pool(zeros({2, 5, 3}), {2}).shape(), (Shape{2, 4, 3}));
}

TEST(Embedding, GivesTheRowsOfTheTable) {
  expect(embedding(reshape(arange(6, float32), {3, 2}), array({{2, 0}})), {1, 2, 2}, {4, 5, 0, 1});
  EXPECT_THAT(
      error_of<ShapeError>([] { embedding(zeros({3}), array({0})); }),
      HasSubstr("[embedding] expected a table of two dimensions, got f32[3] (at convolution_test.cc:"));
}

TEST(Convolution, ArgumentsThatDoNotFit_AreErrorsThatNameThem) {
  EXPECT_THAT(
      error_of<ShapeError>([] {
        conv_general_dilated(image(), zeros({2, 3, 1, 1}));
      }),
      HasSubstr("[conv_general_dilated] expected as many features of f32[1,2,3,4] (dimension 1) as input "
                "features of f32[2,3,1,1] (dimension 1) times feature_group_count, got 2, 3 and 1"));
  EXPECT_THAT(
      error_of<ShapeError>([] {
        conv_general_dilated(image(), zeros({2, 2, 1}));
      }),
      HasSubstr("the same rank, at least 2, got f32[1,2,3,4] and f32[2,2,1] (at convolution_test.cc:"));
  EXPECT_THAT(
      error_of<ShapeError>([] {
        conv_general_dilated(image(), zeros({2, 2, 1, 1}), {.dimension_numbers = {"NCHH", "OIHW", "NCHW"}});
      }),
      HasSubstr("dimension numbers \"NCHH\" do not name the dimensions of f32[1,2,3,4]"));
  EXPECT_THAT(error_of<ShapeError>([] {
                conv_general_dilated(image(), zeros({2, 2, 1, 1}), {.padding = "FULL"});
              }),
              HasSubstr("[conv_general_dilated] expected a padding of \"SAME\", \"SAME_LOWER\", \"VALID\" or "
                        "numbers, got \"FULL\""));
  EXPECT_THAT(error_of<ShapeError>([] {
                conv_general_dilated(image(), zeros({2, 2, 1, 1}), {.window_strides = {1}});
              }),
              HasSubstr("expected a stride for each of the 2 spatial dimensions, got [1]"));
  EXPECT_THAT(error_of<ShapeError>([] {
                conv_general_dilated(image(), zeros({3, 1, 1, 1}), {.feature_group_count = 2});
              }),
              HasSubstr("that feature_group_count 2 and batch_group_count 1 divide"));
  EXPECT_THAT(error_of<ShapeError>([] {
                max_pool(zeros({2, 5, 3}), {2, 2});
              }),
              HasSubstr("[max_pool] expected a window size for each spatial dimension of x"));
}

}  // namespace
}  // namespace lockstep::nn
