// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(JsonDepth, CountsBracketsOutsideOfStrings) {
  EXPECT_EQ(json_depth(""), 0u);
  EXPECT_EQ(json_depth("3"), 0u);
  EXPECT_EQ(json_depth(R"({"a": [1, [2]], "b": {}})"), 3u);
  EXPECT_EQ(json_depth(R"(["[[[", "\"[[", "\\"])"), 1u);
  EXPECT_EQ(json_depth("]]][[ "), 2u);
  EXPECT_EQ(json_depth(std::string(100'000, '[')), 100'000u);
}

}  // namespace
}  // namespace lockstep
