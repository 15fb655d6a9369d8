// SPDX-License-Identifier: Apache-2.0
// Attention by blocks and as one operation equals the plain one, with its derivatives, and has no array of
// all scores. tests/golden/ compares the plain one with JAX's.

#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"
#include "tests/programs/test_attention.h"

namespace lockstep::attention_tests {
namespace {

using test::error_of;
using test::expect_equal;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Attention, ByBlocks_EqualsPlainAttention) {
  for (const std::int64_t key_heads : {2, 4, 1}) {
    const Sizes s{.key_heads = key_heads};
    for (const Variant& variant : variants(s)) {
      if (key_heads != 2 && variant.name != "bias, mask of queries") continue;
      SCOPED_TRACE(variant.name + ", key heads: " + std::to_string(key_heads));
      const Arrays x = operands(s, variant);
      const Arrays plain = computed(attention(in_blocks(variant.options, 0)), x);
      expect_all_equal(computed(attention(in_blocks(variant.options, 5)), x), plain, 2e-5);
    }
  }
}

TEST(Attention, ByBlocksOfAnySize_EqualsPlainAttention) {
  const Sizes s;
  const nn::AttentionOptions options = {.is_causal = true};
  const Arrays x = operands(s), plain = computed(attention(in_blocks(options, 0)), x);
  for (const std::int64_t block : {1, 12, 22, 23})
    expect_all_equal(computed(attention(in_blocks(options, block)), x), plain, 2e-5);
}

TEST(Attention, ByBlocks_IsAsPreciseAsItsDType) {
  for (const auto& [dtype, tolerance] : {std::pair(float64, 1e-12), {bfloat16, 3e-2}, {float16, 4e-3}}) {
    SCOPED_TRACE(std::string(name(dtype)));
    const Sizes s;
    const Variant variant = {"", {.is_causal = true}, true, {1, 1, s.queries, s.keys}};
    const Arrays x = operands(s, variant, dtype);
    const Arrays plain = computed(attention(in_blocks(variant.options, 0)), x);
    expect_all_equal(computed(attention(in_blocks(variant.options, 5)), x), plain, tolerance);
  }
}

TEST(Attention, SmallSizes_AreComputedWhole_AndLargeOnesByBlocks) {
  auto text = [](std::int64_t queries, std::int64_t keys) {
    const Sizes s{.batch = 1, .queries = queries, .keys = keys, .heads = 1, .key_heads = 1};
    auto f = [](const Array& q, const Array& k, const Array& v) {
      return nn::dot_product_attention(q, k, v);
    };
    return jit(f).lower(operands(s)[0], operands(s)[1], operands(s)[2]).program;
  };
  EXPECT_EQ(largest_array(text(1024, 1024)), 1024 * 1024);
  EXPECT_EQ(largest_array(text(1, 4096)), 4096 * 6);
  EXPECT_THAT(text(1, 4096), ::testing::Not(HasSubstr("scan")));
  EXPECT_EQ(largest_array(text(1025, 1024)), 1025 * 256);
}

TEST(Attention, ByBlocksWithDerivatives_HasNoArrayOfAllScores) {
  const Sizes s{.batch = 1, .queries = 512, .keys = 512, .heads = 2, .key_heads = 1, .features = 4};
  const Arrays x = operands(s);
  auto size_of_largest = [&](std::int64_t block, auto&& derive) {
    return largest_array(jit(derive(attention({.is_causal = true, .block_size = block}))).lower(x).program);
  };
  auto gradients = [](const Attend& f) { return with_gradients(f); };
  auto second = [](const Attend& f) {
    auto first = [f](const Arrays& x) {
      Array total = 0.f;
      for (const Array& g : with_gradients(f)(x)) total = total + sum(g * g);
      return total;
    };
    return [first](const Arrays& x) { return grad(first)(x); };
  };
  const std::int64_t scores = s.heads * s.queries * s.keys;
  EXPECT_EQ(size_of_largest(0, gradients), scores);
  EXPECT_EQ(size_of_largest(32, gradients), scores / 16);
  EXPECT_EQ(size_of_largest(0, second), scores);
  EXPECT_LE(size_of_largest(32, second), scores / 4);
}

TEST(Attention, ByBlocks_HasForwardAndSecondDerivatives) {
  const Sizes s{.batch = 1, .queries = 3, .keys = 7, .heads = 2, .key_heads = 1, .features = 2};
  const Arrays x = operands(s),
               directions = {waves(x[0].shape(), 11), waves(x[1].shape(), 12), waves(x[2].shape(), 13)};
  const Array mask = some_seen({1, 1, s.queries, s.keys});
  auto both = [&](std::int64_t block) {
    const Attend f = attention({.is_causal = true, .mask = mask, .block_size = block});
    auto loss = [f](const Arrays& x) { return sum(f(x) * waves({1, 3, 2, 2}, 5)); };
    auto of_gradients = [loss](const Arrays& x) {
      Array total = 0.f;
      for (const Array& g : grad(loss)(x)) total = total + sum(g * g);
      return total;
    };
    auto run = [&](const Arrays& x, const Arrays& v) {
      Arrays out = {jvp(f, std::tuple(x), std::tuple(v)).second};
      for (const Array& g : grad(of_gradients)(x)) out.push_back(g);
      for (const Array& g : jvp(grad(loss), std::tuple(x), std::tuple(v)).second) out.push_back(g);
      auto along = [&](const Arrays& x) { return sum(jvp(loss, std::tuple(x), std::tuple(v)).second); };
      for (const Array& g : grad(along)(x)) out.push_back(g);
      return out;
    };
    return jit(run)(x, directions);
  };
  expect_all_equal(both(3), both(0), 5e-5);
}

TEST(AttentionAsOneOperation, OfEachKind_EqualsAttentionWrittenOut) {
  for (const KindOfAttention& kind : kinds_of_one_operation()) {
    for (const std::int64_t key_heads : {2, 4}) {
      SCOPED_TRACE(fmt::format("{}, key heads: {}", kind.name, key_heads));
      const Arrays x = operands({.queries = kind.queries, .keys = kind.keys, .key_heads = key_heads});
      const Arrays wanted = computed(written_out(by_mask(kind)), x);
      expect_all_equal(computed(attention(kind.options), x), wanted, 2e-5);
      expect_all_equal(computed(attention(in_blocks(kind.options, 100)), x), wanted, 2e-5);
    }
  }
}

TEST(AttentionAsOneOperation, WithMaskOrBias_EqualsAttentionWrittenOut) {
  for (const std::int64_t key_heads : {2, 4}) {
    const Sizes s{.queries = 140, .keys = 132, .key_heads = key_heads};
    for (const Variant& variant : variants(s)) {
      SCOPED_TRACE(fmt::format("{}, key heads: {}", variant.name, key_heads));
      const Arrays x = operands(s, variant), wanted = computed(written_out(variant.options), x);
      nn::AttentionOptions by_xla = variant.options;
      by_xla.implementation = nn::AttentionImplementation::kXla;
      expect_all_equal(computed(attention(variant.options), x), wanted, 2e-5);
      expect_all_equal(computed(attention(by_xla), x), wanted, 2e-5);
    }
  }
}

TEST(AttentionAsOneOperation, InF64AndHalfPrecision_EqualsAttentionWrittenOut) {
  const KindOfAttention kind{"", {.is_causal = true, .local_window_size = {100, 0}}};
  for (const auto& [dtype, tolerance] : {std::pair(float64, 1e-12), {bfloat16, 3e-2}, {float16, 4e-3}}) {
    SCOPED_TRACE(std::string(name(dtype)));
    const Arrays x = operands({.queries = 260, .keys = 260}, dtype);
    expect_all_equal(computed(attention(kind.options), x), computed(written_out(by_mask(kind)), x),
                     tolerance);
  }
}

/// jvp, derivatives of derivatives in both orders, and gradients by the queries of three examples, with the
/// same keys and with their own.
Arrays further_derivatives(const Attend& f, const Arrays& x) {
  const Arrays directions = {waves(x[0].shape(), 11), waves(x[1].shape(), 12), waves(x[2].shape(), 13)};
  const auto run = [&](const Arrays& x, const Arrays& v) {
    Arrays out = {jvp(f, std::tuple(x), std::tuple(v)).second};
    auto loss = [&](const Arrays& x) { return sum(f(x) * waves(x[0].shape(), 5)); };
    for (const Array& g : jvp(grad(loss), std::tuple(x), std::tuple(v)).second) out.push_back(g);
    auto along = [&](const Arrays& x) { return jvp(loss, std::tuple(x), std::tuple(v)).second; };
    for (const Array& g : grad(along)(x)) out.push_back(g);
    const auto three = [](const Array& x, const Array& v) { return stack({x, v, x * 0.5f}); };
    auto of_queries = [&](const Array& q) { return grad(loss)(Arrays{q, x[1], x[2]}); };
    for (const Array& g : vmap(of_queries)(three(x[0], v[0]))) out.push_back(g);
    auto of_all = [&](const Array& q, const Array& k, const Array& w) { return grad(loss)(Arrays{q, k, w}); };
    for (const Array& g : vmap(of_all)(three(x[0], v[0]), three(x[1], v[1]), three(x[2], v[2])))
      out.push_back(g);
    return out;
  };
  return jit(run)(x, directions);
}

TEST(AttentionAsOneOperation, HasForwardAndSecondDerivatives_AlsoUnderVmap) {
  for (KindOfAttention kind : kinds_of_one_operation()) {
    if (kind.name != "causal" && kind.name != "lengths, window") continue;
    SCOPED_TRACE(kind.name);
    kind.queries = kind.keys = 130;
    const Arrays x = operands({.queries = 130, .keys = 130, .heads = 2, .key_heads = 1, .features = 2});
    const Arrays wanted = further_derivatives(written_out(by_mask(kind)), x);
    expect_all_equal(further_derivatives(attention(kind.options), x), wanted, 5e-5);
    expect_all_equal(further_derivatives(attention(in_blocks(kind.options, 40)), x), wanted, 5e-5);
  }
}

TEST(AttentionAsOneOperation, UnderVmap_StaysOneOperation) {
  const Sizes s{.queries = 130, .keys = 130};
  const Arrays x = operands(s);
  auto each = [](const Array& q, const Array& k, const Array& v) {
    return nn::dot_product_attention(expand_dims(q, 0), expand_dims(k, 0), expand_dims(v, 0),
                                     {.is_causal = true});
  };
  const auto mapped = jit(vmap(each));
  EXPECT_THAT(mapped.lower(x[0], x[1], x[2]).program, HasSubstr(" = attention["));
  expect_equal(squeeze(mapped(x[0], x[1], x[2]), 1), attention({.is_causal = true})(x), 2e-5);
}

/// Gradients for three examples of everything, with terms that are shared and of their own.
TEST(AttentionAsOneOperation, WithMaskAndBiasUnderVmap_EqualsAttentionWrittenOut) {
  const Sizes s{.queries = 130, .keys = 130, .heads = 2, .key_heads = 1, .features = 4};
  const auto three = [](const Array& x) { return stack({x, x * 0.5f, x * -1.f}); };
  const Arrays x = operands(s);
  for (const Shape& shape : {Shape{2, 2, 130, 130}, {1, 2, 130, 130}, {1, 1, 1, 130}, {2, 1, 130, 1}}) {
    SCOPED_TRACE(to_string(shape));
    const Array bias = waves(shape, 7), mask = some_seen(shape);
    const auto gradients = [&](auto&& attend_with) {
      const auto of = [&](const Array& q, const Array& k, const Array& v, const Array& b, const Array& m) {
        auto loss = [&](const Arrays& x) {
          return sum(attend_with(nn::AttentionOptions{.mask = m})(x) * waves(x[0].shape(), 5));
        };
        return grad(loss)(Arrays{q, k, v, b});
      };
      const Array q = three(x[0]), k = three(x[1]), v = three(x[2]);
      Arrays out;
      for (const bool of_bias : {false, true}) {
        for (const bool of_mask : {false, true}) {
          const auto axis = [](bool is_own) { return is_own ? std::optional(0) : std::nullopt; };
          const auto mapped = vmap(of, {.in_axes = {0, 0, 0, axis(of_bias), axis(of_mask)}});
          for (const Array& g :
               mapped(q, k, v, of_bias ? three(bias) : bias, of_mask ? stack({mask, mask, !mask}) : mask))
            out.push_back(g);
        }
      }
      return out;
    };
    expect_all_equal(gradients([](const nn::AttentionOptions& o) { return attention(o); }),
                     gradients([](const nn::AttentionOptions& o) { return written_out(o); }), 5e-5);
  }
}

TEST(Attention, ByBlocksUnderVmap_EqualsPlainAttention) {
  const Sizes s;
  const Arrays x = operands(s);
  auto each = [&](std::int64_t block) {
    auto one = [block](const Array& q, const Array& k, const Array& v) {
      auto loss = [block](const Arrays& x) {
        return sum(square(nn::dot_product_attention(x[0], x[1], x[2], {.block_size = block})));
      };
      return grad(loss)(Arrays{expand_dims(q, 0), expand_dims(k, 0), v});
    };
    return vmap(one, {.in_axes = {0, 0, std::nullopt}})(x[0], x[1], slice(x[2], {0, 0, 0, 0}, {1, 23, 2, 6}));
  };
  expect_all_equal(each(4), each(0), 2e-5);
}

TEST(Attention, AQueryThatSeesNoKey_GetsTheMean_AndNoNaN) {
  const Sizes s{.batch = 1, .queries = 3, .keys = 7, .heads = 1, .key_heads = 1};
  const Arrays x = operands(s);
  auto mean_of_values = [&](const Array& y) {
    const Array mean_value = mean(reshape(x[2], {7, 6}), 0);
    expect_equal(slice(reshape(y, {3, 6}), {2, 0}, {3, 6}), reshape(mean_value, {1, 6}));
  };
  const Array mask = some_seen({1, 1, 3, 7});
  const Array lowest = where(mask, 0.f, std::numeric_limits<float>::lowest());
  const Array infinite = where(some_seen({1, 1, 3, 7}, false), 0.f, -std::numeric_limits<float>::infinity());
  for (const std::int64_t block : {0, 3}) {
    for (const nn::AttentionOptions& options : {nn::AttentionOptions{.mask = mask}, {.bias = lowest}}) {
      const Arrays found = computed(attention(in_blocks(options, block)), x);
      mean_of_values(found[0]);
      for (const Array& each : found) EXPECT_TRUE(all(isfinite(each)).item<bool>());
    }
  }
  expect_all_equal(computed(attention({.bias = infinite, .block_size = 3}), x),
                   computed(attention({.mask = some_seen({1, 1, 3, 7}, false), .block_size = 0}), x), 2e-5);
}

TEST(Attention, ArgumentsThatDoNotFit_AreAnErrorAtTheUsersLine) {
  const Arrays x = operands({});
  auto wrong = [&](const nn::AttentionOptions& options) {
    return error_of<ShapeError>([&] { nn::dot_product_attention(x[0], x[1], x[2], options); });
  };
  EXPECT_THAT(
      wrong({.mask = ones({2, 3, 12, 23}, bool_)}),
      AllOf(HasSubstr("[dot_product_attention] mask bool[2,3,12,23] does not broadcast to [batch, heads, "
                      "queries, keys] = [2,4,12,23]"),
            HasSubstr("attention_test.cc:")));
  EXPECT_THAT(wrong({.bias = ones({1, 1, 1, 1, 1})}), HasSubstr("bias f32[1,1,1,1,1] does not broadcast"));
  EXPECT_THAT(wrong({.block_size = -1}), HasSubstr("expected a block_size of 1 or more, or 0"));
  EXPECT_THAT(error_of<ShapeError>([&] { nn::dot_product_attention(x[0], x[1], x[0]); }),
              HasSubstr("do not fit"));
}

/// Splits of query and of key and value, and the collectives that they need.
struct Placement {
  PartitionSpec query, key;
  bool no_collectives;
};

LOCKSTEP_CHILD(attention_of_eight_devices) {
  initialize();
  const Mesh mesh(devices(), {2, 2, 2}, {"data", "model", "s"});
  const Sizes s{.batch = 4, .queries = 8, .keys = 16, .heads = 8, .key_heads = 4};
  const std::vector<Placement> placements = {
      {P("data"), P("data"), true},
      {P({"data", "s"}), P({"data", "s"}), true},
      {P(none, none, "model"), P(none, none, "model"), true},
      {P("data", none, {"model", "s"}), P("data", none, {"model", "s"}), true},
      {P(none, "s"), P(), false},
      {P(), P(none, {"s", "data"}), false},
      {P("data", "s", "model"), P("data", "s", "model"), false}};
  for (const Variant& variant :
       {Variant{"causal", {.is_causal = true}},
        Variant{"bias and mask", {.mask = some_seen({4, 1, 8, 16})}, true, {1, 8, 8, 16}}}) {
    Sizes sizes = s;
    if (variant.has_bias) sizes.key_heads = sizes.heads;
    const Arrays x = operands(sizes, variant);
    const Attend f = attention(in_blocks(variant.options, 4));
    const Arrays plain = computed(attention(in_blocks(variant.options, 0)), x);
    for (const Placement& each : placements) {
      if (variant.has_bias && each.no_collectives) continue;
      Arrays placed = {device_put(x[0], NamedSharding(mesh, each.query)),
                       device_put(x[1], NamedSharding(mesh, each.key)),
                       device_put(x[2], NamedSharding(mesh, each.key))};
      placed.insert(placed.end(), x.begin() + 3, x.end());
      const std::string what = variant.name + ", " + each.query.to_string() + " and " + each.key.to_string();
      SCOPED_TRACE(what);
      expect_all_equal(computed(f, placed), plain, 2e-5);
      if (each.no_collectives) {
        EXPECT_EQ(jit(f).lower(placed).explain(), "") << what;
      }
    }
  }
  const Sizes of_parts{.batch = 4, .queries = 256, .keys = 256, .heads = 8, .key_heads = 4};
  const Arrays y = operands(of_parts);
  const Array lengths = astype(arange(4) * 60, int32);
  for (const KindOfAttention& kind : {KindOfAttention{"causal", {.is_causal = true}, 256, 256},
                                      {"lengths", {.key_value_seq_lengths = lengths}, 256, 256}}) {
    const Arrays wanted = computed(written_out(by_mask(kind)), y);
    for (const Placement& each : placements) {
      SCOPED_TRACE(fmt::format("as one operation, {}, {} and {}", kind.name, each.query.to_string(),
                               each.key.to_string()));
      const Attend f = attention(kind.options);
      const Arrays placed = {device_put(y[0], NamedSharding(mesh, each.query)),
                             device_put(y[1], NamedSharding(mesh, each.key)),
                             device_put(y[2], NamedSharding(mesh, each.key))};
      expect_all_equal(computed(f, placed), wanted, 2e-5);
      const auto lowered = jit(f).lower(placed);
      if (each.no_collectives) {
        EXPECT_EQ(lowered.explain(), "");
      }
      EXPECT_EQ(lowered.as_text().find("operation = \"attention\"") != std::string::npos,
                each.no_collectives);
    }
  }
  // A bias of all examples gets parts of its cotangent from devices with different examples.
  for (const bool is_of_examples : {false, true}) {
    const Variant variant{
        "", {.mask = some_seen({4, 1, 1, 256})}, true, {is_of_examples ? 4 : 1, 8, 256, 256}};
    const Arrays z = operands(of_parts, variant), wanted = computed(written_out(variant.options), z);
    const auto put = [&](const Array& x, const PartitionSpec& spec) {
      return device_put(x, NamedSharding(mesh, spec));
    };
    const PartitionSpec split = P({"data", "s"});
    const Arrays placed = {put(z[0], split), put(z[1], split), put(z[2], split),
                           put(z[3], is_of_examples ? split : P())};
    const Attend f = attention(variant.options);
    expect_all_equal(computed(f, placed), wanted, 2e-5);
    const auto lowered = jit(with_gradients(f)).lower(placed);
    EXPECT_THAT(lowered.as_text(), AllOf(HasSubstr("operation = \"attention\""),
                                         HasSubstr("operation = \"attention_backward\"")));
    EXPECT_EQ(lowered.explain().find("reduce_sum") != std::string::npos, !is_of_examples);
  }
  const Sizes of_ring{.queries = 16, .keys = 24};
  for (const Variant& variant : variants(of_ring)) {
    if (variant.name != "causal" && variant.name != "bias, mask of queries") continue;
    SCOPED_TRACE(variant.name);
    const Arrays x = operands(of_ring, variant);
    expect_all_equal(computed(ring(ring_mesh(8), variant), x),
                     computed(attention(in_blocks(variant.options, 0)), x), 2e-5);
  }
  // Longer than one device computes at once.
  const Sizes large{.batch = 1, .queries = 2048, .keys = 2048, .heads = 1, .key_heads = 1, .features = 8};
  const Arrays x = operands(large);
  const Arrays by_blocks = computed(attention({.is_causal = true}), x);
  expect_all_equal(computed(ring(ring_mesh(8), {"", {.is_causal = true}}, 100), x), by_blocks, 5e-5);
  expect_all_equal(by_blocks, computed(attention({.is_causal = true, .block_size = 0}), x), 5e-5);
}

TEST(Attention, OverEightDevices_EqualsOneDevice) {
  for (const auto& result : testing::run_processes({.count = 1,
                            .child = "attention_of_eight_devices",
                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "8"}},
                            .coordinator = true,
                            .deadline = std::chrono::minutes(4)})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

}  // namespace
}  // namespace lockstep::attention_tests
