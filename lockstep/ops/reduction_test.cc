// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/reduction.h"

#include <limits>

#include "lockstep/ops/creation.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_close;
using test::floats;
using test::integers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array matrix() { return array({{1.f, 2.f, 4.f}, {0.5f, -1.f, 3.f}}); }

TEST(Reduction, Axes_MayBeOneSeveralOrAll) {
  Array x = matrix();
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(sum(x).item<float>(), 9.5);
  EXPECT_THAT(floats(sum(x, 0)), ElementsAre(1.5, 1, 7));
  EXPECT_THAT(floats(sum(x, -1)), ElementsAre(7, 2.5));
  Array kept = sum(x, {.axis = {0, 1}, .keepdims = true});
  EXPECT_EQ(kept.shape(), (Shape{1, 1}));
  EXPECT_EQ(sum(x, {.axis = 1, .keepdims = true}).shape(), (Shape{2, 1}));
  EXPECT_THAT(floats(sum(x, {.axis = {-1, 0}})), ElementsAre(9.5));
}

TEST(Reduction, AWrongAxis_IsNamedWithTheLine) {
  EXPECT_THAT(error_of<ShapeError>([] { sum(matrix(), 2); }),
              HasSubstr("[sum] axis 2 is out of range for f32[2,3]"));
  EXPECT_THAT(error_of<ShapeError>([] { sum(matrix(), -3); }), HasSubstr("reduction_test.cc:"));
  EXPECT_THAT(error_of<ShapeError>([] {
                sum(matrix(), {.axis = {1, -1}});
              }),
              HasSubstr("axis 1 is named twice"));
}

TEST(Reduction, SumsOfNarrowDTypes_AreComputedInWideOnes) {
  EXPECT_EQ(sum(array({true, true})).dtype(), int32);
  EXPECT_EQ(sum(array({true, true})).item<std::int32_t>(), 2);
  EXPECT_EQ(sum(full({300}, 1, int8)).item<std::int32_t>(), 300);
  EXPECT_EQ(sum(zeros({2}, uint8)).dtype(), uint32);
  EXPECT_EQ(sum(zeros({2}, int64)).dtype(), int64);
  Array halves = sum(full({4096}, 1, bfloat16));
  EXPECT_EQ(halves.dtype(), bfloat16);
  EXPECT_EQ(floats(astype(halves, float32))[0], 4096);
}

TEST(Reduction, Statistics_AgreeWithJax) {
  Array x = matrix();
  expect_close(mean(x, 0), {0.75f, 0.5f, 3.5f});
  EXPECT_EQ(mean(array({1, 2})).item<float>(), 1.5);
  expect_close(var(x, {.axis = 1, .ddof = 1}), {2.3333332538604736f, 4.0833330154418945f});
  expect_close(std_(x, 0), {0.25f, 1.5f, 0.5f});
  expect_close(prod(x, 1), {8.f, -1.5f});
}

TEST(Reduction, LogSumExp_NeitherOverflowsNorFailsOnInfinities) {
  const float infinity = std::numeric_limits<float>::infinity();
  expect_close(logsumexp(matrix(), 1), {4.169846057891846f, 3.0956742763519287f});
  expect_close(logsumexp(array({1000.f, 1000.f})), {1000.6931f});
  expect_close(logsumexp(array({-infinity, -infinity})), {-infinity});
}

TEST(Reduction, MaxMinAndTheirIndices_AreFound) {
  Array x = matrix();
  EXPECT_THAT(floats(max(x, 0)), ElementsAre(1, 2, 4));
  EXPECT_THAT(floats(min(x, 1)), ElementsAre(1, -1));
  EXPECT_THAT(integers(argmax(x, 1)), ElementsAre(2, 2));
  EXPECT_THAT(integers(argmin(x, 0)), ElementsAre(1, 1, 1));
  EXPECT_EQ(argmax(x).item<std::int32_t>(), 2);
  EXPECT_EQ(argmin(x).item<std::int32_t>(), 4);
  EXPECT_THAT(error_of<ShapeError>([] { max(zeros({2, 0}), 1); }), HasSubstr("no elements"));
  EXPECT_THROW(argmax(zeros({0})), ShapeError);
  EXPECT_EQ(sum(zeros({2, 0}), 1).shape(), Shape{2});
}

TEST(Reduction, AnyAndAll_TakeBoolsAndNumbers) {
  EXPECT_THAT(integers(any(array({{0, 2}, {0, 0}}), 1)), ElementsAre(1, 0));
  EXPECT_THAT(integers(all(array({{true, true}, {true, false}}), 1)), ElementsAre(1, 0));
}

}  // namespace
}  // namespace lockstep
