// SPDX-License-Identifier: Apache-2.0
// When what is split is gathered: once for a loop, or again for each use where memory is short.

#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <vector>

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/nn/normalization.h"
#include "tests/programs/test_exchanges.h"

namespace lockstep {
namespace {

using test::exchanges;
using test::expect_equal;
using test::line_mesh;
using test::waves;
using ::testing::ElementsAre;

Array over_x(const Array& x, const PartitionSpec& spec) {
  return device_put(x, NamedSharding(line_mesh(), spec));
}

/// Rows of each batch are split; so are the weights', which each product needs whole.
const PartitionSpec kRows = P(none, "x");

auto microbatches() {
  return [](Array w, Array batches) {
    return scan([&](Array sum, Array batch) { return std::pair(sum + mean(matmul(batch, w)), Array(sum)); },
                Array(0.f), batches)
        .first;
  };
}

TEST(Gathered, ALoopsConstant_IsGatheredOnceBeforeTheLoop) {
  const Array w = waves({16, 32}), batches = waves({5, 64, 16}, 2);
  const Array split_w = over_x(w, P("x")), split_batches = over_x(batches, kRows);
  const auto once = jit(microbatches()), each = jit(microbatches(), {.gathered_for_loops_bytes = 0});
  EXPECT_THAT(exchanges(once, split_w, split_batches), ElementsAre("1 x all-gather of 2048 B"));
  EXPECT_THAT(exchanges(each, split_w, split_batches), ElementsAre("5 x all-gather of 2048 B"));
  expect_equal(once(split_w, split_batches), microbatches()(w, batches));
  expect_equal(each(split_w, split_batches), microbatches()(w, batches));
}

TEST(Gathered, ALoopsConstantAboveTheLimit_IsGatheredInEachStep) {
  const Array w = waves({16, 32}), batches = waves({5, 64, 16}, 2);
  const auto all = [&](std::int64_t bytes) {
    return exchanges(jit(microbatches(), {.gathered_for_loops_bytes = bytes}), over_x(w, P("x")),
                     over_x(batches, kRows));
  };
  EXPECT_THAT(all(2047), ElementsAre("5 x all-gather of 2048 B"));
  EXPECT_THAT(all(2048), ElementsAre("1 x all-gather of 2048 B"));
}

/// Out of both loops, out of the inner one where the outer one changes it, and not out of a branch.
TEST(Gathered, NestedLoopsConstant_IsGatheredBeforeTheOutermostPossible) {
  const Array w = waves({8, 8}), x = waves({16, 8}, 2);
  const Array split_w = over_x(w, P("x")), split_x = over_x(x, P("x"));
  auto same = [](Array w, Array x) {
    return fori_loop(
        0, 3,
        [&](Array, Array a) {
          return fori_loop(
              0, 2, [&](Array, Array b) { return tanh(matmul(b, w)); }, a);
        },
        x);
  };
  EXPECT_THAT(exchanges(jit(same), split_w, split_x), ElementsAre("1 x all-gather of 256 B"));
  expect_equal(jit(same)(split_w, split_x), same(w, x));
  auto changed = [](Array w, Array x) {
    return fori_loop(
               0, 3,
               [&](Array, std::pair<Array, Array> a) {
                 const Array next = fori_loop(
                     0, 2, [&](Array, Array b) { return tanh(matmul(b, a.first)); }, a.second);
                 return std::pair(
                     with_sharding_constraint(a.first * 0.5f, NamedSharding(line_mesh(), P("x"))), next);
               },
               std::pair(w, x))
        .second;
  };
  EXPECT_THAT(exchanges(jit(changed), split_w, split_x), ElementsAre("3 x all-gather of 256 B"));
  expect_equal(jit(changed)(split_w, split_x), changed(w, x));
  auto gradient = [&](Array w, Array x) { return grad([&](Array v) { return sum(square(same(v, x))); })(w); };
  expect_equal(jit(gradient)(split_w, split_x), gradient(w, x), 1e-4);
}

/// Eight layers whose weights are split by rows.
auto layers() {
  return [](std::vector<Array> weights, Array x) {
    return value_and_grad([&](const std::vector<Array>& ws) {
      Array h = x;
      for (const Array& w : ws) h = tanh(matmul(h, w));
      return mean(square(h));
    })(weights);
  };
}

TEST(Gathered, WithLittleMemory_WeightsAreGatheredAgainForTheirNextUse) {
  std::vector<Array> weights, split;
  for (int i = 0; i < 20; ++i) {
    weights.push_back(waves({128, 128}, i + 1) * 0.2f);
    split.push_back(over_x(weights.back(), P("x")));
  }
  const Array x = waves({1024, 128}, 9), split_x = over_x(x, P("x"));
  auto with_limit = [](std::int64_t bytes) {
    return jit(layers(), {.out_shardings = {std::nullopt, NamedSharding(line_mesh(), P("x"))},
                          .combine_threshold_bytes = 0,
                          .memory_limit_bytes = bytes});
  };
  const auto kept = with_limit(0), again = with_limit(1 << 20);
  auto gathers = [&](const auto& f) {
    return std::ranges::count_if(exchanges(f, split, split_x), [](const std::string& line) {
      return line.find("all-gather") != line.npos;
    });
  };
  // Both uses of the last layer's weights are near each other; the first layer's are used once.
  EXPECT_EQ(gathers(kept), 20);
  EXPECT_GT(gathers(again), 30);
  const auto less = again.lower(split, split_x).compile().cost(),
             more = kept.lower(split, split_x).compile().cost();
  EXPECT_LT(less.temporary_bytes + (12 << 16), more.temporary_bytes);
  const auto got = again(split, split_x), expected = layers()(weights, x);
  expect_equal(got.first, expected.first);
  for (std::size_t i = 0; i < weights.size(); ++i) expect_equal(got.second[i], expected.second[i]);
  // A limit that is not reached changes nothing.
  EXPECT_EQ(gathers(with_limit(std::int64_t{1} << 30)), 20);
}

/// Only what does not fit; what is gathered in one piece with others is still kept within the limit.
TEST(Gathered, AboveTheKeptLimit_WeightsAreGatheredAgain) {
  std::vector<Array> weights, split;
  for (int i = 0; i < 20; ++i) {
    weights.push_back(waves({128, 128}, i + 1) * 0.2f);
    split.push_back(over_x(weights.back(), P("x")));
  }
  const Array x = waves({1024, 128}, 9), split_x = over_x(x, P("x"));
  const auto expected = layers()(weights, x);
  std::vector<std::size_t> again;
  std::vector<std::int64_t> temporary;
  for (const std::int64_t kept : {64 << 20, 8 << 16, 0}) {
    for (const std::int64_t threshold : {0, 4 << 16}) {
      SCOPED_TRACE(std::to_string(kept) + " kept, combined to " + std::to_string(threshold));
      const auto f = jit(layers(), {.out_shardings = {std::nullopt, NamedSharding(line_mesh(), P("x"))},
                                    .combine_threshold_bytes = threshold,
                                    .kept_gathered_bytes = kept});
      const auto lowered = f.lower(split, split_x);
      std::size_t count = 0;
      for (const auto& line : lowered.communication())
        count += line.reason.find("gathered again") != line.reason.npos;
      if (threshold == 0) {
        again.push_back(count);
        temporary.push_back(lowered.compile().cost().temporary_bytes);
      } else {
        EXPECT_EQ(count, again.back());
      }
      const auto got = f(split, split_x);
      expect_equal(got.first, expected.first);
      for (std::size_t i = 0; i < weights.size(); ++i) expect_equal(got.second[i], expected.second[i]);
    }
  }
  EXPECT_EQ(again[0], 0u);
  EXPECT_GT(again[1], 5u);
  EXPECT_GT(again[2], again[1]);
  EXPECT_LT(temporary[1] + (6 << 16), temporary[0]);
  EXPECT_LE(temporary[2], temporary[1]);
}

// Parameters that are split as a whole tree is, by P("x"): scales and biases are moved, and not the rows that
// they are broadcast to.

TEST(Gathered, NormAndItsGradient_MoveScaleAndBiasNotRows) {
  auto loss = [](Array x, Array w, Array b) { return sum(square(nn::layer_norm(x, w, b))); };
  const Array x = waves({8, 16, 32}), w = waves({32}, 2), b = waves({32}, 3);
  const auto norm = jit([](Array x, Array w, Array b) { return nn::layer_norm(x, w, b); });
  EXPECT_THAT(exchanges(norm, over_x(x, P("x")), over_x(w, P("x")), over_x(b, P("x"))),
              ElementsAre("1 x all-gather of 256 B"));
  expect_equal(norm(over_x(x, P("x")), over_x(w, P("x")), over_x(b, P("x"))), nn::layer_norm(x, w, b));
  const NamedSharding split(line_mesh(), P("x"));
  const auto gradient = jit([&](Array x, Array w, Array b) { return grad<0, 1, 2>(loss)(x, w, b); },
                            {.out_shardings = {split, split, split}});
  EXPECT_THAT(exchanges(gradient, over_x(x, P("x")), over_x(w, P("x")), over_x(b, P("x"))),
              ElementsAre("1 x all-gather of 256 B", "1 x reduce-scatter of 256 B"));
  const auto [gx, gw, gb] = gradient(over_x(x, P("x")), over_x(w, P("x")), over_x(b, P("x")));
  const auto [ex, ew, eb] = grad<0, 1, 2>(loss)(x, w, b);
  expect_equal(gx, ex, 1e-4);
  expect_equal(gw, ew, 1e-4);
  expect_equal(gb, eb, 1e-4);
}

auto stack(bool again) {
  return [again](Array x, Array scales) {
    auto layer = [](Array h, Array w) { return std::pair(h + nn::rms_norm(h, w), std::tuple<>()); };
    const Array last = again ? scan(remat(layer), x, scales).first : scan(layer, x, scales).first;
    return sum(square(last));
  };
}

TEST(Gathered, ScaleOfEachScannedLayer_IsGatheredInsteadOfTheRows) {
  const Array x = waves({8, 16, 32}), scales = waves({5, 32}, 2);
  const auto forwards = jit(stack(false));
  EXPECT_THAT(exchanges(forwards, over_x(x, P("x")), over_x(scales, kRows)),
              ElementsAre("5 x all-gather of 128 B"));
  expect_equal(forwards(over_x(x, P("x")), over_x(scales, kRows)), stack(false)(x, scales));
  for (const bool again : {false, true}) {
    const auto gradient =
        jit([=](Array x, Array scales) { return grad<0, 1>(stack(again))(x, scales); },
            {.out_shardings = {NamedSharding(line_mesh(), P("x")), NamedSharding(line_mesh(), kRows)}});
    for (const auto& line : gradient.lower(over_x(x, P("x")), over_x(scales, kRows)).communication())
      EXPECT_LE(line.bytes, 5 * 128) << line.to_string();
    const auto [gx, gs] = gradient(over_x(x, P("x")), over_x(scales, kRows));
    const auto [ex, es] = grad<0, 1>(stack(again))(x, scales);
    expect_equal(gx, ex, 1e-4);
    expect_equal(gs, es, 1e-4);
  }
}

/// The loop gets the large value, which is made in front of it.
TEST(Gathered, LargeConstantOfALoop_IsBroadcastFromASmallGatheredOne) {
  auto f = [](Array x, Array w) {
    const Array large = broadcast_to(w, {8, 16, 32});
    return fori_loop(
        0, 3, [&](Array, Array h) { return tanh(h * large + 1.f); }, x);
  };
  const Array x = waves({8, 16, 32}), w = waves({32}, 2);
  const auto jitted = jit(f);
  EXPECT_THAT(exchanges(jitted, over_x(x, P("x")), over_x(w, P("x"))),
              ElementsAre("1 x all-gather of 128 B"));
  expect_equal(jitted(over_x(x, P("x")), over_x(w, P("x"))), f(x, w));
}

TEST(Gathered, SmallTable_IsGatheredInsteadOfTheRowsLookedUp) {
  auto f = [](Array x, Array table, Array ids) {
    const Array large = take(table, ids, 0);
    return tanh(with_sharding_constraint(large, NamedSharding(line_mesh(), P(none, none, "x")))) + x * large;
  };
  const Array x = waves({8, 16, 32}), table = waves({2, 32}, 2), ids = astype(waves({8, 16}, 3) > 0, int32);
  const auto jitted = jit(f);
  EXPECT_THAT(exchanges(jitted, over_x(x, P("x")), over_x(table, kRows), over_x(ids, P("x"))).size(), 3);
  expect_equal(jitted(over_x(x, P("x")), over_x(table, kRows), over_x(ids, P("x"))),
               tanh(take(table, ids, 0)) + x * take(table, ids, 0));
}

}  // namespace
}  // namespace lockstep
