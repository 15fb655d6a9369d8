// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/attention_programs.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "lockstep/base/call_site.h"
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

struct Operands {
  Value query, key, value;
  std::optional<Value> lengths, mask, bias;
  std::span<const Value> others;  ///< result, logs and cotangent

  Operands(std::span<const Value> all, bool backward)
      : query(all[0]), key(all[1]), value(all[2]), others(all.last(backward ? 3 : 0)) {
    std::vector<Aval> avals;
    for (const Value& operand : all) avals.push_back(operand.aval());
    const OptionalOperands at(avals, backward);
    if (at.lengths) lengths = all[*at.lengths];
    if (at.mask) mask = all[*at.mask];
    if (at.bias) bias = all[*at.bias];
  }
};

Value number(const Value& like, std::int64_t n) { return lax::full_like(like, static_cast<double>(n)); }

/// Which keys are shown to queries, by their places in arrays of one shape; none: all. The first dimension of
/// these is the examples, and those of the mask may have size 1.
std::optional<Value> shown(const Attention& attention, const Value& query, const Value& key,
                           const std::optional<Value>& lengths, const std::optional<Value>& mask) {
  const Shape& shape = key.aval().shape;
  std::optional<Value> all;
  const auto show = [&](const Value& some) { all = all ? lax::logical_and(*all, some) : some; };
  const auto moved = [&](std::int64_t by) { return by == 0 ? query : lax::add(query, number(query, by)); };
  if (attention.right) show(lax::le(key, moved(*attention.right)));
  if (attention.left) show(lax::ge(key, moved(-*attention.left)));
  if (lengths) show(lax::lt(key, lax::broadcast_in_dim(*lengths, shape, {0})));
  if (mask) show(repeated(*mask, shape));
  return all;
}

/// The same of all keys, of shape_of_shown().
std::optional<Value> shown_of_all(const Attention& attention, const Value& like, const Shape& shape,
                                  const std::optional<Value>& lengths, const std::optional<Value>& mask) {
  // Without equations for places that nothing reads.
  if (!attention.left && !attention.right && !lengths)
    return mask ? std::optional(repeated(*mask, shape)) : std::nullopt;
  return shown(attention, lax::iota(like, DType::kI32, shape, 2), lax::iota(like, DType::kI32, shape, 3),
               lengths, mask);
}

/// Sizes of [batch, heads, queries, keys] for terms of this shape: 1 where all scores are shown alike.
Shape shape_of_shown(const Attention& attention, const Shape& terms, const Value& query, std::int64_t keys,
                     const std::optional<Value>& lengths, const std::optional<Value>& mask) {
  Shape shape = terms;
  for (const std::size_t d : {0, 1, 2})
    if (mask) shape[d] = std::max(shape[d], mask->aval().shape[d]);
  if (lengths) shape[0] = query.aval().shape[0];
  if (attention.left || attention.right) shape[2] = query.aval().shape[1];
  shape[3] = keys;
  return shape;
}

/// The largest bias of the keys that a query sees. Scores are relative to it: the logarithm of the sum of
/// their powers would vanish beside a bias of -1e9 or the lowest number, by which a program hides all keys.
std::optional<Value> highest_bias(const Attention& attention, const Operands& o) {
  if (!o.bias) return {};
  const std::int64_t keys = o.key.aval().shape[1];
  const Shape shape = shape_of_shown(attention, o.bias->aval().shape, o.query, keys, o.lengths, o.mask);
  const DType dtype = dtype_of_scores(o.query.aval().dtype);
  Value bias = repeated(lax::convert_element_type(*o.bias, dtype), shape);
  const Value lowest = lax::full_like(bias, finfo(dtype).min);
  if (const auto some = shown_of_all(attention, o.query, shape, o.lengths, o.mask))
    bias = lax::select(*some, bias, lowest);
  return lax::reduce_max(lax::max(bias, lowest), {3});
}

