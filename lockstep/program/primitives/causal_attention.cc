// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/causal_attention.h"

#include <limits>
#include <utility>

#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

using Sizes = std::vector<std::int64_t>;

DType dtype_of_scores(DType dtype) { return size_of(dtype) < 4 ? DType::kF32 : dtype; }

/// The score of a key that is not seen, as in JAX.
double hidden_score(DType scores) {
  return -0.7 *
         (scores == DType::kF64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max());
}

/// The queries from `begin` to before `end`, with the keys up to `end`. Within it, rows have the dimensions
/// [batch, query, key head, head of its group, features], and scores [batch, key head, query, head of its
/// group, key], both without the dimension of the group if each head has its own key head.
class Part {
 public:
  Part(const CausalAttention& attention, const Value& query, const Value& key, std::int64_t begin,
       std::int64_t end)
      : attention_(attention),
        begin_(begin),
        end_(end),
        shape_(query.aval().shape),
        key_heads_(size(key, 2)) {}

  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }

  Value rows(const Value& x) const {
    const Value some = sliced(x, {0, begin_, 0, 0}, {shape_[0], end_, shape_[2], shape_[3]});
    return in_groups() ? lax::reshape(some, {shape_[0], count(), key_heads_, group(), shape_[3]}) : some;
  }
  Value keys(const Value& x) const {
    return sliced(x, {0, 0, 0, 0}, {shape_[0], end_, key_heads_, shape_[3]});
  }

  /// rows · keys, for each feature.
  Value scores(const Value& rows, const Value& keys) const {
    return dot(rows, keys, {{rank() - 1}, {3}, {0, 2}, {0, 2}});
  }
  /// The sums over the keys of score * key: [batch, key head, query, head of its group, features].
  Value times_keys(const Value& scores, const Value& keys) const {
    return dot(scores, keys, {{rank() - 1}, {1}, {0, 1}, {0, 2}});
  }
  /// The sums over the queries of score * row: [batch, key, key head, features].
  Value times_rows(const Value& scores, const Value& rows) const {
    const Value sums = in_groups() ? dot(scores, rows, {{2, 3}, {1, 3}, {0, 1}, {0, 2}})
                                   : dot(scores, rows, {{2}, {1}, {0, 1}, {0, 2}});
    return lax::transpose(sums, {0, 2, 1, 3});
  }

  /// Of [batch, key head, query, head of its group, features], as the query's.
  Value as_query(const Value& x) const {
    const Value turned = lax::transpose(x, in_groups() ? Sizes{0, 2, 1, 3, 4} : Sizes{0, 2, 1, 3});
    return lax::reshape(turned, {shape_[0], count(), shape_[2], shape_[3]});
  }

  /// The scaled scores, without those of later keys.
  Value seen(const Value& scores) const {
    const Shape shape = scores.aval().shape;
    const std::int64_t last = rank() - 1;
    const Value query = lax::iota(scores, DType::kI32, shape, 2),
                key = lax::iota(scores, DType::kI32, shape, last),
                first = lax::full_like(query, static_cast<double>(begin_));
    const Value scaled = lax::mul(scores, lax::full_like(scores, attention_.scale));
    return lax::select(lax::le(key, lax::add(query, first)), scaled,
                       lax::full_like(scaled, hidden_score(scores.aval().dtype)));
  }

  /// A number for each query, as the scores or, of features, as what times_keys gives.
  Value spread(const Value& of_queries, const Value& like) const {
    const Sizes dims = in_groups() ? Sizes{0, 1, 2, 3} : Sizes{0, 1, 2};
    return lax::broadcast_in_dim(of_queries, like.aval().shape, dims);
  }
  /// Sums over the last dimension.
  Value reduced(const Value& x) const { return lax::reduce_sum(x, {rank() - 1}); }
  Value highest(const Value& scores) const { return lax::reduce_max(scores, {rank() - 1}); }

  /// [batch, key heads, query, head of its group], with that dimension in any case, and back.
  Value with_group(const Value& of_queries) const {
    return lax::reshape(of_queries, {shape_[0], key_heads_, count(), group()});
  }
  Value some_of(const Value& logs) const {
    const Value some = sliced(logs, {0, 0, begin_, 0}, {shape_[0], key_heads_, end_, group()});
    return in_groups() ? some : lax::reshape(some, {shape_[0], key_heads_, count()});
  }
  /// Of the queries, [batch, query, key head, head of its group].
  Value by_key_head(const Value& x) const {
    return lax::transpose(x, in_groups() ? Sizes{0, 2, 1, 3} : Sizes{0, 2, 1});
  }

 private:
  static std::int64_t size(const Value& x, std::size_t dimension) { return x.aval().shape[dimension]; }
  std::int64_t count() const { return end_ - begin_; }
  std::int64_t group() const { return shape_[2] / key_heads_; }
  bool in_groups() const { return group() > 1; }
  std::int64_t rank() const { return in_groups() ? 5 : 4; }

  static Value sliced(const Value& x, Sizes start, Sizes limit) {
    return limit == x.aval().shape && start == Sizes(4, 0)
               ? x
               : lax::slice(x, std::move(start), std::move(limit));
  }
  static Value dot(const Value& a, const Value& b, DotGeneralParams dimensions) {
    dimensions.preferred_element_type = dtype_of_scores(a.aval().dtype);
    return lax::dot_general(a, b, std::move(dimensions));
  }

  const CausalAttention& attention_;
  const std::int64_t begin_, end_;
  const Shape shape_;
  const std::int64_t key_heads_;
};

