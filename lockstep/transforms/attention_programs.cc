// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/attention_programs.h"

#include <optional>
#include <span>
#include <utility>

#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/nested.h"

namespace lockstep::transforms {
namespace {

namespace lax = ir::lax;
using ir::Value;
using Sizes = std::vector<std::int64_t>;

DType dtype_of_scores(DType dtype) { return size_of(dtype) < 4 ? DType::kF32 : dtype; }

Value dot(const Value& a, const Value& b, ir::DotGeneralParams dimensions) {
  dimensions.preferred_element_type = dtype_of_scores(a.aval().dtype);
  return lax::dot_general(a, b, std::move(dimensions));
}

/// The operands, of which a program within the program may have only some.
struct Operands {
  Value query, key, value;
  std::optional<Value> lengths;
  std::span<const Value> others;

  Operands(std::span<const Value> all, std::size_t others)
      : query(all[0]), key(all[1]), value(all[2]), others(all.last(others)) {
    if (all.size() - others == 4) lengths = all[3];
  }
};

/// The queries, and some keys. Rows of queries have the dimensions [batch, query, key head, head of its
/// group, features], scores [batch, key head, query, head of its group, key], and numbers of queries [batch,
/// key head, query, head of its group]: all without that of the group if each head has its own key head.
class Queries {
 public:
  Queries(const Attention& attention, const Operands& operands)
      : attention_(attention),
        shape_(operands.query.aval().shape),
        keys_(operands.key.aval().shape[1]),
        key_heads_(operands.key.aval().shape[2]) {}

  Value rows(const Value& x) const {
    return in_groups() ? lax::reshape(x, {shape_[0], shape_[1], key_heads_, group(), shape_[3]}) : x;
  }
  /// rows · keys
  Value scores(const Value& rows, const Value& keys) const {
    return dot(rows, keys, {{last()}, {3}, {0, 2}, {0, 2}});
  }
  /// The sums over the keys of score * key: [batch, key head, query, head of its group, features].
  Value times_keys(const Value& scores, const Value& keys) const {
    return dot(scores, keys, {{last()}, {1}, {0, 1}, {0, 2}});
  }
  /// The sums over the queries of score * row: [batch, key, key head, features].
  Value times_rows(const Value& scores, const Value& rows) const {
    const Value sums = in_groups() ? dot(scores, rows, {{2, 3}, {1, 3}, {0, 1}, {0, 2}})
                                   : dot(scores, rows, {{2}, {1}, {0, 1}, {0, 2}});
    return lax::transpose(sums, {0, 2, 1, 3});
  }
  /// What times_keys returns, as the query.
  Value as_query(const Value& x) const {
    return lax::reshape(lax::transpose(x, in_groups() ? Sizes{0, 2, 1, 3, 4} : Sizes{0, 2, 1, 3}), shape_);
  }

  /// The scaled scores of the keys from `first` on, or from 0, those of hidden keys replaced. Keys beyond the
  /// last one are hidden, too.
  Value seen(const Value& scores, const std::optional<Value>& first,
             const std::optional<Value>& lengths) const {
    const Value key = places(scores, last(), first), query = places(scores, 2, {});
    std::optional<Value> shown;
    const auto show = [&](const Value& some) { shown = shown ? lax::logical_and(*shown, some) : some; };
    const auto moved = [&](std::int64_t by) { return by == 0 ? query : lax::add(query, number(query, by)); };
    if (attention_.right) show(lax::le(key, moved(*attention_.right)));
    if (attention_.left) show(lax::ge(key, moved(-*attention_.left)));
    if (lengths) show(lax::lt(key, of_examples(*lengths, scores)));
    const Value hidden = lax::full_like(scores, hidden_score(scores.aval().dtype));
    Value all = lax::mul(scores, lax::full_like(scores, attention_.scale));
    if (shown) all = lax::select(*shown, all, hidden);
    if (const auto none = sees_none(scores, lengths))
      all = lax::select(*none, lax::full_like(scores, 0), all);
    return first ? lax::select(lax::lt(key, number(key, keys_)), all, hidden) : all;
  }
  /// Where a query sees no key, in the shape of scores, if that can be. Its scores are 0.
  std::optional<Value> sees_none(const Value& scores, const std::optional<Value>& lengths) const {
    const std::int64_t last_query = shape_[1] - 1;
    if (!lengths && (!attention_.left || last_query - *attention_.left < keys_)) return {};
    Value first = places(scores, 2, {}), end = number(first, keys_);
    const Value zero = number(first, 0);
    if (lengths) end = lax::min(end, of_examples(*lengths, scores));
    if (!attention_.left) return lax::le(end, zero);
    first = lax::sub(first, number(first, *attention_.left));
    return lax::le(end, lax::max(first, zero));
  }

  Value sums(const Value& x) const { return lax::reduce_sum(x, {last()}); }
  Value highest(const Value& scores) const { return lax::reduce_max(scores, {last()}); }

