// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/distributions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/ops.h"

// Expected numbers are what JAX 0.10.2 gives.
namespace lockstep::random {
namespace {

void expect_close(const Array& x, const std::vector<float>& expected) {
  const std::vector<float> found = x.to_host<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 2e-6 * (1 + std::abs(expected[i]))) << i;
  }
}

TEST(Distributions, AgreeWithJax) {
  const Key k = key(42);
  expect_close(exponential(k, {4}), {0x1.577564p-1f, 0x1.238870p+0f, 0x1.ea6762p-1f, 0x1.a58698p-1f});
  expect_close(laplace(k, {4}), {0x1.763472p-6f, -0x1.c85968p-2f, -0x1.0f066ap-2f, -0x1.0a89aap-3f});
  expect_close(logistic(k, {4}), {-0x1.720720p-5f, 0x1.817438p-1f, 0x1.e51f54p-2f, 0x1.f658e8p-3f});
  expect_close(cauchy(k, {4}), {-0x1.22b0aap-5f, 0x1.4477c0p-1f, 0x1.879e80p-2f, 0x1.8d74f0p-3f});
  expect_close(pareto(k, 2.0, {3}), {0x1.6604e0p+0f, 0x1.c467acp+0f, 0x1.9d43acp+0f});
  expect_close(weibull_min(k, 2.0, 3.0, {3}), {0x1.c03316p+0f, 0x1.0b55c4p+1f, 0x1.f8b298p+0f});
  expect_close(lognormal(k, 1.0, {3}), {0x1.f1b612p-1f, 0x1.986ce8p+0f, 0x1.581508p+0f});
  EXPECT_THAT(rademacher(k, {6}).to_host<std::int32_t>(), ::testing::ElementsAre(1, -1, -1, -1, 1, -1));
}

TEST(Distributions, CauchyInBf16_GivesJaxsValues) {
  const std::vector<float> found = astype(cauchy(key(8), {3}, bfloat16), float32).to_host<float>();
  const std::vector<float> expected = {-0.75F, -1.015625F, -0.67578125F};
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0.008) << i;  // an ulp
}

TEST(Distributions, HaveTheFloatDTypeAskedFor_AndRefuseIntegers) {
  EXPECT_EQ(exponential(key(1), {3}, float64).dtype(), float64);
  EXPECT_EQ(laplace(key(1), {3}, bfloat16).dtype(), bfloat16);
  EXPECT_THROW(exponential(key(1), {3}, int32), DTypeError);
}

TEST(Dropout, KeepsTheMean_AndDropsElementsAtTheRate) {
  Array x = ones({10000}), y = dropout(key(3), x, 0.25);
  EXPECT_NEAR(mean(y).item<float>(), 1, 0.02);
  EXPECT_NEAR(mean(y == 0).item<float>(), 0.25, 0.015);
  EXPECT_EQ(max(y).item<float>(), 1 / 0.75f);
  EXPECT_EQ(max(abs(dropout(key(3), x, 0.0) - x)).item<float>(), 0);
  EXPECT_THROW(dropout(key(3), x, 1.0), Error);
}

}  // namespace
}  // namespace lockstep::random
