// SPDX-License-Identifier: Apache-2.0
// The expected values are computed here, one logit after the other, as the logits processors of Hugging
// Face's transformers define them.
#include "lockstep/nn/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/array/host.h"
#include "lockstep/array/make_array.h"
#include "lockstep/base/error.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"
#include "lockstep/random/random.h"

namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::vector<double>;

constexpr double kOut = -std::numeric_limits<double>::infinity();
constexpr std::size_t kTokens = 50;

/// Logits of three examples, from -6 to 6, in no order.
std::vector<Row> example_logits() {
  std::vector<Row> rows(3, Row(kTokens));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < kTokens; ++j)
      rows[i][j] = static_cast<float>(6 * std::sin(1.7 * static_cast<double>((i + 1) * (j + 1) * (j + 3))));
  }
  return rows;
}

Array as_array(const std::vector<Row>& rows) {
  std::vector<float> all;
  for (const Row& row : rows) all.insert(all.end(), row.begin(), row.end());
  return array(all, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())});
}

Row probabilities(const Row& logits) {
  const double most = *std::ranges::max_element(logits);
  Row all;
  for (double x : logits) all.push_back(std::exp(x - most));
  const double total = std::accumulate(all.begin(), all.end(), 0.0);
  for (double& p : all) p /= total;
  return all;
}

/// The tokens from the least likely to the likeliest.
std::vector<std::size_t> by_likelihood(const Row& logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] < logits[b]; });
  return order;
}

Row top_k_of(Row logits, std::size_t k) {
  const std::vector<std::size_t> order = by_likelihood(logits);
  for (std::size_t i = 0; i + k < order.size(); ++i) logits[order[i]] = kOut;
  return logits;
}

Row top_p_of(Row logits, double top_p) {
  const Row p = probabilities(logits);
  const std::vector<std::size_t> order = by_likelihood(logits);
  double sum = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    sum += p[order[i]];
    if (sum <= 1 - top_p) logits[order[i]] = kOut;
  }
  return logits;
}

Row min_p_of(Row logits, double min_p) {
  const Row p = probabilities(logits);
  const double most = *std::ranges::max_element(p);
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] < min_p * most) logits[i] = kOut;
  }
  return logits;
}

Row penalized(Row logits, const std::vector<std::size_t>& seen, double penalty) {
  for (std::size_t i : seen) logits[i] = logits[i] < 0 ? logits[i] * penalty : logits[i] / penalty;
  return logits;
}

void expect_rows(const Array& found, const std::vector<Row>& expected) {
  const std::vector<float> all = found.to_host<float>();
  ASSERT_EQ(all.size(), expected.size() * kTokens);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double x = expected[i / kTokens][i % kTokens];
    if (x == kOut) {
      EXPECT_EQ(all[i], kOut) << i;
    } else {
      EXPECT_NEAR(all[i], x, 1e-5) << i;
    }
  }
}

template <class F>
std::vector<Row> each_row(const std::vector<Row>& rows, F f) {
  std::vector<Row> all;
  for (const Row& row : rows) all.push_back(f(row));
  return all;
}

TEST(Sampling, TopK_KeepsTheKLargestLogits) {
  const std::vector<Row> rows = example_logits();
  for (std::size_t k : {1, 7, 50, 60}) {
    expect_rows(keep_top_k(as_array(rows), static_cast<std::int64_t>(k)),
                each_row(rows, [&](const Row& row) { return top_k_of(row, k); }));
  }
  // Of equal logits at the border all stay.
  EXPECT_THAT(keep_top_k(array(std::vector<float>{1, 3, 2, 2}), 2).to_host<float>(),
              ElementsAre(kOut, 3, 2, 2));
}

TEST(Sampling, TopP_KeepsTheLikeliestTokensWithThatTotalProbability) {
  const std::vector<Row> rows = example_logits();
  for (double p : {0.0, 0.1, 0.5, 0.83, 0.99, 1.0}) {
    expect_rows(keep_top_p(as_array(rows), p),
                each_row(rows, [&](const Row& row) { return top_p_of(row, p); }));
  }
}

TEST(Sampling, MinP_DropsTokensBelowThatShareOfTheLargestProbability) {
  const std::vector<Row> rows = example_logits();
  for (double p : {0.0, 0.02, 0.3, 1.0}) {
    expect_rows(keep_min_p(as_array(rows), p),
                each_row(rows, [&](const Row& row) { return min_p_of(row, p); }));
  }
}