/// What of the operands concerns scores of some keys, in the dimensions of scores, of which those may have
/// size 1 that are all the same.
struct Terms {
  std::optional<Value> first = {};  ///< the place of the first of these keys; none: 0, and these are all keys
  std::optional<Value> lengths = {}, mask = {}, bias = {};
  /// Whether a query sees no key at all, and its highest_bias, in the dimensions of numbers.
  std::optional<Value> none = {}, highest_bias = {};
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

  Terms terms(const Operands& o) const {
    Terms all{.lengths = o.lengths};
    if (o.mask) all.mask = by_queries(*o.mask);
    if (o.bias) all.bias = by_queries(*o.bias);
    if (const auto none = sees_none(attention_, o.query, keys_, o.lengths, o.mask))
      all.none = by_queries(*none);
    if (const auto highest = transforms::highest_bias(attention_, o)) all.highest_bias = by_queries(*highest);
    return all;
  }
  /// Sums of scores in the dimensions of terms, in those of the operand.
  Value as_operand(const Value& x, const Shape& shape) const {
    return lax::reshape(in_groups() ? lax::transpose(x, {0, 1, 3, 2, 4}) : x, shape);
  }

  /// The scores with scale and bias, those of hidden keys replaced. Keys beyond the last one are hidden, too.
  /// Those of a query that sees no key are 0.
  Value seen(const Value& scores, const Terms& terms) const {
    const Shape& shape = scores.aval().shape;
    const DType dtype = scores.aval().dtype;
    const Value key = places(scores, last(), terms.first);
    const auto shown = transforms::shown(attention_, places(scores, 2, {}), key, terms.lengths, terms.mask);
    const Value hidden = lax::full_like(scores, hidden_score(dtype));
    Value all = lax::mul(scores, lax::full_like(scores, attention_.scale));
    if (terms.bias) {
      all = lax::add(all, repeated(lax::convert_element_type(*terms.bias, dtype), shape));
      all = lax::sub(all, spread(*terms.highest_bias, scores));
    }
    if (shown) all = lax::select(*shown, all, hidden);
    if (terms.none) all = lax::select(spread(*terms.none, scores), lax::full_like(scores, 0), all);
    return terms.first ? lax::select(lax::lt(key, number(key, keys_)), all, hidden) : all;
  }

  Value sums(const Value& x) const { return lax::reduce_sum(x, {last()}); }
  Value highest(const Value& scores) const { return lax::reduce_max(scores, {last()}); }

  /// The numbers of queries in the shape of scores, or of what times_keys returns.
  Value spread(const Value& numbers, const Value& like) const { return repeated(numbers, like.aval().shape); }
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
  /// [batch, heads, queries, ...], where the first two may be 1, in the dimensions of numbers or scores.
  Value by_queries(const Value& x) const {
    if (!in_groups()) return x;
    Shape shape = x.aval().shape;
    const bool of_heads = shape[1] != 1;
    shape[1] = of_heads ? key_heads_ : 1;
    shape.insert(shape.begin() + 2, of_heads ? group() : 1);
    return lax::transpose(lax::reshape(x, shape),
                          shape.size() == 5 ? Sizes{0, 1, 3, 2, 4} : Sizes{0, 1, 3, 2});
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

  /// x, whose `axis` is the keys, with a new first dimension for the blocks, and back.
  Value of(const Value& x, std::size_t axis) const {
    Shape shape = x.aval().shape;
    Sizes none(shape.size(), 0), missing = none, order(shape.size() + 1);
    missing[axis] = count() * size - length;
    const Value full = lax::pad(x, ir::rules::zeros(x, {x.aval().dtype, {}}), none, missing, none);
    shape[axis] = count();
    const auto at = static_cast<std::ptrdiff_t>(axis);
    shape.insert(shape.begin() + at + 1, size);
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + at, order.begin() + at + 1);
    return lax::transpose(lax::reshape(full, shape), order);
  }
  Value joined(const Value& x, std::size_t axis) const {
    Sizes order(x.aval().shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + 1, order.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
    Shape shape(x.aval().shape.begin() + 1, x.aval().shape.end());
    shape[axis] = count() * size;
    const Value all = lax::reshape(lax::transpose(x, order), shape);
    shape[axis] = length;
    return lax::slice(all, Sizes(shape.size(), 0), shape);
  }
  /// The place of the first key of each.
  Value firsts(const Value& like) const {
    const Value number = lax::iota(like, DType::kI32, {count()}, 0);
    return lax::mul(number, lax::full_like(number, static_cast<double>(size)));
  }
};

/// Terms of all keys, as operands of a loop over blocks of keys.
class TermsOfBlocks {
 public:
  TermsOfBlocks(const Terms& all, const Blocks& blocks) {
    if (all.lengths) add(constants, of_constants_, &Terms::lengths, *all.lengths);
    if (all.none) add(constants, of_constants_, &Terms::none, *all.none);
    if (all.highest_bias) add(constants, of_constants_, &Terms::highest_bias, *all.highest_bias);
    for (const Term term : {&Terms::mask, &Terms::bias}) {
      if (!(all.*term)) continue;
      if ((all.*term)->aval().shape.back() == 1)
        add(constants, of_constants_, term, *(all.*term));
      else
        add(elements, of_elements_, term, blocks.of(*(all.*term), (all.*term)->aval().shape.size() - 1));
    }
  }

