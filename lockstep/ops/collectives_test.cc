// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/collectives.h"

#include "lockstep/array/trace.h"
#include "lockstep/ops/test_values.h"
#include "lockstep/program/axis_env.h"

namespace lockstep {
namespace {

using test::error_of;
using ::testing::HasSubstr;

Aval per_device(Shape shape) { return {float32, std::move(shape), false, {"i"}}; }

/// The result of `operation` for a local value of this shape, under a mesh axis "i" of 4 devices.
Aval result_of(Shape shape, const std::function<Array(const Array&)>& operation) {
  ir::AxisEnvScope mesh(ir::AxisEnv({{"i", 4}}));
  Trace trace("f");
  return operation(trace.input(per_device(std::move(shape)))).aval();
}

TEST(Collectives, Shapes_AreThoseOfJax) {
  EXPECT_EQ(result_of({8, 3}, [](const Array& x) { return psum(x, "i"); }).shape, (Shape{8, 3}));
  EXPECT_TRUE(result_of({3}, [](const Array& x) { return pmean(x, "i"); }).varying.empty());
  EXPECT_EQ(result_of({3}, [](const Array& x) { return pmax(x, "i") - pmin(x, "i"); }).shape, (Shape{3}));
  EXPECT_EQ(result_of({8, 3}, [](const Array& x) { return all_gather(x, "i"); }).shape, (Shape{4, 8, 3}));
  EXPECT_EQ(result_of({8, 3}, [](const Array& x) { return all_gather(x, "i", {.axis = -1}); }).shape,
            (Shape{8, 3, 4}));
  EXPECT_EQ(result_of({8, 3}, [](const Array& x) { return all_gather(x, "i", {.tiled = true}); }).shape,
            (Shape{32, 3}));
  EXPECT_EQ(result_of({4, 3}, [](const Array& x) { return psum_scatter(x, "i"); }).shape, (Shape{3}));
  EXPECT_EQ(result_of({8, 3}, [](const Array& x) { return psum_scatter(x, "i", {.tiled = true}); }).shape,
            (Shape{2, 3}));
  EXPECT_EQ(result_of({8, 3}, [](const Array& x) { return all_to_all(x, "i", 0, 1); }).shape, (Shape{2, 12}));
  EXPECT_EQ(result_of({8},
                      [](const Array& x) {
                        return ppermute(x, "i", {{0, 1}, {1, 0}});
                      })
                .shape,
            (Shape{8}));
  EXPECT_EQ(result_of({8}, [](const Array&) { return axis_index("i"); }).dtype, int32);
}

TEST(Collectives, PsumOfANumber_IsAScalar_AndAxisSizeCountsDevices) {
  ir::AxisEnvScope mesh(ir::AxisEnv({{"i", 4}}));
  EXPECT_EQ(axis_size("i"), 4);
  Trace trace("f");
  EXPECT_EQ(psum(1, "i").shape(), Shape{});
}

TEST(Collectives, OutsideOfAMesh_AreErrorsAtTheUsersLine) {
  std::string message = error_of<ShardingError>([] { psum(1.0, "i"); });
  EXPECT_THAT(message,
              HasSubstr("[psum] is called outside of shard_map, pmap and vmap (at collectives_test.cc:"));
  EXPECT_THROW(axis_index("i"), ShardingError);
}

TEST(Collectives, AMissingAxisOrDimension_IsAnError) {
  EXPECT_THROW(result_of({8}, [](const Array& x) { return psum(x, "model"); }), ShardingError);
  EXPECT_THROW(result_of({8}, [](const Array& x) { return all_gather(x, "i", {.axis = 5}); }), ShapeError);
  EXPECT_THROW(result_of({8}, [](const Array& x) { return psum_scatter(x, "i"); }), ShapeError);
}

}  // namespace
}  // namespace lockstep
