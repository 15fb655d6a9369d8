// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tests/fuzz/generator.h"

namespace lockstep::fuzz {
namespace {

int bits_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 11;
    case DType::kBF16:
      return 8;
    case DType::kF64:
      return 53;
    default:
      return 24;
  }
}

double largest(DType dtype) {
  if (dtype == DType::kBool) return 1;
  const int bits = static_cast<int>(8 * size_of(dtype)) - (info(dtype).kind == DTypeKind::kSigned ? 1 : 0);
  return std::ldexp(1.0, bits);
}

}  // namespace

std::optional<Shape> broadcast(const Shape& x, const Shape& y) {
  Shape out(std::max(x.size(), y.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t a = i < x.size() ? x[x.size() - 1 - i] : 1, b = i < y.size() ? y[y.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1) return std::nullopt;
    out[out.size() - 1 - i] = a == 1 ? b : a;
  }
  return out;
}

std::optional<DType> meet(DType x, DType y) {
  if (x == y || y == DType::kBool) return x;
  if (x == DType::kBool) return y;
  const DTypeKind a = info(x).kind, b = info(y).kind;
  if (a == b) {
    if (size_of(x) != size_of(y)) return size_of(x) > size_of(y) ? x : y;
    return DType::kF32;  // f16 and bf16
  }
  if (a == DTypeKind::kComplex || b == DTypeKind::kComplex) {
    if (x == DType::kF64 || y == DType::kF64) return std::nullopt;
    return DType::kC64;
  }
  if (a == DTypeKind::kFloat) return x;
  if (b == DTypeKind::kFloat) return y;
  return std::nullopt;
}

Value Generator::new_value(Type type, Fact fact) {
  program_.types.push_back(std::move(type));
  facts_.push_back(std::move(fact));
  return static_cast<Value>(program_.types.size()) - 1;
}

bool Generator::exact(Value v) {
  if (!is_inexact(dtype(v))) return true;
  const Fact& f = fact(v);
  return f.quantum < Fact::kInexact &&
         f.bound * std::ldexp(1.0, f.quantum) <= std::ldexp(1.0, bits_of(dtype(v)));
}

Value Generator::make(Scope& scope, Node node, Type type, Fact fact) {
  for (Value v : node.operands)
    fact.varying.insert(this->fact(v).varying.begin(), this->fact(v).varying.end());
  if (!is_inexact(type.dtype)) {
    fact.bound = std::min(fact.bound, largest(type.dtype));
    fact.quantum = 0;
  }
  const Value v = new_value(std::move(type), std::move(fact));
  if (!exact(v)) this->fact(v).quantum = Fact::kInexact;
  node.results = {v};
  scope.body.nodes.push_back(std::move(node));
  scope.visible.push_back(v);
  return v;
}

Value Generator::op(Scope& scope, std::string name, std::vector<Value> operands, Type type, Fact fact,
                    std::vector<std::int64_t> ints, std::vector<double> numbers, std::string text) {
  Node node;
  node.op = std::move(name);
  node.operands = std::move(operands);
  node.ints = std::move(ints);
  node.numbers = std::move(numbers);
  node.text = std::move(text);
  return make(scope, std::move(node), std::move(type), std::move(fact));
}

/// The facts about v's elements at other places.
Fact Generator::moved(Value v) { return {fact(v).bound, fact(v).quantum, {}}; }

/// One of the values, the newer the likelier.
std::optional<Value> Generator::pick(Scope& scope, const std::function<bool(Value)>& fits) {
  std::vector<Value> all;
  for (Value v : scope.visible) {
    if (fits(v)) all.push_back(v);
  }
  if (all.empty()) return std::nullopt;
  const auto n = static_cast<std::int64_t>(all.size());
  const std::int64_t back = std::min(random_.below(n), random_.below(n));
  return all[static_cast<std::size_t>(n - 1 - back)];
}

/// v times a power of two, so that it is not above `reach`; whole numbers as they are.
Value Generator::limit(Scope& scope, Value v, double reach) {
  if (!is_inexact(dtype(v)) || fact(v).bound <= reach) return v;
  const int k = static_cast<int>(std::ceil(std::log2(fact(v).bound / reach)));
  const int quantum = fact(v).quantum < Fact::kInexact ? fact(v).quantum + k : Fact::kInexact;
  return op(scope, "scale", {v}, type(v), {std::ldexp(fact(v).bound, -k), quantum, {}}, {},
            {std::ldexp(1.0, -k)});
}

/// v, made small where it has grown large.
Value Generator::tame(Scope& scope, Value v) { return fact(v).bound > 32 ? limit(scope, v, 4) : v; }

/// A whole number from 1 to 8, of any.
Value Generator::small_whole(Scope& scope, Value v) {
  if (!is(v, kI | kU) || fact(v).bound <= 64) return v;
  return op(scope, "mask", {v}, type(v), {8, 0, {}}, {7});
}

Value Generator::guard(Scope& scope, Value v, Needs needs, double reach) {
  if (reach > 0) v = limit(scope, v, reach);
  auto square_plus = [&](double offset) {
    v = limit(scope, v, 2);
    v = op(scope, "square", {v}, type(v), {fact(v).bound * fact(v).bound, Fact::kInexact, {}});
    return op(scope, "offset", {v}, type(v), {fact(v).bound + offset, Fact::kInexact, {}}, {}, {offset});
  };
  switch (needs) {
    case Needs::kAny:
      return v;
    case Needs::kPositive:
      return square_plus(0.5);
    case Needs::kAboveOne:
      return square_plus(1.5);
    case Needs::kUnit:
      return limit(scope, v, 0.75);
    case Needs::kDivisor:
      if (is(v, kI | kU)) return op(scope, "mask", {v}, type(v), {4, 0, {}}, {3});
      return square_plus(0.5);
  }
  return v;
}

Value Generator::constant(Scope& scope, const Type& type) {
  if (!type.shape.empty() && type.dtype != DType::kBool && random_.percent(50)) {
    // 0, 1, 2, ... along one dimension.
    const auto d = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(type.shape.size())));
    std::vector<std::int64_t> ints{type.shape[d]};
    for (std::size_t i = 0; i < type.shape.size(); ++i) ints.push_back(i == d ? type.shape[d] : 1);
    return op(scope, "iota", {}, type, {9, 0, {}}, ints);
  }
  const double value = type.dtype == DType::kBool ? static_cast<double>(random_.below(2))
                       : is_inexact(type.dtype)   ? static_cast<double>(random_.within(-8, 8)) / 4
                                                  : static_cast<double>(random_.within(0, 5));
  return op(scope, "full", {}, type, {std::abs(value), 2, {}}, {}, {value});
}

