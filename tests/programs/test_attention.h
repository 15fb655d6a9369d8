// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the tests of attention and ring attention: operands, kinds of attention, and what they are compared
// with.

#include <cctype>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/attention.h"

namespace lockstep::attention_tests {

using test::expect_equal;
using test::waves;
using Arrays = std::vector<Array>;

/// Attention as a function of query, key, value and, where there is one, the bias.
using Attend = std::function<Array(const Arrays&)>;

struct Sizes {
  std::int64_t batch = 2, queries = 12, keys = 23, heads = 4, key_heads = 2, features = 6;
};

inline Arrays operands(const Sizes& s, DType dtype = float32) {
  return {astype(2 * waves({s.batch, s.queries, s.heads, s.features}, 1), dtype),
          astype(2 * waves({s.batch, s.keys, s.key_heads, s.features}, 2), dtype),
          astype(waves({s.batch, s.keys, s.key_heads, s.features}, 3), dtype)};
}

inline Attend attention(const nn::AttentionOptions& options) {
  return [options](const Arrays& x) {
    nn::AttentionOptions all = options;
    if (x.size() > 3) all.bias = x[3];
    return nn::dot_product_attention(x[0], x[1], x[2], all);
  };
}

/// Attention by a mask or bias, written out.
inline Attend written_out(const nn::AttentionOptions& options) {
  return [options](const Arrays& x) {
    const std::int64_t group = x[0].shape()[2] / x[1].shape()[2];
    const auto of_heads = [&](const Array& keys) { return astype(repeat(keys, group, 2), float64); };
    const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(x[0].shape()[3])));
    Array scores = einsum("bqhf,bkhf->bhqk", {astype(x[0], float64), of_heads(x[1])}) * scale;
    if (x.size() > 3) scores = scores + x[3];
    if (options.mask) scores = where(*options.mask, scores, -1e300);
    if (options.is_causal)
      scores = where(tril(ones({scores.shape()[2], scores.shape()[3]}, bool_)), scores, -1e300);
    const Array result =
        astype(einsum("bhqk,bkhf->bqhf", {nn::softmax(scores), of_heads(x[2])}), x[0].dtype());
    if (!options.query_seq_lengths) return result;
    const Array places = arange(x[0].shape()[1], DType::kI32);
    return where(
        reshape(places, {1, -1, 1, 1}) < reshape(astype(*options.query_seq_lengths, int32), {-1, 1, 1, 1}),
        result, 0.f);
  };
}

inline nn::AttentionOptions in_blocks(nn::AttentionOptions options, std::int64_t block) {
  options.block_size = block;
  return options;
}

/// A function of x, whose first result is the attention, the others the gradients of a sum of it.
inline std::function<Arrays(const Arrays&)> with_gradients(const Attend& f) {
  return [f](const Arrays& x) {
    auto loss = [&](const Arrays& x) {
      const Array y = f(x);
      return std::pair(sum(astype(y, float32) * waves(y.shape(), 5)), y);
    };
    auto [value, gradients] = value_and_grad(loss)(x);
    gradients.insert(gradients.begin(), value.second);
    return gradients;
  };
}

inline Arrays computed(const Attend& f, const Arrays& x) { return jit(with_gradients(f))(x); }

inline void expect_all_equal(const Arrays& found, const Arrays& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(i == 0 ? "the attention" : "gradient " + std::to_string(i - 1));
    expect_equal(found[i], expected[i], tolerance);
  }
}

/// Which keys each query sees: no query sees all, and, with `all`, the third of each head sees none.
inline Array some_seen(const Shape& shape, bool all = true) {
  const Array seen = waves(shape, 4) > -0.3f;
  if (!all) return seen;
  return seen & (reshape(arange(shape[2]), {1, 1, shape[2], 1}) != 2);
}

/// The largest number of elements of an array that a program's text names: "f32[2,3]".
inline std::int64_t largest_array(const std::string& text) {
  std::int64_t most = 0;
  for (std::size_t at = text.find('['); at != text.npos; at = text.find('[', at + 1)) {
    if (at == 0 || std::isdigit(static_cast<unsigned char>(text[at - 1])) == 0) continue;
    std::int64_t elements = 1;
    std::size_t next = at + 1;
    while (next < text.size() && std::isdigit(static_cast<unsigned char>(text[next])) != 0) {
      std::size_t digits = 0;
      elements *= std::stoll(text.substr(next, 20), &digits);
      next += digits + (text[next + digits] == ',' ? 1 : 0);
    }
    if (text[next] == ']') most = std::max(most, elements);
  }
  return most;
}

struct Variant {
  std::string name;
  nn::AttentionOptions options;
  bool has_bias = false;
  Shape bias = {};
};

