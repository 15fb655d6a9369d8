// SPDX-License-Identifier: Apache-2.0
// The numbers are what JAX 0.10.2 gives for the same lines.

#include "lockstep/ops/sorting.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/ops/creation.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect;
using test::expect_close;
using test::floats;
using test::integers;
using test::kInf;
using test::kNan;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Equal to the bit, but that a NaN is a NaN.
void expect_floats(const Array& x, const Shape& shape, const std::vector<float>& values) {
  EXPECT_EQ(x.shape(), shape);
  const std::vector<float> got = floats(x);
  ASSERT_EQ(got.size(), values.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i] == values[i] || (std::isnan(got[i]) && std::isnan(values[i])))
        << "element " << i << ": " << got[i] << ", not " << values[i];
  }
}

TEST(Sorting, Nan_IsSortedAsTheLargest) {
  const Array x = array({{3.f, 1.f, 2.f}, {kNan, -1.f, kInf}});
  expect_floats(sort(x), {2, 3}, {1, 2, 3, -1, kInf, kNan});
  expect_floats(sort(x, 0), {2, 3}, {3, -1, 2, kNan, 1, kInf});
  expect_floats(sort(x, {.descending = true}), {2, 3}, {3, 2, 1, kNan, kInf, -1});
  expect_floats(sort(x, {.axis = std::nullopt}), {6}, {-1, 1, 2, 3, kInf, kNan});
  expect(argsort(x), {2, 3}, {1, 2, 0, 1, 2, 0});
  expect(argsort(array({2, 1, 2, 3}), {.descending = true}), {4}, {3, 0, 2, 1});
  expect(lexsort({array({1, 2, 1, 2}), array({1, 1, 0, 0})}), {4}, {2, 3, 0, 1});
  expect(sort(array({true, false, true})), {3}, {0, 1, 1});
}

/// Along the middle dimension, so that one number of elements is below and one above the least that
/// lockstep/sorting/ sorts on CPUs; equal elements, infinities and NaNs are among them.
TEST(Sorting, OfManyElements_EqualsAStableSort) {
  for (const DType dtype : {float16, bfloat16, float32, float64, int8, int32, int64, uint8, uint32, bool_}) {
    for (const std::int64_t size : {40, 400}) {
      for (const bool descending : {false, true}) {
        const SortOptions how{.axis = 1, .descending = descending};
        const auto at = [&](std::int64_t row, std::int64_t i, std::int64_t column) {
          return static_cast<std::size_t>((row * size + i) * 2 + column);
        };
        std::vector<double> values(static_cast<std::size_t>(4 * size));
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<double>(i * 7919 % 61) / 2;
          if (is_floating(dtype) && i % 17 == 0) values[i] = i % 2 == 0 ? -kInf : kNan;
        }
        const Array x = astype(reshape(array(values), {2, size, 2}), dtype);
        values = astype(x, float64).to_host<double>();
        const std::vector<std::int32_t> places = integers(argsort(x, how));
        const std::vector<double> sorted = astype(sort(x, how), float64).to_host<double>();
        for (std::int64_t row = 0; row < 2; ++row) {
          for (std::int64_t column = 0; column < 2; ++column) {
            std::vector<std::int32_t> order(static_cast<std::size_t>(size));
            std::iota(order.begin(), order.end(), 0);
            std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
              if (descending) std::swap(a, b);
              const double u = values[at(row, a, column)], v = values[at(row, b, column)];
              return u < v || (!std::isnan(u) && std::isnan(v));
            });
            for (std::int64_t i = 0; i < size; ++i) {
              const std::int32_t place = order[static_cast<std::size_t>(i)];
              ASSERT_EQ(places[at(row, i, column)], place) << name(dtype) << " " << size << " " << i;
              const double value = values[at(row, place, column)], got = sorted[at(row, i, column)];
              ASSERT_TRUE(got == value || (std::isnan(got) && std::isnan(value))) << name(dtype);
            }
          }
        }
      }
    }
  }
}

