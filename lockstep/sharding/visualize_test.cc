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

TEST(ShardingSvg, HasABoxWithDevicesAndProcessesForEachPart) {
  const Mesh mesh = test_mesh({2, 2}, {"dp", "mp"});
  EXPECT_EQ(sharding_svg({4, 4}, NamedSharding(mesh, P("dp"))),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 98 106\" font-family=\"sans-serif\" "
            "font-size=\"14\" text-anchor=\"middle\">\n"
            "<rect x=\"1\" y=\"1\" width=\"96\" height=\"52\" fill=\"#d6e2ff\" stroke=\"#8a93a6\"/>\n"
            "<text x=\"49\" y=\"23\">CPU 0,1</text>\n"
            "<text x=\"49\" y=\"41\" font-size=\"12\">process 0</text>\n"
            "<rect x=\"1\" y=\"53\" width=\"96\" height=\"52\" fill=\"#dff2e3\" stroke=\"#8a93a6\"/>\n"
            "<text x=\"49\" y=\"75\">CPU 2,3</text>\n"
            "<text x=\"49\" y=\"93\" font-size=\"12\">process 1</text>\n"
            "</svg>\n");
}

TEST(ShardingPicture, ThreeSplitDimensions_AreRefused) {
  const Mesh mesh = test_mesh({2, 2, 2}, {"a", "b", "c"});
  EXPECT_THROW(sharding_svg({2, 2, 2}, NamedSharding(mesh, P("a", "b", "c"))), ShardingError);
  EXPECT_THROW(sharding_picture({2, 2, 2}, NamedSharding(mesh, P("a", "b", "c"))), ShardingError);
}

}  // namespace
}  // namespace lockstep
