// SPDX-License-Identifier: Apache-2.0
// The numbers are what JAX 0.10.2 gives for the same lines.

#include "lockstep/ops/indexing.h"

#include "lockstep/ops/creation.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect;
using test::floats;
using test::integers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Array cube() { return reshape(arange(24), {2, 3, 4}); }
Array ids() { return array({2, 0, -1}); }
Array pair() { return array({{0, 1}, {1, 0}}); }

TEST(Indexing, NumbersAndSlices_FollowNumPy) {
  const Array x = cube();
  expect(x[1], {3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  expect(x[{-1, slice(0, 2), slice(none, none, 2)}], {2, 2}, {12, 14, 16, 18});
  expect(x[{ellipsis, 1}], {2, 3}, {1, 5, 9, 13, 17, 21});
  expect(x[{slice(), newaxis, slice(1, none), -1}], {2, 1, 2}, {7, 11, 19, 23});
  expect(x[{0, slice(none, none, -1), slice(3, 0, -2)}], {3, 2}, {11, 9, 7, 5, 3, 1});
  expect(x[{slice(), slice(2, 1)}], {2, 0, 4}, {});
  expect(x[{slice(-100, 100), 0, slice(-1, none)}], {2, 1}, {3, 15});
  expect(x[{1, 2, 3}], {}, {23});
}

TEST(Indexing, EachIndex_ReadsAndWritesItsOwnRow) {
  Array x = reshape(arange(6), {3, 2});
  for (std::int32_t i = 0; i < 3; ++i) expect(x[i], {2}, {2 * i, 2 * i + 1});
  for (std::int32_t i = 0; i < 3; ++i) x = x.at({i, -1}).add(10 * i);
  expect(x, {3, 2}, {0, 1, 2, 13, 4, 25});
}

TEST(Indexing, IndexArrays_GiveDimensionsAtTheFirstOnesPlace) {
  const Array x = cube();
  expect(x[{slice(), ids()}], {2, 3, 4},
         {8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11, 20, 21, 22, 23, 12, 13, 14, 15, 20, 21, 22, 23});
  expect(x[{pair(), slice(), 1}], {2, 2, 3}, {1, 5, 9, 13, 17, 21, 13, 17, 21, 1, 5, 9});
  expect(x[{0, slice(), ids()}], {3, 3}, {2, 6, 10, 0, 4, 8, 3, 7, 11});
  expect(x[{slice(), ids(), ids()}], {2, 3}, {10, 0, 11, 22, 12, 23});
  expect(x[{pair(), ids()[{slice(0, 1)}], newaxis, slice(1, 3)}], {2, 2, 1, 2},
         {9, 10, 21, 22, 21, 22, 9, 10});
  expect(x[{slice(), newaxis, ids(), 1}], {2, 1, 3}, {9, 1, 9, 21, 13, 21});
  expect(arange(3)[{ids(), newaxis}], {3, 1}, {2, 0, 2});
  expect(x[Array(1)], {3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  expect(x[{slice(), astype(ids(), int8), 0}], {2, 3}, {8, 0, 8, 20, 12, 20});
}

TEST(Indexing, ArraysOutOfBounds_AreClippedFilledOrDropped) {
  const Array far = array({7, -7});
  expect(cube()[{slice(), far, 0}], {2, 2}, {8, 0, 20, 12});
  const Array x = arange(3, float32);
  EXPECT_THAT(floats(x.at(array({5, 1})).get({.mode = GatherScatterMode::kFillOrDrop, .fill_value = -1})),
              ElementsAre(-1, 1));
  EXPECT_TRUE(std::isnan(floats(x.at(far).get({.mode = GatherScatterMode::kFillOrDrop}))[0]));
  expect(arange(3).at(far).set(9), {3}, {0, 1, 2});
  expect(zeros({3}, int32).at(array({5})).set(7, {.mode = GatherScatterMode::kClip}), {3}, {0, 0, 7});
}

TEST(Indexing, At_WritesIntoACopy) {
  const Array y = zeros({3, 4}, int32);
  expect(y.at({1, slice(1, none)}).set(5), {3, 4}, {0, 0, 0, 0, 0, 5, 5, 5, 0, 0, 0, 0});
  expect(y.at(array({0, 0, 2, 9})).add(arange(4)), {3, 4}, {0, 2, 4, 6, 0, 0, 0, 0, 0, 1, 2, 3});
  expect(arange(6).at(slice(none, none, 2)).multiply(10), {6}, {0, 1, 20, 3, 40, 5});
  expect(zeros({5}, int32).at(slice(3, 0, -1)).set(array({1, 2, 3})), {5}, {0, 3, 2, 1, 0});
  expect(y.at({slice(1, none), array({3, 0})}).set(array({{1, 2}, {3, 4}})), {3, 4},
         {0, 0, 0, 0, 2, 0, 0, 1, 4, 0, 0, 3});
  expect(array({1, 5, 3}).at(array({0, 0, 1})).max(array({4, 2, 4})), {3}, {4, 5, 3});
  expect(array({1, 5, 3}).at(array({0, 0, 1})).min(array({4, 2, 4})), {3}, {1, 4, 3});
  expect(y.at({0, array({1, 2})}).add(array({7, 8})), {3, 4}, {0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  expect(y.at({newaxis, slice(), array({1, 0})}).set(reshape(arange(6), {1, 3, 2})), {3, 4},
         {1, 0, 0, 0, 3, 2, 0, 0, 5, 4, 0, 0});
  expect(y, {3, 4}, std::vector<std::int32_t>(12, 0));
}

TEST(Indexing, Take_ReadsAlongAnAxis) {
  const Array x = cube(), table = reshape(arange(6), {2, 3});
  expect(take(x, pair(), 1)[{0, 1}], {2, 4}, {4, 5, 6, 7, 0, 1, 2, 3});
  expect(take(x, array({23, -1, 5})), {3}, {23, 23, 5});
  expect(take(arange(3), array({7, 1})), {2}, {std::numeric_limits<std::int32_t>::min(), 1});
  expect(take_along_axis(table, array({{2, 0}, {1, 1}}), 1), {2, 2}, {2, 0, 4, 4});
  expect(take_along_axis(table, array({{2}})), {2, 1}, {2, 5});
  expect(put_along_axis(zeros({2, 3}, int32), array({{2}, {0}}), 9), {2, 3}, {0, 0, 9, 9, 0, 0});
}

TEST(Indexing, InvalidIndices_AreErrorsAtTheUsersLine) {
  const Array x = cube();
  EXPECT_THAT(error_of<ShapeError>([&] { x[2]; }),
              HasSubstr("[index] index 2 is out of range for dimension 0 of i32[2,3,4], which has size 2 (at "
                        "indexing_test.cc:"));
  EXPECT_THAT(
      error_of<ShapeError>([&] {
        x[{0, 0, 0, 0}];
      }),
      HasSubstr("[index] got 4 indices for i32[2,3,4], which has 3 dimensions (at indexing_test.cc:"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                x[{ellipsis, ellipsis}];
              }),
              HasSubstr("one ellipsis at most, got 2"));
  EXPECT_THAT(error_of<ShapeError>([&] { x[slice(0, 2, 0)]; }), HasSubstr("step other than 0"));
  EXPECT_THAT(error_of<DTypeError>([&] {
                x[array({true, false})];
              }),
              HasSubstr("[index] an array of bools chooses a number of elements that is not known when it is "
                        "traced"));
  EXPECT_THAT(error_of<DTypeError>([&] { x[array({2}) / 2]; }),
              AllOf(HasSubstr("expected whole numbers as indices, got f32[1]"),
                    HasSubstr("divide integers with floor_divide")));
  EXPECT_THAT(error_of<ShapeError>([&] { x.at(0).set(zeros({2}, int32)); }),
              HasSubstr("[at.set] shapes i32[3,4] and i32[2] do not broadcast"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                x.at({0, 0}).set(zeros({2, 4}, int32));
              }),
              HasSubstr("[at.set] values of i32[2,4] do not broadcast to the part of i32[2,3,4], whose shape "
                        "is [4] (at indexing_test.cc:"));
  EXPECT_THAT(error_of<DTypeError>([&] { x.at(0).add(zeros({4})); }),
              HasSubstr("[at.add] values of f32[4] do not fit into i32[2,3,4]"));
  EXPECT_THAT(error_of<ShapeError>([&] { take_along_axis(x, array({1})); }),
              HasSubstr("[take_along_axis] expected indices of the 3 dimensions of i32[2,3,4], got i32[1]"));
  EXPECT_THAT(error_of<ShapeError>([&] { take(x, array({1}), 3); }), HasSubstr("[take] axis 3"));
}

}  // namespace
}  // namespace lockstep
