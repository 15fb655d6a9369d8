// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/sort_of_parts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>

namespace lockstep::ir {
namespace {

/// By the 0-1 principle, rounds of merges that sort all parts of zeros and ones sort everything.
TEST(SortOfParts, RoundsOfMerges_SortAnyParts) {
  for (std::int64_t parts = 2; parts <= 12; ++parts) {
    for (std::uint32_t bits = 0; bits < (1U << parts); ++bits) {
      std::uint32_t now = bits;
      for (std::int64_t round = 0; round < num_merge_rounds(parts); ++round) {
        std::uint32_t merging = 0;
        for (const auto& [lower, higher] : merges_of_round(round, parts)) {
          const std::uint32_t low = 1U << lower, high = 1U << higher;
          ASSERT_EQ(merging & (low | high), 0U) << "one of two merges of round " << round << " of " << parts;
          merging |= low | high;
          if ((now & low) != 0 && (now & high) == 0) now ^= low | high;
        }
        ASSERT_NE(merging, 0U);
      }
      const int ones = std::popcount(bits);
      ASSERT_EQ(now, ((1U << ones) - 1U) << (static_cast<int>(parts) - ones)) << parts << " parts, " << bits;
    }
  }
}

TEST(SortOfParts, ReceivesNoMoreThanAnAllGather) {
  for (std::int64_t parts = 2; parts <= 64; ++parts) {
    for (std::size_t operands : {1, 2, 3}) {
      for (std::int64_t keys : {1, 2}) {
        const SortParams params{0, true, std::min<std::int64_t>(keys, static_cast<std::int64_t>(operands)),
                                false};
        std::int64_t elements = 0;
        for (std::size_t i = 0; i < operands; ++i)
          elements += exchanged_by_sort(params, i, operands, parts * 10, parts).elements;
        EXPECT_LE(elements, static_cast<std::int64_t>(operands) * (parts - 1) * 10);
        EXPECT_GE(elements, static_cast<std::int64_t>(operands) * 10);
      }
    }
  }
  const SortParams params{0, true, 1, false};
  EXPECT_EQ(exchanged_by_sort(params, 0, 1, 80, 8).elements, 60);  // 6 rounds
  EXPECT_EQ(exchanged_by_sort(params, 0, 1, 30, 3).collectives, 1);
  // With values that the keys do not tell apart, places are exchanged as well.
  EXPECT_EQ(exchanged_by_sort(params, 0, 2, 640, 64).elements, 2 * 21 * 10);
  EXPECT_EQ(exchanged_by_sort(params, 1, 2, 640, 64).elements, 21 * 10);
}

}  // namespace
}  // namespace lockstep::ir
