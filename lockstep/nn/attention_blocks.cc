// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/attention_blocks.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/einsum.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"
#include "lockstep/transforms/attention_programs.h"

namespace lockstep::nn::internal {
namespace {

constexpr std::int64_t kBlock = 256, kWholeScores = std::int64_t{1} << 20;
constexpr std::int32_t kNoPlace = std::numeric_limits<std::int32_t>::max();

double infinity() { return std::numeric_limits<double>::infinity(); }

void check_terms(std::string_view operation, const char* name, const Array& terms, const Shape& expected) {
  const Shape& shape = terms.shape();
  bool fits = shape.size() <= expected.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    const std::int64_t size = expected[expected.size() - shape.size() + d];
    fits = shape[d] == 1 || shape[d] == size;
  }
  if (fits) return;
  fail<ShapeError>("[{}] {} {} does not broadcast to [batch, heads, queries, keys] = {}{}", operation, name,
                   to_string(terms.aval()), to_string(expected), ops::at());
}

/// [batch, key heads, group, queries, keys]
Array scores(const Queries& queries, const Keys& keys) {
  Array scores = einsum("bhgqf,bhkf->bhgqk", {queries.query, keys.key});
  const DType dtype = at_least_f32(scores.dtype());
  scores = astype(scores, dtype) * queries.scale;
  if (keys.bias) scores = astype(scores + *keys.bias, dtype);
  if (keys.mask) scores = where(*keys.mask, scores, transforms::hidden_score(dtype));
  if (!keys.places) return scores;
  if (queries.places) {
    scores = where(visible(*queries.places, *keys.places, queries.is_causal, queries.window), scores,
                   transforms::hidden_score(dtype));
  }
  return keys.some_missing ? where(*keys.places == kNoPlace, -infinity(), scores) : scores;
}

/// The sums of power * value and of the powers, over one block.
std::vector<Array> weighed_block(const Queries& queries, const Keys& keys, const Array& scores,
                                 const Array& highest) {
  const Array powers = exp(scores - highest);
  const Array values = einsum("bhgqk,bhkf->bhgqf", {astype(powers, queries.query.dtype()), keys.value});
  return {astype(values, highest.dtype()), sum(powers, {.axis = -1, .keepdims = true})};
}

Softmax with_block(const Softmax& before, const Queries& queries, const Keys& keys) {
  // The recomputed function also returns the highest score, so that query and key are only multiplied once
  // here.
  const std::vector<Array> block = lockstep::internal::recomputed([&] {
    const Array all = scores(queries, keys);
    const Array highest = maximum(before.highest, max(stop_gradient(all), {.axis = -1, .keepdims = true}));
    std::vector<Array> out = weighed_block(queries, keys, all, highest);
    out.push_back(highest);
    return out;
  });
  const Array shrink = exp(before.highest - block[2]);
  return {before.values * shrink + block[0], before.powers * shrink + block[1], block[2]};
}

/// Parts of x along `axis`, stacked: part j has the elements j, j + count, j + 2 * count, … of x, which is
/// padded with `value` at the end. So if x is split along the axis, each part is split, too, and a loop over
/// the parts moves no data.
Array parts(const Array& x, std::int64_t axis, std::int64_t count, const Operand& value) {
  const auto at = static_cast<std::size_t>(axis);
  Shape shape = x.shape();
  const std::int64_t each = (shape[at] + count - 1) / count;
  std::vector<std::pair<std::int64_t, std::int64_t>> widths(shape.size());
  widths[at].second = each * count - shape[at];
  const Array padded = widths[at].second == 0 ? x : pad(x, widths, value);
  shape[at] = each;
  shape.insert(shape.begin() + axis + 1, count);
  return moveaxis(reshape(padded, shape), axis + 1, 0);
}

/// carry = step(carry, block) for all blocks of the keys.
std::vector<Array> over_blocks(
    const Keys& keys, std::int64_t block, const std::vector<Array>& initial,
    const std::function<std::vector<Array>(const std::vector<Array>&, const Keys&)>& step) {
  const std::int64_t size = keys.size();
  if (block >= size) return step(initial, keys);
  const std::int64_t count = (size + block - 1) / block;
  std::vector<Array> xs = {parts(keys.key, 2, count, 0), parts(keys.value, 2, count, 0)};
  auto has_parts = [](const std::optional<Array>& terms) { return terms && terms->shape().back() != 1; };
  const bool mask_parts = has_parts(keys.mask), bias_parts = has_parts(keys.bias);
  if (mask_parts) xs.push_back(parts(*keys.mask, 4, count, false));
  if (bias_parts) xs.push_back(parts(*keys.bias, 4, count, 0));
  const bool some_missing = size % count != 0, needs_places = keys.places || some_missing;
  if (needs_places)
    xs.push_back(parts(keys.places ? *keys.places : arange(size, DType::kI32), 0, count, kNoPlace));
  return lockstep::internal::scan_of_arrays(
      "dot_product_attention", initial, xs, count,
      [&](const std::vector<Array>& carry, const std::vector<Array>& elements) {
        auto next = elements.begin();
        Keys some = keys;
        some.some_missing = some_missing;
        some.key = *next++;
        some.value = *next++;
        if (mask_parts) some.mask = *next++;
        if (bias_parts) some.bias = *next++;
        if (needs_places) some.places = *next++;
        return step(carry, some);
      });
}

Array zeros_for(const Queries& queries, const Keys& keys, bool of_values) {
  Shape shape = queries.query.shape();
  shape.back() = of_values ? keys.value.shape().back() : 1;
  return zeros(shape, at_least_f32(promote("dot_product_attention",
                                           std::vector<ElementType>{{queries.query.dtype(), false},
                                                                    {keys.key.dtype(), false}})
                                       .dtype));
}

}  // namespace