  /// Those of one block: `constants` and `elements` end with its constants and elements.
  Terms of(std::span<const Value> constants, std::span<const Value> elements, const Value& first) const {
    Terms terms{.first = first};
    for (std::size_t i = 0; i < of_constants_.size(); ++i)
      terms.*of_constants_[i] = constants.last(of_constants_.size())[i];
    for (std::size_t i = 0; i < of_elements_.size(); ++i)
      terms.*of_elements_[i] = elements.last(of_elements_.size())[i];
    return terms;
  }

  Values constants, elements;

 private:
  using Term = std::optional<Value> Terms::*;

  static void add(Values& values, std::vector<Term>& terms, Term term, const Value& value) {
    values.push_back(value);
    terms.push_back(term);
  }

  std::vector<Term> of_constants_, of_elements_;
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
  const CallSite site = CallSiteScope::current();
  const auto traced = [&](std::string name, const std::function<Values(Inner&, const Values&)>& outputs) {
    Inner inner(std::move(name));
    const Values all = [&] {
      const ir::EquationsAt here(inner.builder(), site);
      return outputs(inner, inputs(inner));
    }();
    return inner.finish(all);
  };
  const ProgramPtr once =
      traced("attention_of_a_block", [&](Inner&, const Values& all) { return step(all); });
  const ProgramPtr again = traced("attention_by_blocks", [&](Inner& inner, const Values& all) {
    return emit_nested(inner.builder(), remat_p(), ir::OpParams::of(RematParams{once, false}), all);
  });
  return emit_nested(elements[0].builder(), scan_p(),
                     ir::OpParams::of(ScanParams{again, static_cast<std::int64_t>(constants.size()),
                                                 static_cast<std::int64_t>(carry.size()),
                                                 elements[0].aval().shape[0], false}),
                     operands);
}

}  // namespace

double hidden_score(DType dtype) { return -0.7 * finfo(dtype).max; }

Value repeated(const Value& x, const Shape& shape) {
  if (x.aval().shape == shape) return x;
  Sizes dimensions(x.aval().shape.size());
  std::iota(dimensions.begin(), dimensions.end(), 0);
  return lax::broadcast_in_dim(x, shape, dimensions);
}

Value sums_in_shape(const Value& x, const Shape& shape) {
  Sizes summed;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != x.aval().shape[d]) summed.push_back(static_cast<std::int64_t>(d));
  if (summed.empty()) return x;
  const Value wide = lax::convert_element_type(x, dtype_of_scores(x.aval().dtype));
  return lax::convert_element_type(lax::reshape(lax::reduce_sum(wide, summed), shape), x.aval().dtype);
}

