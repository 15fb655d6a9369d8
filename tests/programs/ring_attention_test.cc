// SPDX-License-Identifier: Apache-2.0
// Ring attention equals plain attention, with its derivatives, and has no array of all scores.

#include "lockstep/base/error.h"
#include "lockstep/jit/derivatives.h"
#include "tests/programs/test_attention.h"

namespace lockstep::attention_tests {
namespace {

using test::error_of;
using test::expect_equal;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RingAttention, OneTwoOrFourDevices_EqualPlainAttention) {
  const Sizes s{.queries = 8, .keys = 12};
  for (const Variant& variant : variants(s)) {
    SCOPED_TRACE(variant.name);
    const Arrays x = operands(s, variant);
    const Arrays plain = computed(attention(in_blocks(variant.options, 0)), x);
    expect_all_equal(computed(ring(ring_mesh(4), variant), x), plain, 2e-5);
    if (variant.name != "bias, mask of queries") continue;
    expect_all_equal(computed(ring(ring_mesh(4), variant, 2), x), plain, 2e-5);
    expect_all_equal(computed(ring(ring_mesh(2), variant), x), plain, 2e-5);
    expect_all_equal(computed(ring(ring_mesh(1), variant), x), plain, 2e-5);
  }
}

TEST(RingAttention, IsAsPreciseAsItsDType) {
  const Sizes s{.queries = 8, .keys = 8};
  for (const auto& [dtype, tolerance] : {std::pair(float64, 1e-12), {bfloat16, 3e-2}}) {
    SCOPED_TRACE(std::string(name(dtype)));
    const Variant variant = {"", {.is_causal = true}};
    const Arrays x = operands(s, dtype);
    expect_all_equal(computed(ring(ring_mesh(4), variant), x),
                     computed(attention(in_blocks(variant.options, 0)), x), tolerance);
  }
}

TEST(RingAttention, WithASplitBatch_EqualsPlainAttention) {
  const Mesh mesh(devices(), {2, 2}, {"data", "s"});
  const Sizes s{.queries = 8, .keys = 8};
  const Arrays x = operands(s);
  auto whole = [&](const Arrays& x) {
    auto local = [](const Array& q, const Array& k, const Array& v) {
      return nn::ring_attention(q, k, v, "s", {.is_causal = true});
    };
    return shard_map(local, {.mesh = mesh, .in_specs = {P("data", "s")}, .out_specs = {P("data", "s")}})(
        x[0], x[1], x[2]);
  };
  expect_all_equal(computed(whole, x), computed(attention({.is_causal = true}), x), 2e-5);
}

TEST(RingAttention, HoldsNoArrayLargerThanADevicesScores) {
  const Sizes s{.batch = 1, .queries = 256, .keys = 256, .heads = 2, .key_heads = 2, .features = 8};
  Arrays x = operands(s);
  for (Array& each : x) each = device_put(each, NamedSharding(ring_mesh(4), P(none, "s")));
  auto loss = [f = ring(ring_mesh(4), {"", {.is_causal = true}}, 16)](const Arrays& x) {
    return sum(square(f(x)));
  };
  // The scores of a device's 64 queries with 16 keys; its part of the query has half as many elements.
  EXPECT_EQ(largest_array(jit(grad(loss)).lower(x).partitioned), s.heads * 64 * 16);
}

TEST(RingAttention, SendsTheExpectedBytesOfPartsAndCotangents) {
  const Sizes s{.batch = 1, .queries = 8, .keys = 8, .heads = 1, .key_heads = 1, .features = 2};
  std::int64_t sent = 0;
  for (const auto& line :
       jit(with_gradients(ring(ring_mesh(4), {"", {}}))).lower(operands(s)).communication())
    sent += line.total_bytes();
  // Parts of 2 * 2 f32: key and value three times each way, their cotangents four times.
  EXPECT_EQ(sent, 16 * (2 * 3 + 2 * 3 + 2 * 4));
}

TEST(RingAttention, HasSecondDerivatives_ButNoForwardDerivative) {
  const Sizes s{.batch = 1, .queries = 4, .keys = 4, .heads = 1, .key_heads = 1, .features = 2};
  const Arrays x = operands(s);
  auto second = [](const Attend& f) {
    auto of_gradients = [f](const Arrays& x) {
      Array total = 0.f;
      for (const Array& g : with_gradients(f)(x)) total = total + sum(g * g);
      return total;
    };
    return [of_gradients](const Arrays& x) { return grad(of_gradients)(x); };
  };
  const Attend around = ring(ring_mesh(2), {"", {.is_causal = true}});
  expect_all_equal(jit(second(around))(x), jit(second(attention({.is_causal = true})))(x), 5e-5);
  EXPECT_THAT(error_of<TraceError>([&] { jvp(around, std::tuple(x), std::tuple(x)); }),
              HasSubstr("has only a reverse derivative"));
}

TEST(RingAttention, ArgumentsThatDoNotFit_AreAnErrorAtTheUsersLine) {
  const Sizes s{.queries = 8, .keys = 12};
  const Arrays x = operands(s);
  EXPECT_THAT(error_of<ShardingError>([&] { nn::ring_attention(x[0], x[1], x[2], "s"); }),
              AllOf(HasSubstr("[ring_attention]"), HasSubstr("attention_test.cc:")));
  auto with = [&](const Array& query, nn::AttentionOptions options) {
    auto local = [&](const Array& q, const Array& k, const Array& v) {
      return nn::ring_attention(q, k, v, "s", options);
    };
    shard_map(local, {.mesh = ring_mesh(4), .in_specs = {P(none, "s")}, .out_specs = {P(none, "s")}})(
        query, x[1], x[2]);
  };
  EXPECT_THAT(
      error_of<ShapeError>([&] {
        with(x[0], {.mask = ones({2, 3}, bool_)});
      }),
      HasSubstr("[ring_attention] mask bool[2,3] does not broadcast to [batch, heads, queries, keys] = "
                "[2,4,2,12]"));
  EXPECT_THAT(error_of<DTypeError>([&] { with(astype(x[0], int32), {}); }),
              HasSubstr("expected query, key and value of one floating dtype, got i32[2,2,4,6]"));
}

}  // namespace
}  // namespace lockstep::attention_tests