TEST(Sampling, RepetitionPenalty_MakesEarlierTokensLessLikely) {
  const std::vector<Row> rows = example_logits();
  // The last token of the second example is padding, and a token may occur twice.
  const Array tokens = array(std::vector<std::int32_t>{3, 3, 49, 0, 1, 7, -1, 20, 21}, {3, 3});
  const Array seen = seen_tokens(tokens, kTokens, array(std::vector<std::int32_t>{3, 2, 3}));
  expect_rows(
      repetition_penalty(as_array(rows), seen, 1.3),
      {penalized(rows[0], {3, 49}, 1.3), penalized(rows[1], {0, 1}, 1.3), penalized(rows[2], {20, 21}, 1.3)});
}

TEST(Sampling, AllOptionsTogether_AreAppliedInHuggingFacesOrder) {
  const std::vector<Row> rows = example_logits();
  const Array seen = seen_tokens(array(std::vector<std::int32_t>{1, 2, 3}, {3, 1}), kTokens);
  const SamplingOptions options{.do_sample = true,
                                .temperature = 2.5,
                                .top_k = 20,
                                .top_p = 0.85,
                                .min_p = 0.25,
                                .repetition_penalty = 1.5};
  std::vector<Row> expected;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row row = penalized(rows[i], {i + 1}, 1.5);
    for (double& x : row) x /= 2.5;
    expected.push_back(min_p_of(top_p_of(top_k_of(row, 20), 0.85), 0.25));
  }
  expect_rows(sampling_logits(as_array(rows), options, seen), expected);
}

TEST(Sampling, WithoutDoSample_TheTokenOfTheLargestLogitIsTaken) {
  const std::vector<Row> rows = example_logits();
  std::vector<std::int32_t> largest;
  for (const Row& row : rows)
    largest.push_back(static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin()));
  EXPECT_EQ(sample(as_array(rows), {.temperature = 9, .top_k = 3}).to_host<std::int32_t>(), largest);
  EXPECT_EQ(sample(astype(as_array(rows), DType::kBF16), {}).dtype(), DType::kI32);
}

TEST(Sampling, DrawnTokens_HaveTheProbabilitiesOfTheirLogits) {
  constexpr std::int64_t kDraws = 20000;
  const Row row = example_logits()[1];
  const SamplingOptions options{.do_sample = true, .temperature = 1.5, .top_k = 12, .top_p = 0.95};
  Row warm = row;
  for (double& x : warm) x /= 1.5;
  const Row p = probabilities(top_p_of(top_k_of(warm, 12), 0.95));
  const Array drawn = sample(broadcast_to(as_array({row}), {kDraws, static_cast<std::int64_t>(kTokens)}),
                             options, random::key(5));
  Row counts(kTokens);
  for (std::int32_t token : drawn.to_host<std::int32_t>()) ++counts[static_cast<std::size_t>(token)];
  double chi_squared = 0;
  int kept = 0;
  for (std::size_t i = 0; i < kTokens; ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(counts[i], 0) << i;
      continue;
    }
    const double expected = p[i] * static_cast<double>(kDraws);
    chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++kept;
  }
  EXPECT_GE(kept, 5);
  EXPECT_LT(chi_squared, 31.3) << kept << " tokens";  // of 11 degrees of freedom, 1 in 1000
}

TEST(Sampling, NumbersOutOfRange_AreErrors) {
  const Array logits = zeros({2, 4});
  auto message = [&](const SamplingOptions& options) -> std::string {
    try {
      sample(logits, options, random::key(0), zeros({2, 4}, DType::kBool));
      return "none";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message({.do_sample = true, .temperature = 0}),
              HasSubstr("[nn::sample] expected a temperature above 0, got 0"));
  EXPECT_THAT(message({.do_sample = true, .top_k = -1}), HasSubstr("expected a top_k of at least 0, got -1"));
  EXPECT_THAT(message({.do_sample = true, .top_p = 1.5}), HasSubstr("expected a top_p from 0 to 1, got 1.5"));
  EXPECT_THAT(message({.do_sample = true, .min_p = -1}), HasSubstr("expected a min_p from 0 to 1, got -1"));
  EXPECT_THAT(message({.repetition_penalty = 0}), HasSubstr("expected a repetition_penalty above 0, got 0"));
  EXPECT_THROW(sample(logits, {.repetition_penalty = 2}), Error);
  EXPECT_THROW(sample(logits, {.do_sample = true}), Error);
  EXPECT_THROW(sample(zeros({2, 4}, DType::kI32), {}), DTypeError);
  EXPECT_THROW(sample(zeros({}), {}), ShapeError);
  EXPECT_THROW(seen_tokens(zeros({2}, DType::kI32), 4), ShapeError);
}

}  // namespace
}  // namespace lockstep::nn