TEST(Sorting, TopK_GivesTheLargestFirstAndOfEqualsTheFirst) {
  auto [values, places] = top_k(array({{1.f, 5.f, 3.f, 5.f}, {kNan, 2.f, 7.f, 0.f}}), 2);
  expect_floats(values, {2, 2}, {5, 5, kNan, 7});
  expect(places, {2, 2}, {1, 3, 0, 2});
  EXPECT_EQ(top_k(zeros({4, 2}), 3, 0).first.shape(), (Shape{3, 2}));
  EXPECT_THAT(
      error_of<ShapeError>([] {
        top_k(zeros({4, 2}), 3);
      }),
      HasSubstr("[top_k] expected 0 to 2 elements of dimension 1 of f32[4,2], got 3 (at sorting_test.cc:"));
}

TEST(Sorting, SearchSorted_FindsTheInsertionIndex) {
  const Array sorted = array({1.f, 2.f, 2.f, 4.f}), values = array({0.f, 2.f, 3.f, 5.f, kNan});
  expect(searchsorted(sorted, values), {5}, {0, 1, 3, 4, 4});
  expect(searchsorted(sorted, values, "right"), {5}, {0, 3, 3, 4, 4});
  expect(searchsorted(zeros({0}), values), {5}, {0, 0, 0, 0, 0});
  expect(searchsorted(arange(1000), array({{-5, 0}, {999, 1000}})), {2, 2}, {0, 0, 999, 1000});
  EXPECT_THAT(error_of<ShapeError>([&] {
                searchsorted(zeros({2, 2}), values);
              }),
              HasSubstr("a sorted array of one dimension, got f32[2,2]"));
  EXPECT_THAT(error_of<Error>([&] { searchsorted(sorted, values, "middle"); }),
              HasSubstr("side \"left\" or \"right\", got \"middle\""));
}

TEST(Sorting, Quantiles_LieBetweenElements) {
  const Array x = array({{1.f, 4.f, 2.f, 8.f}, {3.f, kNan, 1.f, 0.f}}), row = array({1.f, 4.f, 2.f, 8.f});
  expect_floats(median(x, 1), {2}, {3, kNan});
  expect_close(quantile(row, array({0.f, 0.25f, 0.9f})), {1, 1.75f, 6.799999237060547f});
  expect_floats(quantile(x, 0.5, {.axis = 0, .keepdims = true}), {1, 4}, {2, kNan, 1.5, 4});
  expect_close(percentile(row, 40), {2.3999998569488525f});
  expect_floats(median(array({1, 2, 4, 8})), {}, {3});
  expect_floats(percentile(row, array({25.f, 50.f}), {.method = "lower"}), {2}, {1, 2});
  expect_floats(quantile(row, 0.4, {.method = "nearest"}), {}, {2});
  expect_floats(quantile(row, 0.4, {.method = "higher"}), {}, {4});
  expect_floats(quantile(array({{1.f, 4.f, 2.f}, {8.f, 0.f, 3.f}}), array({0.25f, 0.5f}),
                         {.axis = 1, .keepdims = true}),
                {2, 2, 1}, {1.5, 1.5, 2, 3});
  EXPECT_THAT(error_of<ShapeError>([] { median(zeros({0})); }), HasSubstr("has no elements to choose from"));
  EXPECT_THAT(error_of<Error>([&] { quantile(row, 0.5, {.method = "best"}); }), HasSubstr("got \"best\""));
}

TEST(Cumulative, Operations_RunAlongTheAxis) {
  const Array x = array({{1, 2}, {3, 4}});
  expect(cumsum(x), {4}, {1, 3, 6, 10});
  expect(cumsum(x, 1), {2, 2}, {1, 3, 3, 7});
  expect(cumsum(array({true, true, false})), {3}, {1, 2, 2});
  expect(cumsum(array({1, 2, 3}), {.reverse = true}), {3}, {6, 5, 3});
  expect(cumsum(array(std::vector<std::int8_t>{100, 100})), {2}, {100, -56});
  expect_floats(cumprod(array({1.f, 2.f, 3.f})), {3}, {1, 2, 6});
  expect(cummax(array({1, 3, 2, 5})), {4}, {1, 3, 3, 5});
  expect(cummin(array({1, 3, 2, 5}), {.axis = 0, .reverse = true}), {4}, {1, 2, 2, 5});
  expect_close(cumlogsumexp(array({0.f, 1.f, -kInf, 3.f})),
               {0, 1.3132617473602295f, 1.3132617473602295f, 3.1698460578918457f});
  expect_floats(cumlogsumexp(array({-kInf, -kInf, kInf, kInf})), {4}, {-kInf, -kInf, kInf, kInf});
  expect(diff(array({1, 4, 9, 16}), 2), {2}, {2, 2});
  EXPECT_EQ(cumsum(zeros({0, 2}), 0).shape(), (Shape{0, 2}));
  const Array many = cumsum(ones({100000}, int32));
  EXPECT_EQ(many.to_host<std::int32_t>()[99999], 100000);
  EXPECT_THAT(error_of<ShapeError>([&] { cumsum(x, 2); }), HasSubstr("[cumsum] axis 2"));
}

