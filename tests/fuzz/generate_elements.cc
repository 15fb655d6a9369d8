// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tests/fuzz/generator.h"

namespace lockstep::fuzz {
namespace {

std::vector<const Operation*> family(Family family) {
  std::vector<const Operation*> all;
  for (const Operation& each : operations()) {
    if (each.family == family) all.push_back(&each);
  }
  return all;
}

/// The dtype of sums: of narrow whole numbers a wider one.
DType sum_dtype(DType dtype) {
  switch (info(dtype).kind) {
    case DTypeKind::kBool:
      return DType::kI32;
    case DTypeKind::kSigned:
      return size_of(dtype) < 4 ? DType::kI32 : dtype;
    case DTypeKind::kUnsigned:
      return size_of(dtype) < 4 ? DType::kU32 : dtype;
    default:
      return dtype;
  }
}

DType result_dtype(const Operation& op, DType dtype) {
  switch (op.gives) {
    case Gives::kSame:
      return dtype;
    case Gives::kBool:
      return DType::kBool;
    case Gives::kReal:
      return DType::kF32;
    case Gives::kComplex:
      return DType::kC64;
    case Gives::kSum:
      return sum_dtype(dtype);
    case Gives::kPlace:
      return DType::kI32;
    case Gives::kByte:
      return DType::kU8;
  }
  return dtype;
}

int quantum(const Operation& op, int x) {
  if (op.exact == Exact::kWhole) return 0;
  if (op.exact == Exact::kNo || x >= Fact::kInexact) return Fact::kInexact;
  return op.exact == Exact::kSquare ? 2 * x : x;
}

}  // namespace

bool Generator::unary(Scope& scope) {
  static const auto* const all = new auto(family(Family::kUnary));
  const Operation& o = *random_.pick(*all);
  auto x = pick(scope, [&](Value v) { return is(v, o.dtypes) && (o.smooth || exact(v)); });
  if (!x) return false;
  const Value v = guard(scope, *x, o.needs, o.reach);
  op(scope, std::string(o.name), {v}, {result_dtype(o, dtype(v)), shape(v)},
     {o.gain * fact(v).bound + o.offset, quantum(o, fact(v).quantum), {}});
  return true;
}

bool Generator::binary(Scope& scope) {
  static const auto* const all = new auto(family(Family::kBinary));
  const Operation& o = *random_.pick(*all);
  auto takes = [&](Value v) { return is(v, o.dtypes) && (o.smooth || exact(v)); };
  auto x = pick(scope, takes);
  if (!x) return false;
  const bool mixed = random_.percent(30);
  auto y = pick(scope, [&](Value v) {
    if (!takes(v) || (mixed ? !meet(dtype(*x), dtype(v)) : dtype(*x) != dtype(v))) return false;
    const auto shape_of_both = broadcast(shape(*x), shape(v));
    return shape_of_both && fits(*shape_of_both);
  });
  if (!y) {
    Shape part = shape(*x);
    part.erase(part.begin(), part.begin() + random_.below(rank(*x) + 1));
    y = constant(scope, {dtype(*x), part});
  }
  DType together = *meet(dtype(*x), dtype(*y));
  if ((dtype_class(together) & o.dtypes) == 0) return false;
  Value a = *x, b = *y;
  if (is_inexact(together)) {
    a = small_whole(scope, a);
    b = small_whole(scope, b);
  }
  const bool logic = o.gives == Gives::kBool;
  if (o.needs == Needs::kDivisor) {
    if (is(a, kB) || is(b, kB)) return false;
    a = guard(scope, a, Needs::kAny, o.reach);
    b = guard(scope, b, o.needs, o.reach);
  } else {
    if (is(a, kI | kU) && o.reach > 8 && !is_inexact(together)) {  // gcd
      a = op(scope, "mask", {a}, type(a), {8, 0, {}}, {7});
      b = op(scope, "mask", {b}, type(b), {8, 0, {}}, {7});
    }
    if (is(a, kF | kC)) a = guard(scope, a, o.needs, o.reach);
    if (is(b, kF | kC)) b = guard(scope, b, o.needs, o.reach);
    if (o.needs != Needs::kAny && (!is(a, kF) || !is(b, kF))) return false;
  }
  if (!o.smooth && (!exact(a) || !exact(b))) return false;
  // Both in the dtype in which they meet must still be exact.
  const double larger = std::max(fact(a).bound, fact(b).bound);
  const int q = std::max(fact(a).quantum, fact(b).quantum);
  if (!o.smooth && is_inexact(together)) {
    const int bits = together == DType::kF16 ? 11 : together == DType::kBF16 ? 8 : 24;
    if (larger * std::ldexp(1.0, q) > std::ldexp(1.0, bits)) return false;
  }
  const Shape out = *broadcast(shape(a), shape(b));
  const Value v = op(scope, std::string(o.name), {a, b}, {logic ? DType::kBool : together, out},
                     {o.name == "power" ? 30 : o.gain * larger + o.offset, quantum(o, q), {}});
  tame(scope, v);
  return true;
}

bool Generator::with_number(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return is(v, kI | kU | kF); });
  if (!x) return false;
  const Fact& f = fact(*x);
  auto grown = [&](double bound, int more) {
    return Fact{bound, f.quantum < Fact::kInexact ? f.quantum + more : Fact::kInexact, {}};
  };
  switch (random_.below(4)) {
    case 0:
      if (!is(*x, kF)) {
        const std::int64_t k = random_.within(1, 3);
        op(scope, "scale_whole", {*x}, type(*x), grown(f.bound * static_cast<double>(k), 0), {k});
      } else {
        const double by = static_cast<double>(random_.within(-6, 6)) / 4;
        op(scope, "scale", {*x}, type(*x), grown(f.bound * std::abs(by), 2), {}, {by});
      }
      return true;
    case 1:
      if (!is(*x, kF)) {
        const std::int64_t k = random_.within(0, 5);
        op(scope, "offset_whole", {*x}, type(*x), grown(f.bound + static_cast<double>(k), 0), {k});
      } else {
        const double by = static_cast<double>(random_.within(-6, 6)) / 4;
        const int q = f.quantum < Fact::kInexact ? std::max(f.quantum, 2) : Fact::kInexact;
        op(scope, "offset", {*x}, type(*x), {f.bound + std::abs(by), q, {}}, {}, {by});
      }
      return true;
    case 2: {
      const Value v = is(*x, kF) ? limit(scope, *x, 2) : *x;
      const std::int64_t n = random_.within(0, 3);
      const int q = fact(v).quantum < Fact::kInexact ? fact(v).quantum * static_cast<int>(n) : Fact::kInexact;
      op(scope, "integer_power", {v}, type(v), {std::max(1.0, std::pow(fact(v).bound, n)), q, {}}, {n});
      return true;
    }
    default: {
      if (!is(*x, kF) || !exact(*x)) return false;
      const double low = static_cast<double>(random_.within(-6, 0)) / 4;
      const double high = low + static_cast<double>(random_.within(0, 8)) / 4;
      op(scope, "clip", {*x}, type(*x), {std::max(std::abs(low), std::abs(high)), std::max(f.quantum, 2), {}},
         {}, {low, high});
      return true;
    }
  }
}

