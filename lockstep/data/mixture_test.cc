// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;

/// Walks two periods and a half, and holds each source's count to its share at every position.
void expect_fair(const Mixture& mixture) {
  const std::uint64_t period = mixture.period();
  std::vector<std::uint64_t> counts(mixture.weights().size());
  for (std::uint64_t k = 0; k < 2 * period + period / 2; ++k) {
    const Mixture::Draw draw = mixture.at(k);
    ASSERT_EQ(draw.count, counts[draw.source]) << k;
    ASSERT_EQ(mixture.position(draw.source, draw.count), k);
    ++counts[draw.source];
    for (std::size_t j = 0; j < counts.size(); ++j) {
      const auto taken = static_cast<std::int64_t>(counts[j] * period),
                 due = static_cast<std::int64_t>((k + 1) * mixture.weights()[j]);
      ASSERT_LT(std::abs(taken - due), static_cast<std::int64_t>(period)) << k << " source " << j;
    }
  }
}

TEST(Mixture, Counts_DifferByAtMostOneFromTheShares_AtEveryPosition) {
  std::mt19937_64 random(1);
  for (std::vector<double> weights : {std::vector<double>{1},
                                      {1, 1},
                                      {0.7, 0.3},
                                      {0.67, 0.15, 0.045, 0.045, 0.045, 0.025, 0.02},
                                      {1, 1, 1, 1, 1, 1, 1},
                                      {1000, 1},
                                      {1.0 / 3, 2.0 / 3},
                                      {3.14159265, 2.71828183, 1.41421356}}) {
    SCOPED_TRACE(::testing::PrintToString(weights));
    expect_fair(Mixture(weights));
  }
  for (int i = 0; i < 200; ++i) {
    std::vector<double> weights(1 + random() % 12);
    for (double& weight : weights) weight = static_cast<double>(1 + random() % 60);
    SCOPED_TRACE(::testing::PrintToString(weights));
    expect_fair(Mixture(weights));
  }
}

TEST(Mixture, DecimalWeights_AreExact_OthersAreRounded) {
  EXPECT_THAT(Mixture({0.7, 0.2, 0.1}).weights(), ElementsAre(7, 2, 1));
  EXPECT_THAT(Mixture({70, 20, 10}).weights(), ElementsAre(7, 2, 1));
  EXPECT_THAT(Mixture({0.5, 0.25, 0.25}).weights(), ElementsAre(2, 1, 1));
  const Mixture thirds({1.0 / 3, 2.0 / 3});
  EXPECT_EQ(std::accumulate(thirds.weights().begin(), thirds.weights().end(), 0u), thirds.period());
  const Mixture rare({1, 1e-9});  // Rounded up to one: nothing is left out for good.
  EXPECT_THAT(rare.weights(), ElementsAre(65535, 1));
}

TEST(Mixture, AFarPosition_IsFoundDirectly) {
  const Mixture mixture({3, 2});
  const std::uint64_t far = 5'000'000'000'000'003;
  EXPECT_EQ(mixture.at(far).count,
            far / 5 * mixture.weights()[mixture.at(far).source] + mixture.at(far % 5).count);
  EXPECT_EQ(mixture.position(mixture.at(far).source, mixture.at(far).count), far);
}

TEST(Mixture, InvalidWeights_AreErrors) {
  for (const std::vector<double>& weights :
       {std::vector<double>{}, {0}, {1, -1}, {std::nan("")}, {1, INFINITY}})
    EXPECT_THROW(Mixture{weights}, DataError);
}

}  // namespace
}  // namespace lockstep::data
