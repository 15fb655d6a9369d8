// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/index_shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

std::vector<std::uint64_t> order(std::uint64_t n, std::uint64_t seed) {
  IndexShuffle shuffle(n, seed);
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < n; ++i) all.push_back(shuffle(i));
  return all;
}

/// Chi-square of counts that should be equal, as the number of its standard deviations from its mean.
double deviations(const std::vector<std::uint64_t>& counts) {
  double total = 0, sum = 0;
  for (std::uint64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  for (std::uint64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    sum += off * off / expected;
  }
  const double freedom = static_cast<double>(counts.size() - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST(IndexShuffle, IsAPermutationOfEverySmallNumber) {
  for (std::uint64_t n = 0; n <= 2000; ++n) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      std::vector<std::uint64_t> all = order(n, seed);
      std::ranges::sort(all);
      for (std::uint64_t i = 0; i < n; ++i) ASSERT_EQ(all[i], i) << n << " seed " << seed;
    }
  }
}

TEST(IndexShuffle, LargeSizes_RepeatNoNumber) {
  for (std::uint64_t n : {std::uint64_t{1} << 20, std::uint64_t{999983}, std::uint64_t{1000000007},
                          (std::uint64_t{1} << 40) + 1, std::uint64_t{1} << 62}) {
    IndexShuffle shuffle(n, 5);
    std::set<std::uint64_t> seen;
    const std::uint64_t count = std::min<std::uint64_t>(n, 60000);
    for (std::uint64_t i = 0; i < count; ++i) {
      // Neighbours at the beginning, in the middle and at the end, where an order of its own may show.
      const std::uint64_t at = i % 3 == 0 ? i / 3 : i % 3 == 1 ? n / 2 + i / 3 : n - 1 - i / 3;
      const std::uint64_t found = shuffle(at);
      ASSERT_LT(found, n);
      ASSERT_TRUE(seen.insert(found).second) << n << " place " << at;
    }
  }
  EXPECT_THROW(IndexShuffle((std::uint64_t{1} << 62) + 1, 0), ShapeError);
}

TEST(IndexShuffle, TheOrder_DependsOnSeedAndSize_AndStaysTheSame) {
  EXPECT_EQ(order(1000, 7), order(1000, 7));
  EXPECT_NE(order(1000, 7), order(1000, 8));
  // Written down: a checkpoint of today must find the same order in a later version.
  EXPECT_EQ(order(5, 1), (std::vector<std::uint64_t>{2, 4, 0, 1, 3}));
  EXPECT_EQ(index_shuffle(0, 129, 1), 66u);
  EXPECT_EQ(index_shuffle(0, 1000000000, 1), 18899430u);
  EXPECT_EQ(index_shuffle(999999999, 1000000000, 1), 741335955u);
}

TEST(IndexShuffle, FewNumbers_TakeEveryOrderEquallyOften) {
  std::map<std::vector<std::uint64_t>, std::uint64_t> counts;
  for (std::uint64_t seed = 0; seed < 24000; ++seed) ++counts[order(4, seed)];
  ASSERT_EQ(counts.size(), 24u);
  std::vector<std::uint64_t> values;
  for (const auto& [order, count] : counts) values.push_back(count);
  EXPECT_LT(std::abs(deviations(values)), 5);
}

TEST(IndexShuffle, FewNumbers_PutNeighboursAtEveryDistanceEquallyOften) {
  // Around the circle, two neighbours end up 1 to n - 1 apart, each as often.
  for (std::uint64_t n : {3, 4, 7, 12, 16, 17, 18, 20, 25, 33, 64, 128, 129, 150}) {
    std::vector<std::uint64_t> distances(n - 1);
    for (std::uint64_t seed = 0; seed < 2000000 / n; ++seed) {
      IndexShuffle shuffle(n, seed);
      for (std::uint64_t i = 0; i < n; ++i) ++distances[(shuffle((i + 1) % n) + n - shuffle(i)) % n - 1];
    }
    if (n > 3) {
      EXPECT_LT(std::abs(deviations(distances)), 5) << n;
    }
  }
  // Every order of up to 5 numbers, and every pair at the front of up to 20, each as often.
  for (std::uint64_t n = 2; n <= 20; ++n) {
    std::map<std::vector<std::uint64_t>, std::uint64_t> counts;
    for (std::uint64_t seed = 0; seed < 60000; ++seed) {
      IndexShuffle shuffle(n, seed);
      std::vector<std::uint64_t> key;
      for (std::uint64_t i = 0; i < (n <= 5 ? n : 2); ++i) key.push_back(shuffle(i));
      ++counts[key];
    }
    std::vector<std::uint64_t> values;
    for (const auto& [key, count] : counts) values.push_back(count);
    EXPECT_EQ(values.size(), n <= 5 ? std::tgamma(static_cast<double>(n) + 1) : n * (n - 1)) << n;
    if (n > 2) {
      EXPECT_LT(std::abs(deviations(values)), 5) << n;
    }
  }
}

TEST(IndexShuffle, EachPlace_HoldsEachNumberEquallyOften) {
  for (std::uint64_t n : {std::uint64_t{17}, std::uint64_t{30}, std::uint64_t{64}, std::uint64_t{97}}) {
    std::vector<std::uint64_t> counts(n * n);
    for (std::uint64_t seed = 0; seed < 20000; ++seed) {
      IndexShuffle shuffle(n, seed);
      for (std::uint64_t i = 0; i < n; ++i) ++counts[i * n + shuffle(i)];
    }
    EXPECT_LT(std::abs(deviations(counts)), 5) << n;
  }
}

TEST(IndexShuffle, Neighbours_ComeToEveryDistanceEquallyOften) {
  // How far, around the circle, what stands beside each other was apart before: every distance is as likely.
  for (std::uint64_t n : {std::uint64_t{1009}, std::uint64_t{100000}, std::uint64_t{1} << 33}) {
    std::vector<std::uint64_t> counts(50);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      IndexShuffle shuffle(n, seed);
      for (std::uint64_t i = 0; i + 1 < std::min<std::uint64_t>(n, 10000); ++i) {
        const std::uint64_t apart = (shuffle(i + 1) + n - shuffle(i)) % n - 1;  // 0 to n - 2
        ++counts[static_cast<std::size_t>(static_cast<unsigned __int128>(apart) * 50 / (n - 1))];
      }
    }
    EXPECT_LT(std::abs(deviations(counts)), 5) << n;
  }
}

}  // namespace
}  // namespace lockstep::data