bool Generator::reduce(Scope& scope) {
  static const auto* const all = new auto(family(Family::kReduce));
  const Operation& o = *random_.pick(*all);
  const bool not_of_none =
      o.name == "max" || o.name == "min" || o.name == "mean" || o.name == "var" || o.name == "logsumexp";
  auto x = pick(scope, [&](Value v) {
    return is(v, o.dtypes) && (o.smooth || exact(v)) && rank(v) > 0 && !(not_of_none && empty(shape(v)));
  });
  if (!x) return false;
  const Value v = is(*x, kF | kC) ? guard(scope, *x, o.needs, o.reach) : *x;
  const bool keep = random_.percent(30);
  std::vector<std::int64_t> ints{keep ? 1 : 0};
  const std::int64_t always = random_.below(rank(v));
  Shape out;
  double count = 1;
  for (std::int64_t d = 0; d < rank(v); ++d) {
    if (d == always || random_.percent(30)) {
      ints.push_back(d);
      count *= static_cast<double>(shape(v)[static_cast<std::size_t>(d)]);
      if (keep) out.push_back(1);
    } else {
      out.push_back(shape(v)[static_cast<std::size_t>(d)]);
    }
  }
  double bound = o.gain * fact(v).bound + o.offset;
  if (o.name == "sum") bound *= std::max(1.0, count);
  if (o.name == "prod" && !is_inexact(dtype(v))) bound = 1e30;
  if (o.name == "prod") bound = std::max(bound, 1.0);
  const Value r = op(scope, std::string(o.name), {v}, {result_dtype(o, dtype(v)), out},
                     {bound, quantum(o, fact(v).quantum), {}}, ints);
  tame(scope, r);
  return true;
}