OptionalOperands::OptionalOperands(std::span<const Aval> operands, bool backward) {
  for (std::size_t i = 3; i + (backward ? 3 : 0) < operands.size(); ++i) {
    const DType dtype = operands[i].dtype;
    (dtype == DType::kI32 ? lengths : dtype == DType::kBool ? mask : bias) = i;
  }
}

std::optional<Value> sees_none(const Attention& attention, const Value& query, std::int64_t keys,
                               const std::optional<Value>& lengths, const std::optional<Value>& mask) {
  const Shape& shape = query.aval().shape;
  const std::int64_t batch = lengths ? shape[0] : 1;
  if (!mask) {
    if (!lengths && (!attention.left || shape[1] - 1 - *attention.left < keys)) return {};
    const Shape rows = {batch, 1, attention.left ? shape[1] : 1};
    const Value place = lax::iota(query, DType::kI32, rows, 2), zero = number(place, 0);
    Value end = number(place, keys);
    if (lengths) end = lax::min(end, lax::broadcast_in_dim(*lengths, rows, {0}));
    if (!attention.left) return lax::le(end, zero);
    return lax::le(end, lax::max(lax::sub(place, number(place, *attention.left)), zero));
  }
  const Shape all = shape_of_shown(attention, mask->aval().shape, query, keys, lengths, mask);
  return lax::logical_not(lax::reduce_or(*shown_of_all(attention, query, all, lengths, mask), {3}));
}