Value Generator::convert(Scope& scope, Value v, DType to) {
  if (dtype(v) == to) return v;
  if (is_inexact(to)) v = small_whole(scope, v);
  if (is(v, kC) && !(to == DType::kC64)) {
    v = op(scope, "real", {v}, {DType::kF32, shape(v)}, moved(v));
    if (to == DType::kF32) return v;
  }
  return op(scope, "astype", {v}, {to, shape(v)}, moved(v));
}

/// A value of this type, made of what there is.
Value Generator::match(Scope& scope, const Type& wanted) {
  if (auto v = pick(scope, [&](Value v) { return type(v) == wanted; })) return *v;
  const unsigned wanted_class = dtype_class(wanted.dtype);
  auto may_convert = [&](Value v) {
    if (dtype(v) == wanted.dtype) return true;
    if ((wanted_class & (kF | kC)) != 0) return is(v, kB | kI | kU | kF) || wanted_class == kC;
    return is(v, kB | kI | kU) && wanted_class != kB;
  };
  auto v = pick(scope,
                [&](Value v) { return may_convert(v) && broadcast(shape(v), wanted.shape) == wanted.shape; });
  if (!v) {
    v = pick(scope, [&](Value v) { return may_convert(v) && !is(v, kB); });
    if (!v) return constant(scope, wanted);
    std::vector<std::int64_t> ints{0};
    for (std::int64_t d = 0; d < rank(*v); ++d) ints.push_back(d);
    Fact of_sum = moved(*v);
    of_sum.bound *= static_cast<double>(num_elements(shape(*v)));
    const DType sum_dtype = !is(*v, kI | kU) || size_of(dtype(*v)) >= 4 ? dtype(*v)
                            : is(*v, kI)                                ? DType::kI32
                                                                        : DType::kU32;
    v = op(scope, "sum", {*v}, {sum_dtype, {}}, of_sum, ints);
    v = tame(scope, *v);
  }
  Value made = convert(scope, *v, wanted.dtype);
  if (shape(made) != wanted.shape) made = op(scope, "broadcast_to", {made}, wanted, moved(made));
  return made;
}

}  // namespace lockstep::fuzz
