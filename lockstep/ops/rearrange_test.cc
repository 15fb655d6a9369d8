// SPDX-License-Identifier: Apache-2.0
// The numbers are what JAX 0.10.2 gives for the same lines.

#include "lockstep/ops/rearrange.h"

#include "lockstep/ops/creation.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/test_values.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect;
using test::integers;
using ::testing::HasSubstr;

Array table() { return reshape(arange(6), {2, 3}); }

TEST(Rearrange, FlipRollAndRot90_GiveNumPysValues) {
  const Array y = table();
  expect(flip(y), {2, 3}, {5, 4, 3, 2, 1, 0});
  expect(flip(y, 1), {2, 3}, {2, 1, 0, 5, 4, 3});
  expect(flipud(y), {2, 3}, {3, 4, 5, 0, 1, 2});
  expect(fliplr(y), {2, 3}, {2, 1, 0, 5, 4, 3});
  expect(roll(y, 1), {2, 3}, {5, 0, 1, 2, 3, 4});
  expect(roll(y, -1, 1), {2, 3}, {1, 2, 0, 4, 5, 3});
  expect(roll(y, {1, 1}, {0, 1}), {2, 3}, {5, 3, 4, 2, 0, 1});
  expect(rot90(y), {3, 2}, {2, 5, 1, 4, 0, 3});
  expect(rot90(y, 2), {2, 3}, {5, 4, 3, 2, 1, 0});
  expect(rot90(y, 3), {3, 2}, {3, 0, 4, 1, 5, 2});
  EXPECT_THAT(error_of<ShapeError>([&] { flip(y, 2); }), HasSubstr("[flip] axis 2"));
  EXPECT_THAT(error_of<ShapeError>([&] { flip(y, {0, -2}); }), HasSubstr("[flip] axis 0 is named twice"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                roll(y, {1}, {0, 1});
              }),
              HasSubstr("[roll] expected a shift for each"));
}

TEST(Rearrange, RepeatTileAndAppend_GiveNumPysValues) {
  const Array y = table();
  expect(repeat(y, 2, 1), {2, 6}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  expect(repeat(y, 2), {12}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  expect(tile(y, {2, 1, 2}), {2, 2, 6},
         {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  expect(tile(y, 2), {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  expect(append(array({1, 2}), array({{3}, {4}})), {4}, {1, 2, 3, 4});
  expect(append(y, array({{9}, {9}}), 1), {2, 4}, {0, 1, 2, 9, 3, 4, 5, 9});
  EXPECT_THAT(error_of<ShapeError>([&] { repeat(y, -1); }), HasSubstr("0 or more repeats, got -1"));
}

TEST(Rearrange, DiagDiagonalTraceAndTri_GiveNumPysValues) {
  const Array y = table();
  expect(diag(array({1, 2}), 1), {3, 3}, {0, 1, 0, 0, 0, 2, 0, 0, 0});
  expect(diag(array({1, 2}), -1), {3, 3}, {0, 0, 0, 1, 0, 0, 0, 2, 0});
  expect(diag(y, -1), {1}, {3});
  expect(diagonal(reshape(arange(12), {2, 2, 3}), 0, 1, 2), {2, 2}, {0, 4, 6, 10});
  expect(diagonal(reshape(arange(12), {2, 2, 3})), {3, 2}, {0, 9, 1, 10, 2, 11});
  expect(diagonal(reshape(arange(12), {3, 4}), 1), {3}, {1, 6, 11});
  expect(diagonal(y, 7), {0}, {});
  expect(trace(y), {}, {4});
  expect(tri(2, 3), {2, 3}, {1, 0, 0, 1, 1, 0});
  EXPECT_THAT(error_of<ShapeError>([] {
                diag(zeros({1, 1, 1}));
              }),
              HasSubstr("[diag] expected one or two dimensions, got f32[1,1,1] (at rearrange_test.cc:"));
}

TEST(Rearrange, SplitsAndStacks_GiveNumPysValues) {
  const std::vector<Array> uneven = array_split(arange(7), 3);
  ASSERT_EQ(uneven.size(), 3u);
  expect(uneven[0], {3}, {0, 1, 2});
  expect(uneven[1], {2}, {3, 4});
  expect(uneven[2], {2}, {5, 6});
  const std::vector<Array> parts = split_at(arange(6), {1, 4});
  ASSERT_EQ(parts.size(), 3u);
  expect(parts[0], {1}, {0});
  expect(parts[1], {3}, {1, 2, 3});
  expect(parts[2], {2}, {4, 5});
  const Array row = arange(2);
  expect(hstack({table(), table()}), {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  expect(hstack({row, row}), {4}, {0, 1, 0, 1});
  expect(vstack({row, row}), {2, 2}, {0, 1, 0, 1});
  expect(dstack({row, row}), {1, 2, 2}, {0, 0, 1, 1});
  expect(column_stack({row, row}), {2, 2}, {0, 0, 1, 1});
}

TEST(Rearrange, Meshgrid_GivesCoordinates) {
  const std::vector<Array> grid = meshgrid({arange(2), arange(3)});
  expect(grid[0], {3, 2}, {0, 1, 0, 1, 0, 1});
  expect(grid[1], {3, 2}, {0, 0, 1, 1, 2, 2});
  const std::vector<Array> sparse = meshgrid({arange(2), arange(3)}, {.indexing = "ij", .sparse = true});
  expect(sparse[0], {2, 1}, {0, 1});
  expect(sparse[1], {1, 3}, {0, 1, 2});
  EXPECT_THAT(error_of<ShapeError>([] {
                meshgrid({zeros({1, 1})});
              }),
              HasSubstr("[meshgrid] expected arrays of one dimension, got f32[1,1]"));
}

}  // namespace
}  // namespace lockstep