TEST(Counting, Unique_FillsTheRemainingElements) {
  const Array x = array({3, 1, 1, 2, 3, 7});
  const UniqueResult all = unique_all(x, 5);
  expect(all.values, {5}, {1, 2, 3, 7, 1});
  expect(all.indices, {5}, {1, 3, 0, 5, 1});
  expect(all.inverse_indices, {6}, {2, 0, 0, 1, 2, 3});
  expect(all.counts, {5}, {2, 1, 2, 1, 0});
  expect(unique(x, 5, -1), {5}, {1, 2, 3, 7, -1});
  expect(unique(x, 2), {2}, {1, 2});
  expect_floats(unique(array({kNan, 1.f, kNan}), 3, 0), {3}, {1, kNan, 0});
  expect(unique(zeros({0}, int32), 2), {2}, {0, 0});
}

TEST(Counting, Nonzero_GivesTheIndices) {
  const std::vector<Array> places = nonzero(array({{0, 1}, {2, 0}}), 3, -1);
  ASSERT_EQ(places.size(), 2u);
  expect(places[0], {3}, {0, 1, -1});
  expect(places[1], {3}, {1, 0, -1});
  expect(flatnonzero(array({0, 1, 2, 0, 3}), 2), {2}, {1, 2});
  expect(flatnonzero(array({false, true}), 3), {3}, {1, 0, 0});
  EXPECT_THAT(error_of<ShapeError>([] { nonzero(1, 3); }), HasSubstr("[nonzero] expected one dimension"));
}

TEST(Counting, Bincount_CountsOrSumsWeights) {
  expect(bincount(array({0, 1, 1, 5, -2}), 4), {4}, {2, 2, 0, 0});
  expect_floats(bincount(array({0, 1, 1, 5}), 3, array({0.5f, 1.f, 2.f, 9.f})), {3}, {0.5, 3, 0});
  EXPECT_THAT(error_of<DTypeError>([] { bincount(zeros({2}), 3); }),
              HasSubstr("[bincount] expected whole numbers, got f32[2]"));
  EXPECT_THAT(error_of<ShapeError>([] {
                bincount(array({1, 2}), 3, zeros({3}));
              }),
              HasSubstr("weights of the shape of i32[2], got f32[3]"));
}

TEST(Counting, Segments_AreReducedSeparately) {
  const Array data = array({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}, {7.f, 8.f}, {9.f, 9.f}}),
              ids = array({1, 0, 1, 5, -1});
  expect_floats(segment_sum(data, ids, 3), {3, 2}, {3, 4, 6, 8, 0, 0});
  expect_floats(segment_prod(data, ids, 3), {3, 2}, {3, 4, 5, 12, 1, 1});
  expect_floats(segment_max(data, ids, 3), {3, 2}, {3, 4, 5, 6, -kInf, -kInf});
  expect_floats(segment_min(data, ids, 3), {3, 2}, {3, 4, 1, 2, kInf, kInf});
  expect(segment_max(array({3, 1}), array({0, 0}), 2), {2}, {3, std::numeric_limits<std::int32_t>::min()});
  EXPECT_THAT(error_of<ShapeError>([&] {
                segment_sum(data, array({0, 1}), 2);
              }),
              HasSubstr("[segment_sum] expected a segment for each row of f32[5,2], got i32[2]"));
}

}  // namespace
}  // namespace lockstep