bool Generator::along_axis(Scope& scope) {
  static const auto* const all = [] {
    auto* both = new auto(family(Family::kAxis));
    for (const Operation* each : family(Family::kCumulative)) both->push_back(each);
    return both;
  }();
  const Operation& o = *random_.pick(*all);
  const bool not_of_none = o.name == "argmax" || o.name == "argmin" || o.name == "standardize";
  auto x = pick(scope, [&](Value v) {
    return is(v, o.dtypes) && (o.smooth || exact(v)) && rank(v) > 0 && !(not_of_none && empty(shape(v)));
  });
  if (!x) return false;
  Value v = is(*x, kF | kC) ? guard(scope, *x, o.needs, o.reach) : *x;
  // Equal elements take shares of the derivative that depend on the order in which pairs are joined.
  if ((o.name == "cummax" || o.name == "cummin") && is(v, kF))
    v = op(scope, "stop_gradient", {v}, Type(type(v)), moved(v));
  const std::int64_t axis = random_.below(rank(v));
  const auto size = shape(v)[static_cast<std::size_t>(axis)];
  std::vector<std::int64_t> ints{axis};
  if (o.family == Family::kCumulative) ints.push_back(random_.below(2));
  double bound = o.gain * fact(v).bound + o.offset;
  if (o.name == "cumsum") bound *= std::max(1.0, static_cast<double>(size));
  if (o.name == "cumprod") bound = is_inexact(dtype(v)) ? std::max(1.0, bound) : 1e30;
  Shape out = shape(v);
  if (o.name == "argmax" || o.name == "argmin") out.erase(out.begin() + axis);
  const Value r = op(scope, std::string(o.name), {v}, {result_dtype(o, dtype(v)), out},
                     {bound, quantum(o, fact(v).quantum), {}}, ints);
  tame(scope, r);
  return true;
}

bool Generator::fourier(Scope& scope) {
  static const auto* const all = new auto(family(Family::kFourier));
  const Operation& o = *random_.pick(*all);
  auto x = pick(scope, [&](Value v) {
    return is(v, o.dtypes) && rank(v) > 0 && !empty(shape(v)) &&
           (o.gives != Gives::kComplex || dtype(v) == DType::kF32);
  });
  if (!x) return false;
  const std::int64_t axis = random_.below(rank(*x)), size = shape(*x)[static_cast<std::size_t>(axis)];
  Shape out = shape(*x);
  if (o.name == "rfft") out[static_cast<std::size_t>(axis)] = size / 2 + 1;
  if (o.name == "irfft") out[static_cast<std::size_t>(axis)] = 2 * (size - 1);
  if (empty(out) || !fits(out)) return false;
  const Value v = guard(scope, *x, o.needs, o.reach);
  const double bound = fact(v).bound * (o.name.starts_with('i') ? 1 : static_cast<double>(size));
  tame(scope, op(scope, std::string(o.name), {v}, {result_dtype(o, dtype(v)), out},
                 {bound, Fact::kInexact, {}}, {axis}));
  return true;
}

bool Generator::choice(Scope& scope) {
  auto condition = pick(scope, [&](Value v) { return is(v, kB); });
  auto x = pick(scope, [&](Value v) { return is(v, kI | kU | kF | kC); });
  if (!condition || !x) return false;
  auto y = pick(scope, [&](Value v) { return dtype(v) == dtype(*x) && broadcast(shape(*x), shape(v)); });
  const auto both = broadcast(shape(*x), shape(*y));
  const auto out = broadcast(*both, shape(*condition));
  if (!out || !fits(*out)) return false;
  op(scope, "where", {*condition, *x, *y}, {dtype(*x), *out},
     {std::max(fact(*x).bound, fact(*y).bound), std::max(fact(*x).quantum, fact(*y).quantum), {}});
  return true;
}

bool Generator::conversion(Scope& scope) {
  const DType to = random_.pick(dtypes_);
  auto x = pick(scope, [&](Value v) {
    if (dtype(v) == to || is(v, kC)) return false;
    if (is_inexact(to)) return true;
    // To whole numbers and bools: of numbers that are known exactly, and lie within.
    if (!exact(v)) return false;
    return !is(v, kF) || to == DType::kBool || (dtype_class(to) == kI && fact(v).bound < 100);
  });
  if (!x) return false;
  const Value v = is_inexact(to) ? small_whole(scope, *x) : *x;
  Fact f = moved(v);
  if (!is_inexact(to)) f.quantum = 0;
  if (is(v, kI | kU) && !is_inexact(to)) f.bound = 1e30;
  op(scope, "astype", {v}, {to, shape(v)}, f);
  return true;
}

}  // namespace lockstep::fuzz