/// Every option, each in several shapes.
inline std::vector<Variant> variants(const Sizes& s) {
  return {
      {"nothing", {}},
      {"causal", {.is_causal = true, .scale = 0.7}},
      {"mask", {.mask = some_seen({s.batch, s.heads, s.queries, s.keys})}},
      {"mask of keys, causal", {.is_causal = true, .mask = some_seen({s.batch, 1, 1, s.keys}, false)}},
      {"bias, mask of queries",
       {.mask = some_seen({1, 1, s.queries, 1})},
       true,
       {s.batch, s.heads, s.queries, s.keys}},
      {"bias of a head, mask", {.mask = some_seen({1, 1, s.queries, s.keys})}, true, {s.heads, 1, s.keys}},
      {"bias of queries, causal", {.is_causal = true}, true, {1, 1, s.queries, 1}}};
}

inline Arrays operands(const Sizes& s, const Variant& variant, DType dtype = float32) {
  Arrays x = operands(s, dtype);
  if (variant.has_bias) x.push_back(astype(waves(variant.bias, 7), dtype));
  return x;
}

/// The kinds that are one operation from 128 queries and keys on.
struct KindOfAttention {
  std::string name;
  nn::AttentionOptions options = {};
  std::int64_t queries = 260, keys = 260;
};

inline std::vector<KindOfAttention> kinds_of_one_operation() {
  const Array few = 200 * arange(1, -1, -1), unsigned_ones = astype(few, uint8);
  return {{"all keys"},
          {"more keys", {}, 130, 300},
          {"causal", {.is_causal = true}},
          {"causal, fewer keys", {.is_causal = true}, 300, 130},
          {"sliding window", {.is_causal = true, .local_window_size = {20, 0}}},
          {"window on both sides, some queries see no key", {.local_window_size = 10}, 300, 140},
          {"lengths", {.key_value_seq_lengths = few}},
          {"lengths of keys and queries, causal",
           {.is_causal = true, .query_seq_lengths = few, .key_value_seq_lengths = unsigned_ones}},
          {"lengths, window", {.local_window_size = {30, 2}, .key_value_seq_lengths = few}}};
}

/// The same attention by a mask.
inline nn::AttentionOptions by_mask(const KindOfAttention& kind) {
  const nn::AttentionOptions& o = kind.options;
  const Array query = reshape(arange(kind.queries), {1, 1, kind.queries, 1}),
              key = reshape(arange(kind.keys), {1, 1, 1, kind.keys});
  Array mask = ones({1, 1, kind.queries, kind.keys}, DType::kBool);
  if (o.is_causal) mask = mask & (key <= query);
  if (o.local_window_size.left) mask = mask & (key >= query - *o.local_window_size.left);
  if (o.local_window_size.right) mask = mask & (key <= query + *o.local_window_size.right);
  if (o.key_value_seq_lengths)
    mask = mask & (key < reshape(astype(*o.key_value_seq_lengths, int32), {-1, 1, 1, 1}));
  return {.mask = mask, .query_seq_lengths = o.query_seq_lengths};
}

inline nn::AttentionOptions ring_options(const Variant& variant, const Arrays& x, bool has_mask) {
  nn::AttentionOptions options = variant.options;
  std::size_t next = 3;
  if (variant.has_bias) options.bias = x[next++];
  if (has_mask) options.mask = x[next];
  return options;
}

/// ring_attention of whole arrays, over this mesh's axis "s".
inline Attend ring(const Mesh& mesh, const Variant& variant, std::int64_t block = 0) {
  return [=](const Arrays& x) {
    Arrays given = x;
    const bool has_mask = variant.options.mask.has_value();
    std::vector<PartitionSpec> specs(3, P(none, "s"));
    auto spec_of = [](const Array& terms) {
      const Shape& shape = terms.shape();
      if (shape.size() == 4 && shape[2] != 1) return P(none, none, "s");
      return P();
    };
    if (variant.has_bias) specs.push_back(spec_of(x[3]));
    if (has_mask) {
      given.push_back(*variant.options.mask);
      specs.push_back(spec_of(given.back()));
    }
    auto local = [&](const Arrays& x) {
      return nn::ring_attention(x[0], x[1], x[2], "s", in_blocks(ring_options(variant, x, has_mask), block));
    };
    return shard_map(local, {.mesh = mesh, .in_specs = {specs}, .out_specs = {P(none, "s")}})(given);
  };
}

inline Mesh ring_mesh(int devices_of_it) {
  return Mesh({devices().begin(), devices().begin() + devices_of_it}, {devices_of_it}, {"s"});
}

}  // namespace lockstep::attention_tests