void check_attention(std::string_view operation, const Operand& query, const Operand& key,
                     const Operand& value, const AttentionOptions& options, std::int64_t devices) {
  const Shape &q = query.shape(), &k = key.shape();
  const bool fits = q.size() == 4 && k.size() == 4 && k == value.shape() && q[0] == k[0] && q[3] == k[3] &&
                    k[2] > 0 && q[2] % k[2] == 0;
  if (!fits) {
    fail<ShapeError>(
        "[{}] query {}, key {} and value {} do not fit{}; expected query [batch, queries, heads, features], "
        "and key and value [batch, keys, heads or a divisor of them, features]",
        operation, to_string(query.aval()), to_string(key.aval()), to_string(value.aval()), ops::at());
  }
  const Shape of_scores = {q[0], q[2], q[1], k[1] * devices};
  if (options.mask) check_terms(operation, "mask", *options.mask, of_scores);
  if (options.bias) check_terms(operation, "bias", *options.bias, of_scores);
  const std::pair<const char*, const std::optional<Array>&> lengths[] = {
      {"query_seq_lengths", options.query_seq_lengths},
      {"key_value_seq_lengths", options.key_value_seq_lengths}};
  for (const auto& [name, given] : lengths) {
    if (!given) continue;
    if (given->shape() != Shape{q[0]}) {
      fail<ShapeError>("[{}] expected {} of each example, [{}], got {}{}", operation, name, q[0],
                       to_string(given->aval()), ops::at());
    }
    if (!is_integer(given->dtype())) {
      fail<DTypeError>("[{}] expected {} of whole numbers, got {}{}", operation, name,
                       to_string(given->aval()), ops::at());
    }
  }
  const LocalWindow& window = options.local_window_size;
  if (window.left.value_or(0) < 0 || window.right.value_or(0) < 0) {
    fail<ShapeError>("[{}] expected a local_window_size of 0 or more, got {} and {}{}", operation,
                     window.left.value_or(0), window.right.value_or(0), ops::at());
  }
  if (options.block_size.value_or(0) < 0) {
    fail<ShapeError>("[{}] expected a block_size of 1 or more, or 0 for all keys at once, got {}{}",
                     operation, *options.block_size, ops::at());
  }
}