Values attend(const Attention& attention, std::span<const Value> all) {
  const Operands operands(all, false);
  const Value &query = operands.query, &key = operands.key, &value = operands.value;
  const Queries q(attention, operands);
  const DType dtype = query.aval().dtype, wide = dtype_of_scores(dtype);
  const auto finished = [&](const Value& all, const Value& highest, const Value& sums) {
    return Values{lax::convert_element_type(q.as_query(lax::div(all, q.spread(sums, all))), dtype),
                  q.with_group(lax::add(highest, lax::log(sums)))};
  };
  const Terms terms = q.terms(operands);
  if (attention.block >= key.aval().shape[1]) {
    const Value scores = q.seen(q.scores(q.rows(query), key), terms), highest = q.highest(scores);
    const Value powers = lax::exp(lax::sub(scores, q.spread(highest, scores)));
    return finished(q.times_keys(lax::convert_element_type(powers, dtype), value), highest, q.sums(powers));
  }
  const Blocks blocks{key.aval().shape[1], attention.block};
  const TermsOfBlocks parts(terms, blocks);
  Values constants = {q.rows(query)},
         elements = {blocks.of(key, 1), blocks.of(value, 1), blocks.firsts(query)};
  constants.insert(constants.end(), parts.constants.begin(), parts.constants.end());
  elements.insert(elements.end(), parts.elements.begin(), parts.elements.end());
  const Values carry =
      for_each_block(constants,
                     {ir::rules::zeros(query, {wide, q.shape_of_numbers(true)}),
                      lax::full(query, ir::Scalar::of(hidden_score(wide)), wide, q.shape_of_numbers(false)),
                      ir::rules::zeros(query, {wide, q.shape_of_numbers(false)})},
                     elements, [&](const Values& all) {
                       const std::span<const Value> c = std::span(all).first(constants.size()),
                                                    v = std::span(all).subspan(constants.size());
                       const Value scores = q.seen(q.scores(c[0], v[3]), parts.of(c, v, v[5]));
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
  const Operands operands(all, true);
  const Value &query = operands.query, &key = operands.key, &value = operands.value,
              &result = operands.others[0], &logs = operands.others[1], &cotangent = operands.others[2];
  const Queries q(attention, operands);
  const DType dtype = query.aval().dtype, wide = dtype_of_scores(dtype);
  const Terms terms = q.terms(operands);
  Values constants = {q.rows(query), q.rows(cotangent), q.without_group(logs),
                      q.products(cotangent, result, wide)};
  const std::optional<Shape> of_bias = terms.bias ? std::optional(terms.bias->aval().shape) : std::nullopt;
  /// Of some keys: what the cotangent of query gets, the cotangents of key and value, and that of the bias.
  const auto of_keys = [&](std::span<const Value> c, const Value& key, const Value& value,
                           const Terms& terms) {
    const Value scores = q.seen(q.scores(c[0], key), terms);
    const Value weights = lax::exp(lax::sub(scores, q.spread(c[2], scores)));
    const Value of_weights = q.scores(c[1], value);
    Value of_scores = lax::mul(weights, lax::sub(of_weights, q.spread(c[3], of_weights)));
    if (terms.none)
      of_scores = lax::select(q.spread(*terms.none, of_scores), lax::full_like(of_scores, 0), of_scores);
    const Value scaled =
        lax::convert_element_type(lax::mul(of_scores, lax::full_like(of_scores, attention.scale)), dtype);
    Values out = {q.times_keys(scaled, key), q.times_rows(scaled, c[0]),
                  q.times_rows(lax::convert_element_type(weights, dtype), c[1])};
    if (terms.bias) out.push_back(sums_in_shape(of_scores, terms.bias->aval().shape));
    return out;
  };
  const auto in_dtype = [&](const Value& x) { return lax::convert_element_type(x, dtype); };
  const auto of_operands = [&](const Value& of_query, const Value& of_key, const Value& of_value,
                               const std::optional<Value>& bias) {
    Values out = {in_dtype(q.as_query(of_query)), in_dtype(of_key), in_dtype(of_value)};
    if (bias) {
      const Aval& aval = operands.bias->aval();
      out.push_back(lax::convert_element_type(q.as_operand(*bias, aval.shape), aval.dtype));
    }
    return out;
  };
  if (attention.block >= key.aval().shape[1]) {
    const Values sums = of_keys(constants, key, value, terms);
    return of_operands(sums[0], sums[1], sums[2], of_bias ? std::optional(sums[3]) : std::nullopt);
  }
  const Blocks blocks{key.aval().shape[1], attention.block};
  const TermsOfBlocks parts(terms, blocks);
  Values elements = {blocks.of(key, 1), blocks.of(value, 1), blocks.firsts(query)};
  constants.insert(constants.end(), parts.constants.begin(), parts.constants.end());
  elements.insert(elements.end(), parts.elements.begin(), parts.elements.end());
  Values carry = {ir::rules::zeros(query, {wide, q.shape_of_numbers(true)})};
  const bool is_of_all_keys = of_bias && of_bias->back() == 1;
  if (is_of_all_keys) carry.push_back(ir::rules::zeros(query, {wide, *of_bias}));
  const Values sums = for_each_block(constants, carry, elements, [&](const Values& all) {
    const std::span<const Value> c = std::span(all).first(constants.size()),
                                 before = std::span(all).subspan(constants.size(), carry.size()),
                                 v = std::span(all).subspan(constants.size() + carry.size());
    const Values some = of_keys(c, v[0], v[1], parts.of(c, v, v[2]));
    Values out = {lax::add(before[0], some[0])};
    if (is_of_all_keys) out.push_back(lax::add(before[1], some[3]));
    out.insert(out.end(), {in_dtype(some[1]), in_dtype(some[2])});
    if (of_bias && !is_of_all_keys) out.push_back(some[3]);
    return out;
  });
  const std::size_t next = carry.size();
  std::optional<Value> bias;
  if (of_bias) bias = is_of_all_keys ? sums[1] : blocks.joined(sums[next + 2], of_bias->size() - 1);
  return of_operands(sums[0], blocks.joined(sums[next], 1), blocks.joined(sums[next + 1], 1), bias);
}

}  // namespace lockstep::transforms