  /// The numbers of queries in the shape of scores, or of what times_keys returns.
  Value spread(const Value& numbers, const Value& like) const {
    return lax::broadcast_in_dim(numbers, like.aval().shape,
                                 in_groups() ? Sizes{0, 1, 2, 3} : Sizes{0, 1, 2});
  }
  /// Numbers of queries with the dimension of the group in any case, and back.
  Value with_group(const Value& numbers) const {
    return lax::reshape(numbers, {shape_[0], key_heads_, shape_[1], group()});
  }
  Value without_group(const Value& numbers) const {
    return in_groups() ? numbers : lax::reshape(numbers, {shape_[0], key_heads_, shape_[1]});
  }
  /// Of each query, the sum over features of a * b, in `dtype`.
  Value products(const Value& a, const Value& b, DType dtype) const {
    const auto wide = [&](const Value& x) { return lax::convert_element_type(rows(x), dtype); };
    return lax::transpose(sums(lax::mul(wide(a), wide(b))), in_groups() ? Sizes{0, 2, 1, 3} : Sizes{0, 2, 1});
  }

  /// Of [batch, key head, query, head of its group], and the features if `with_features`.
  Shape shape_of_numbers(bool with_features) const {
    Shape shape = {shape_[0], key_heads_, shape_[1]};
    if (in_groups()) shape.push_back(group());
    if (with_features) shape.push_back(shape_[3]);
    return shape;
  }

 private:
  static Value places(const Value& scores, std::int64_t axis, const std::optional<Value>& first) {
    const Value place = lax::iota(scores, DType::kI32, scores.aval().shape, axis);
    return first ? lax::add(place, lax::broadcast_in_dim(*first, scores.aval().shape, {})) : place;
  }
  static Value number(const Value& like, std::int64_t n) {
    return lax::full_like(like, static_cast<double>(n));
  }
  /// Numbers of examples in the shape of scores.
  static Value of_examples(const Value& numbers, const Value& scores) {
    return lax::broadcast_in_dim(numbers, scores.aval().shape, {0});
  }
  std::int64_t group() const { return shape_[2] / key_heads_; }
  bool in_groups() const { return group() > 1; }
  std::int64_t last() const { return in_groups() ? 4 : 3; }

  const Attention attention_;
  const Shape shape_;
  const std::int64_t keys_, key_heads_;
};

/// Blocks of keys, of which the last may be filled up.
struct Blocks {
  std::int64_t length, size;
  std::int64_t count() const { return (length + size - 1) / size; }