std::int64_t block_size(const AttentionOptions& options, std::int64_t queries, std::int64_t keys) {
  const bool all = options.block_size ? *options.block_size == 0 : queries * keys <= kWholeScores;
  return all ? keys : std::min(keys, options.block_size.value_or(kBlock));
}

Array visible(const Array& queries, const Array& keys, bool is_causal, const LocalWindow& window) {
  const Array ahead = reshape(keys, {1, keys.shape()[0]}) - reshape(queries, {queries.shape()[0], 1});
  std::optional<Array> all;
  auto add = [&](const Array& shown) { all = all ? logical_and(*all, shown) : shown; };
  if (is_causal) add(ahead <= 0);
  if (window.left) add(ahead >= -*window.left);
  if (window.right) add(ahead <= *window.right);
  return all ? *all : ones(ahead.shape(), DType::kBool);
}

Array lengths_of(const Array& lengths, std::int64_t count) {
  return astype(size_of(lengths.dtype()) < 4 ? lengths : clip(lengths, 0, count), DType::kI32);
}

Array within(const Array& lengths, std::int64_t count) {
  return arange(count, DType::kI32) < reshape(lengths_of(lengths, count), {lengths.shape()[0], 1, 1, 1});
}

std::optional<Array> mask_with_lengths(const std::optional<Array>& mask, const std::optional<Array>& lengths,
                                       std::int64_t keys) {
  if (!lengths) return mask;
  const Array there = within(*lengths, keys);
  return mask ? logical_and(*mask, there) : there;
}

Array without_padding(const Array& result, const Array& lengths, const Array& positions) {
  const std::int64_t batch = lengths.shape()[0], queries = positions.shape()[0];
  const Array there = reshape(positions, {1, queries}) < reshape(lengths, {batch, 1});
  return where(reshape(there, {batch, queries, 1, 1}), result, zeros_like(result));
}

Array grouped(const Array& query, std::int64_t key_heads) {
  const Shape& s = query.shape();
  return transpose(reshape(query, {s[0], s[1], key_heads, s[2] / key_heads, s[3]}), {0, 2, 3, 1, 4});
}

Array ungrouped(const Array& result) {
  const Shape& s = result.shape();
  return reshape(transpose(result, {0, 3, 1, 2, 4}), {s[0], s[3], s[1] * s[2], s[4]});
}

Array grouped_terms(const Array& terms, std::int64_t heads, std::int64_t key_heads) {
  Shape s = terms.shape();
  s.insert(s.begin(), 4 - s.size(), 1);
  const bool each = s[1] == heads;
  return reshape(terms, {s[0], each ? key_heads : 1, each ? heads / key_heads : 1, s[2], s[3]});
}

Softmax no_keys(const Queries& queries, const Keys& keys) {
  const Array powers = zeros_for(queries, keys, false);
  // The lowest number instead of an infinity, so that the difference of two is not NaN.
  return {zeros_for(queries, keys, true), powers, full_like(powers, finfo(powers.dtype()).min)};
}

Softmax with_keys(const Softmax& before, const Queries& queries, const Keys& keys, std::int64_t block) {
  return Softmax::of(
      over_blocks(keys, block, before.arrays(), [&](const std::vector<Array>& carry, const Keys& some) {
        return with_block(Softmax::of(carry), queries, some).arrays();
      }));
}

Array attended(const Softmax& all) { return all.values / all.powers; }

std::pair<Array, Array> weighed(const Queries& queries, const Keys& keys, const Array& highest,
                                std::int64_t block) {
  const std::vector<Array> sums =
      over_blocks(keys, block, {zeros_for(queries, keys, true), zeros_for(queries, keys, false)},
                  [&](const std::vector<Array>& carry, const Keys& some) {
                    const std::vector<Array> here = lockstep::internal::recomputed(
                        [&] { return weighed_block(queries, some, scores(queries, some), highest); });
                    return std::vector<Array>{carry[0] + here[0], carry[1] + here[1]};
                  });
  return {sums[0], sums[1]};
}

}  // namespace lockstep::nn::internal
