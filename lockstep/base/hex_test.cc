// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/hex.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Hex, AnyBytes_AreReadBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(to_hex(all).substr(0, 6), "000102");
  EXPECT_EQ(to_hex("\xff"), "ff");
  EXPECT_EQ(from_hex(to_hex(all)), all);
  EXPECT_EQ(from_hex(""), "");
}

TEST(Hex, RandomTexts_HaveTwoDigitsForEachByte_AndDiffer) {
  const std::string one = random_hex(16);
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(to_hex(from_hex(one)), one);
  EXPECT_NE(one, random_hex(16));
}

}  // namespace
}  // namespace lockstep