  /// [batch, key, key head, features] as [block, batch, key, key head, features], and back.
  Value of(const Value& x) const {
    const Shape s = x.aval().shape;
    const Sizes none(4, 0);
    const Value full = lax::pad(x, ir::rules::zeros(x, {x.aval().dtype, {}}), none,
                                {0, count() * size - length, 0, 0}, none);
    return lax::transpose(lax::reshape(full, {s[0], count(), size, s[2], s[3]}), {1, 0, 2, 3, 4});
  }
  Value joined(const Value& x) const {
    const Shape s = x.aval().shape;
    const Value all = lax::reshape(lax::transpose(x, {1, 0, 2, 3, 4}), {s[1], count() * size, s[3], s[4]});
    return lax::slice(all, {0, 0, 0, 0}, {s[1], length, s[3], s[4]});
  }
  /// The place of the first key of each.
  Value firsts(const Value& like) const {
    const Value number = lax::iota(like, DType::kI32, {count()}, 0);
    return lax::mul(number, lax::full_like(number, static_cast<double>(size)));
  }
};

/// For one block after the other: carry, results = step(constants, carry, elements). Its derivatives compute
/// each step again.
Values for_each_block(const Values& constants, const Values& carry, const Values& elements,
                      const std::function<Values(const Values&)>& step) {
  std::vector<std::string> varying;
  for (const Values* values : {&constants, &carry, &elements})
    for (const Value& value : *values) varying = ir::both(varying, value.aval().varying);
  Values operands;
  std::vector<Aval> avals;
  const auto add = [&](const Value& value, Shape shape) {
    operands.push_back(value);
    avals.push_back({value.aval().dtype, std::move(shape), false, varying});
  };
  for (const Value& value : constants) add(value, value.aval().shape);
  for (const Value& value : carry) add(value, value.aval().shape);
  for (const Value& value : elements) add(value, {value.aval().shape.begin() + 1, value.aval().shape.end()});
  const auto inputs = [&](Inner& inner) {
    Values all;
    for (const Aval& aval : avals) all.push_back(inner.input(aval));
    return all;
  };
  Inner once("attention_of_a_block");
  const ProgramPtr program = once.finish(step(inputs(once)));
  Inner body("attention_by_blocks");
  const Values all = inputs(body);
  const ProgramPtr again =
      body.finish(emit_nested(body.builder(), remat_p(), ir::OpParams::of(RematParams{program, false}), all));
  return emit_nested(elements[0].builder(), scan_p(),
                     ir::OpParams::of(ScanParams{again, static_cast<std::int64_t>(constants.size()),
                                                 static_cast<std::int64_t>(carry.size()),
                                                 elements[0].aval().shape[0], false}),
                     operands);
}

}  // namespace

double hidden_score(DType dtype) { return -0.7 * finfo(dtype).max; }

Values attend(const Attention& attention, std::span<const Value> all) {
  const Operands operands(all, 0);
  const auto& [query, key, value, lengths, others] = operands;
  const Queries q(attention, operands);
  const DType dtype = query.aval().dtype, wide = dtype_of_scores(dtype);
  const auto finished = [&](const Value& all, const Value& highest, const Value& sums) {
    return Values{lax::convert_element_type(q.as_query(lax::div(all, q.spread(sums, all))), dtype),
                  q.with_group(lax::add(highest, lax::log(sums)))};
  };
  Values constants = {q.rows(query)};
  if (attention.block >= key.aval().shape[1]) {
    const Value scores = q.seen(q.scores(constants[0], key), {}, lengths), highest = q.highest(scores);
    const Value powers = lax::exp(lax::sub(scores, q.spread(highest, scores)));
    return finished(q.times_keys(lax::convert_element_type(powers, dtype), value), highest, q.sums(powers));
  }
  const Blocks blocks{key.aval().shape[1], attention.block};
  if (lengths) constants.push_back(*lengths);
  const Values carry = for_each_block(
      constants,
      {ir::rules::zeros(query, {wide, q.shape_of_numbers(true)}),
       lax::full(query, ir::Scalar::of(hidden_score(wide)), wide, q.shape_of_numbers(false)),
       ir::rules::zeros(query, {wide, q.shape_of_numbers(false)})},
      {blocks.of(key), blocks.of(value), blocks.firsts(query)}, [&](const Values& all) {
        const Value rows = all[0];
        const std::optional<Value> lengths = constants.size() > 1 ? std::optional(all[1]) : std::nullopt;
        const std::span<const Value> v = std::span(all).subspan(constants.size());
        const Value scores = q.seen(q.scores(rows, v[3]), v[5], lengths);
        const Value highest = lax::max(v[1], q.highest(scores));
        const Value powers = lax::exp(lax::sub(scores, q.spread(highest, scores)));
        const Value factor = lax::exp(lax::sub(v[1], highest));
        const Value more = q.times_keys(lax::convert_element_type(powers, dtype), v[4]);
        return Values{lax::add(lax::mul(v[0], q.spread(factor, v[0])), more), highest,
                      lax::add(lax::mul(v[2], factor), q.sums(powers))};
      });
  return finished(carry[0], carry[1], carry[2]);
}

Values attend_backward(const Attention& attention, std::span<const Value> all) {
  const Operands operands(all, 3);
  const auto& [query, key, value, lengths, others] = operands;
  const Value &result = others[0], &logs = others[1], &cotangent = others[2];
  const Queries q(attention, operands);
  const DType dtype = query.aval().dtype, wide = dtype_of_scores(dtype);
  Values constants = {q.rows(query), q.rows(cotangent), q.without_group(logs),
                      q.products(cotangent, result, wide)};
  if (lengths) constants.push_back(*lengths);
  /// Of some keys: what the cotangent of query gets, the cotangents of key and value.
  const auto of_keys = [&](std::span<const Value> c, const Value& key, const Value& value,
                           const std::optional<Value>& first) {
    const std::optional<Value> lengths = constants.size() > 4 ? std::optional(c[4]) : std::nullopt;
    const Value scores = q.seen(q.scores(c[0], key), first, lengths);
    const Value weights = lax::exp(lax::sub(scores, q.spread(c[2], scores)));
    const Value of_weights = q.scores(c[1], value);
    const Value scaled = lax::mul(weights, lax::full_like(weights, attention.scale));
    Value of_scores = lax::mul(scaled, lax::sub(of_weights, q.spread(c[3], of_weights)));
    if (const auto none = q.sees_none(scores, lengths))
      of_scores = lax::select(*none, lax::full_like(of_scores, 0), of_scores);
    of_scores = lax::convert_element_type(of_scores, dtype);
    return Values{q.times_keys(of_scores, key), q.times_rows(of_scores, c[0]),
                  q.times_rows(lax::convert_element_type(weights, dtype), c[1])};
  };
  const auto in_dtype = [&](const Value& x) { return lax::convert_element_type(x, dtype); };
  if (attention.block >= key.aval().shape[1]) {
    const Values sums = of_keys(constants, key, value, {});
    return {in_dtype(q.as_query(sums[0])), in_dtype(sums[1]), in_dtype(sums[2])};
  }
  const Blocks blocks{key.aval().shape[1], attention.block};
  const Values sums =
      for_each_block(constants, {ir::rules::zeros(query, {wide, q.shape_of_numbers(true)})},
                     {blocks.of(key), blocks.of(value), blocks.firsts(query)}, [&](const Values& all) {
                       const std::span<const Value> v = std::span(all).subspan(constants.size());
                       const Values some = of_keys(all, v[1], v[2], v[3]);
                       return Values{lax::add(v[0], some[0]), in_dtype(some[1]), in_dtype(some[2])};
                     });
  return {in_dtype(q.as_query(sums[0])), blocks.joined(sums[1]), blocks.joined(sums[2])};
}

}  // namespace lockstep::transforms
