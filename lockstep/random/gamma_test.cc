// SPDX-License-Identifier: Apache-2.0
#include "lockstep/random/gamma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/ops/ops.h"

// Expected numbers are what JAX 0.10.2 gives. Derivatives, vmap and split arrays are in tests/golden/.
namespace lockstep::random {
namespace {

using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void expect_close(const Array& x, const std::vector<float>& expected) {
  const std::vector<float> found = x.to_host<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 5e-6 * (1 + std::abs(expected[i]))) << i;
  }
}

TEST(Gamma, AgreesWithJax_AlsoOfSmallParameters) {
  const Key k = key(42);
  const Array a = array({1e-3f, 0.1f, 0.5f, 50.f});
  expect_close(gamma(k, 2.5, {4}), {0x1.183262p+2, 0x1.80338ap+0, 0x1.0c6c52p+2, 0x1.9076dap+0});
  expect_close(gamma(k, a), {0, 0x1.4879f8p-4, 0x1.a63a8cp+0, 0x1.74434ep+5});
  expect_close(loggamma(k, a), {-0x1.0cf632p+9, -0x1.42fb88p+1, 0x1.003072p-1, 0x1.eb8a52p+1});
}

TEST(Gamma, ANanOrNegativeParameter_GivesNan) {
  for (float x : gamma(key(1), array({kNaN, -2.f}), {3, 2}).to_host<float>()) EXPECT_TRUE(std::isnan(x));
  EXPECT_EQ(gamma(key(1), 2.0, {0, 3}).size(), 0);
}

TEST(Gamma, HasTheDTypeAskedFor) {
  EXPECT_EQ(gamma(key(1), 2.0, {3}, float64).dtype(), float64);
  EXPECT_EQ(beta(key(1), 2.0, 1.0, {3}, bfloat16).dtype(), bfloat16);
  EXPECT_EQ(poisson(key(1), 2.0, {3}, int64).dtype(), int64);
}

TEST(Poisson, AgreesWithJax_OfSmallAndLargeRates) {
  EXPECT_THAT(poisson(key(42), array({0.f, 0.5f, 9.f, 11.f, 500.f})).to_host<std::int32_t>(),
              ::testing::ElementsAre(0, 1, 12, 8, 468));
  EXPECT_EQ(poisson(key(42), kNaN).item<std::int32_t>(), -1);
}

/// Mean and variance of 10,000 numbers are within 5 standard errors of those of the distribution, whose
/// fourth central moment is `fourth`.
TEST(GammaFamily, HasTheMeansAndVariancesOfTheDistributions) {
  struct Case {
    const char* name;
    Array numbers;
    double mean, variance, fourth;
  };
  const Shape n = {10000};
  auto of_gamma = [](double a) { return 3 * a * a + 6 * a; };
  const Case cases[] = {
      {"gamma(3)", gamma(key(1), 3.0, n), 3, 3, of_gamma(3)},
      {"gamma(0.5)", gamma(key(2), 0.5, n), 0.5, 0.5, of_gamma(0.5)},
      {"exp(loggamma(0.5))", exp(loggamma(key(3), 0.5, n)), 0.5, 0.5, of_gamma(0.5)},
      {"beta(2, 3)", beta(key(4), 2.0, 3.0, n), 0.4, 0.04, 33.0 / 8750},
      {"chisquare(4)", chisquare(key(5), 4.0, n), 4, 8, 16 * of_gamma(2)},
      {"t(12)", t(key(6), 12.0, n), 0, 1.2, 1.44 * (3 + 6.0 / 8)},
      {"poisson(4)", poisson(key(7), 4.0, n), 4, 4, 4 * (1 + 3 * 4)},
      {"poisson(30)", poisson(key(8), 30.0, n), 30, 30, 30 * (1 + 3 * 30)},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Array x = astype(c.numbers, float64);
    EXPECT_NEAR(mean(x).item<double>(), c.mean, 5 * std::sqrt(c.variance / 10000));
    EXPECT_NEAR(var(x).item<double>(), c.variance,
                5 * std::sqrt((c.fourth - c.variance * c.variance) / 10000));
  }
}

TEST(Dirichlet, SumsToOne_WithTheMeansOfItsParameters) {
  const Array x = dirichlet(key(9), array({1.f, 2.f, 5.f}), {10000});
  EXPECT_EQ(x.shape(), (Shape{10000, 3}));
  EXPECT_LE(max(abs(sum(x, 1) - 1)).item<float>(), 1e-6);
  const std::vector<float> means = mean(x, 0).to_host<float>();
  const double parts[] = {1, 2, 5};
  for (std::size_t i = 0; i < 3; ++i) {
    const double p = parts[i] / 8;
    EXPECT_NEAR(means[i], p, 5 * std::sqrt(p * (1 - p) / 9 / 10000)) << i;
  }
}

/// Tests of refused arguments, and of the messages.
TEST(GammaFamily, InvalidArguments_AreErrors) {
  const Key k = key(1);
  struct Case {
    std::function<void()> action;
    std::vector<std::string> says;
  };
  const Case cases[] = {
      {[&] { gamma(k, 1.0, {3}, int32); }, {"[random::gamma] expected a floating dtype, got i32"}},
      {[&] { gamma(array({1.f}), 1.0); }, {"[random::gamma] expected a key, u32[2], got f32[1]"}},
      {[&] { gamma(k, 1.0, {-1}); }, {"[random::gamma] expected sizes of 0 or more, got [-1]"}},
      {[&] {
         gamma(k, ones({2, 3}), {3});
       },
       {"[random::gamma] expected parameters that broadcast to the shape [3], got [2,3]"}},
      {[&] { gamma(k, ones({3}), {1}); },
       {"[random::gamma] expected parameters that broadcast to the shape [1], got [3]"}},
      {[&] { beta(k, ones({3}), ones({2})); }, {"[random::beta]", "f32[3]", "f32[2]"}},
      {[&] { dirichlet(k, 1.0); },
       {"[random::dirichlet] expected an alpha for each number along a last dimension, got f32[]"}},
      {[&] { poisson(k, 1.0, {}, float32); }, {"[random::poisson] expected an integer dtype, got f32"}},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    try {
      cases[i].action();
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      for (const std::string& part : cases[i].says) EXPECT_THAT(error.what(), HasSubstr(part));
      EXPECT_THAT(error.what(), HasSubstr("gamma_test.cc:"));
    }
  }
}

}  // namespace
}  // namespace lockstep::random
