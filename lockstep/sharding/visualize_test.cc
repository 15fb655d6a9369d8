// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/visualize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/sharding/test_devices_test.h"

namespace lockstep {
namespace {

using sharding::testing::test_mesh;
using ::testing::HasSubstr;

TEST(ShardingPicture, TwoSplitDimensions_AreDrawnAsATable) {
  const Mesh mesh = test_mesh({2, 2}, {"dp", "mp"});
  EXPECT_EQ(sharding_picture({4, 4}, NamedSharding(mesh, P("dp", "mp"))),
            "┌───────────┬───────────┐\n"
            "│   CPU 0   │   CPU 1   │\n"
            "│ process 0 │ process 0 │\n"
            "├───────────┼───────────┤\n"
            "│   CPU 2   │   CPU 3   │\n"
            "│ process 1 │ process 1 │\n"
            "└───────────┴───────────┘\n");
}

TEST(ShardingPicture, Replicas_ShareABox) {
  const Mesh mesh = test_mesh({2, 4}, {"dp", "mp"});
  EXPECT_EQ(sharding_picture({4, 4}, NamedSharding(mesh, P("dp"))),
            "┌─────────────┐\n"
            "│   CPU 0-3   │\n"
            "│ process 0,1 │\n"
            "├─────────────┤\n"
            "│   CPU 4-7   │\n"
            "│ process 2,3 │\n"
            "└─────────────┘\n");
  EXPECT_EQ(sharding_picture({4}, NamedSharding(mesh, P("dp"))),
            "┌─────────────┬─────────────┐\n"
            "│   CPU 0-3   │   CPU 4-7   │\n"
            "│ process 0,1 │ process 2,3 │\n"
            "└─────────────┴─────────────┘\n");
  EXPECT_THAT(sharding_picture({4}, NamedSharding(mesh, P())), HasSubstr("CPU 0-7"));
}

TEST(ShardingPicture, InColour_HasAColourForEachPart) {
  const Mesh mesh = test_mesh({2, 1}, {"dp", "mp"});
  const std::string picture = sharding_picture({2, 2}, NamedSharding(mesh, P("dp")), {.colour = true});
  EXPECT_THAT(picture, HasSubstr("\x1b[30;44m   CPU 0   \x1b[0m"));
  EXPECT_THAT(picture, HasSubstr("\x1b[30;42m   CPU 1   \x1b[0m"));
}

TEST(ShardingPicture, ThreeSplitDimensions_AreRefused) {
  const Mesh mesh = test_mesh({2, 2, 2}, {"a", "b", "c"});
  EXPECT_THROW(sharding_picture({2, 2, 2}, NamedSharding(mesh, P("a", "b", "c"))), ShardingError);
}

}  // namespace
}  // namespace lockstep
