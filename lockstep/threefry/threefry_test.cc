// SPDX-License-Identifier: Apache-2.0
#include "lockstep/threefry/threefry.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>
#include "lockstep/collectives/test_for_each.h"

namespace lockstep::threefry {
namespace {

using Numbers = std::vector<std::uint32_t>;

using test::in_turn;

/// Random123's kat_vectors: key, counter, words.
TEST(Threefry2x32, KnownInputs_GiveTheWordsOfRandom123) {
  constexpr std::uint32_t kAll = 0xffffffff;
  const struct {
    std::uint32_t key0, key1, count0, count1, first, second;
  } answers[] = {{0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
                 {kAll, kAll, kAll, kAll, 0x1cb996fc, 0xbb002be7},
                 {0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0}};
  for (const auto& a : answers) {
    std::uint32_t first = 0, second = 0;
    threefry2x32({{{&a.key0}, {&a.key1}, {&a.count0}, {&a.count1}}}, &first, &second, 1, in_turn);
    EXPECT_EQ(first, a.first);
    EXPECT_EQ(second, a.second);
  }
}

/// Vectors, their rest, and pieces on threads give what one element after the other does.
TEST(Threefry2x32, ManyElements_EqualEachElementAlone) {
  for (const std::size_t count : {1, 2, 15, 16, 17, 63, 40000}) {
    Numbers words[4], first(count), second(count);
    for (std::uint32_t w = 0; w < 4; ++w)
      for (std::uint32_t i = 0; i < count; ++i) words[w].push_back((w + 1) * 2654435761U * (i + 7));
    for (const bool one_key : {false, true}) {
      const auto of = [&](std::size_t i) -> Operands {
        return {{{words[0].data() + (one_key ? 0 : i), one_key},
                 {words[1].data() + (one_key ? 0 : i), one_key},
                 {words[2].data() + i},
                 {words[3].data() + i}}};
      };
      threefry2x32(of(0), first.data(), second.data(), static_cast<std::int64_t>(count), test::on_threads);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t a = 0, b = 0;
        threefry2x32(of(i), &a, &b, 1, in_turn);
        ASSERT_EQ(std::pair(first[i], second[i]), std::pair(a, b)) << count << ", " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::threefry