std::vector<Part> parts(const CausalAttention& attention, const Value& query, const Value& key) {
  const std::int64_t length = query.aval().shape[1];
  std::vector<Part> all;
  for (std::int64_t i = 0; i < attention.parts; ++i)
    all.emplace_back(attention, query, key, length * i / attention.parts, length * (i + 1) / attention.parts);
  return all;
}

Value joined(const std::vector<Value>& parts, std::int64_t dimension) {
  return parts.size() == 1 ? parts[0] : lax::concatenate(std::span<const Value>(parts), dimension);
}

}  // namespace

std::vector<Value> attend(const CausalAttention& attention, const Value& query, const Value& key,
                          const Value& value) {
  const DType dtype = query.aval().dtype;
  std::vector<Value> results, logs;
  for (const Part& part : parts(attention, query, key)) {
    const Value scores = part.seen(part.scores(part.rows(query), part.keys(key)));
    const Value highest = part.highest(scores);
    const Value powers = lax::exp(lax::sub(scores, part.spread(highest, scores)));
    const Value sums = part.reduced(powers);
    const Value all = part.times_keys(lax::convert_element_type(powers, dtype), part.keys(value));
    results.push_back(lax::convert_element_type(part.as_query(lax::div(all, part.spread(sums, all))), dtype));
    logs.push_back(part.with_group(lax::add(highest, lax::log(sums))));
  }
  return {joined(results, 1), joined(logs, 2)};
}

std::vector<Value> attend_backward(const CausalAttention& attention, const Value& query, const Value& key,
                                   const Value& value, const Value& result, const Value& logs,
                                   const Value& cotangent) {
  const DType dtype = query.aval().dtype, wide = dtype_of_scores(dtype);
  const std::int64_t length = query.aval().shape[1];
  std::vector<Value> of_queries, sums;  // sums: of key, of value
  for (const Part& part : parts(attention, query, key)) {
    const Value q = part.rows(query), k = part.keys(key), g = part.rows(cotangent);
    const Value scores = part.seen(part.scores(q, k));
    const Value weights = lax::exp(lax::sub(scores, part.spread(part.some_of(logs), scores)));
    const Value of_weights = part.scores(g, part.keys(value));
    const auto in_wide = [&](const Value& x) { return lax::convert_element_type(x, wide); };
    const Value mean = part.by_key_head(part.reduced(lax::mul(in_wide(g), in_wide(part.rows(result)))));
    const Value of_scores =
        lax::convert_element_type(lax::mul(lax::mul(weights, lax::full_like(weights, attention.scale)),
                                           lax::sub(of_weights, part.spread(mean, of_weights))),
                                  dtype);
    of_queries.push_back(lax::convert_element_type(part.as_query(part.times_keys(of_scores, k)), dtype));
    Value more[] = {part.times_rows(of_scores, q),
                    part.times_rows(lax::convert_element_type(weights, dtype), g)};
    for (std::size_t i = 0; i < 2; ++i) {
      const Sizes none(4, 0);
      if (part.end() < length)
        more[i] =
            lax::pad(more[i], rules::zeros(more[i], {wide, {}}), none, {0, length - part.end(), 0, 0}, none);
      if (part.begin() == 0)
        sums.push_back(more[i]);
      else
        sums[i] = lax::add(sums[i], more[i]);
    }
  }
  return {joined(of_queries, 1), lax::convert_element_type(sums[0], dtype),
          lax::convert_element_type(sums[1], dtype)};
}

}  // namespace lockstep::ir
