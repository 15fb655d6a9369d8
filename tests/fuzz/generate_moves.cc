// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "tests/fuzz/generator.h"

namespace lockstep::fuzz {

bool Generator::rearrange(Scope& scope) {
  auto x = pick(scope, [&](Value) { return true; });
  if (!x) return false;
  const Value v = *x;
  const Shape& s = shape(v);
  const std::int64_t n = rank(v);
  Fact f = moved(v);
  switch (random_.below(11)) {
    case 0: {  // reshape: all in one dimension, or two neighbours in one, or one in two
      Shape out;
      if (n >= 2 && random_.percent(50)) {
        const auto d = static_cast<std::size_t>(random_.below(n - 1));
        out = s;
        out[d] *= out[d + 1];
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(d) + 1);
      } else if (n >= 1 && random_.percent(50)) {
        const auto d = static_cast<std::size_t>(random_.below(n));
        std::vector<std::int64_t> divisors;
        for (std::int64_t k = 1; k <= 4; ++k) {
          if (s[d] % k == 0) divisors.push_back(k);
        }
        const std::int64_t k = random_.pick(divisors);
        out = s;
        out[d] /= k;
        out.insert(out.begin() + static_cast<std::ptrdiff_t>(d) + random_.below(2), k);
      } else {
        out = {num_elements(s)};
      }
      if (!fits(out)) return false;
      op(scope, "reshape", {v}, {dtype(v), out}, f);
      return true;
    }
    case 1: {
      if (n < 2) return false;
      std::vector<std::int64_t> axes(static_cast<std::size_t>(n));
      std::iota(axes.begin(), axes.end(), 0);
      for (std::size_t i = axes.size(); i > 1; --i)
        std::swap(axes[i - 1], axes[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i)))]);
      Shape out;
      for (std::int64_t a : axes) out.push_back(s[static_cast<std::size_t>(a)]);
      op(scope, "transpose", {v}, {dtype(v), out}, f, axes);
      return true;
    }
    case 2: {
      if (n < 2) return false;
      const std::int64_t a = random_.below(n), b = random_.below(n);
      Shape out = s;
      std::swap(out[static_cast<std::size_t>(a)], out[static_cast<std::size_t>(b)]);
      op(scope, "swapaxes", {v}, {dtype(v), out}, f, {a, b});
      return true;
    }
    case 3: {
      if (n > 3) return false;
      const std::int64_t d = random_.below(n + 1);
      Shape out = s;
      out.insert(out.begin() + d, 1);
      op(scope, "expand_dims", {v}, {dtype(v), out}, f, {d});
      return true;
    }
    case 4: {
      for (std::int64_t d = 0; d < n; ++d) {
        if (s[static_cast<std::size_t>(d)] != 1) continue;
        Shape out = s;
        out.erase(out.begin() + d);
        op(scope, "squeeze", {v}, {dtype(v), out}, f, {d});
        return true;
      }
      return false;
    }
    case 5: {
      if (n > 2) return false;
      Shape out = s;
      for (std::int64_t& size : out) {
        if (size == 1) size = random_.pick(sizes_);
      }
      out.insert(out.begin(), random_.pick(sizes_));
      if (!fits(out)) return false;
      op(scope, "broadcast_to", {v}, {dtype(v), out}, f);
      return true;
    }
    case 6: {
      if (n < 1) return false;
      const std::int64_t axis = random_.below(n);
      op(scope, "roll", {v}, type(v), f, {random_.within(-3, 3), axis});
      return true;
    }
    case 7: {
      if (n < 1) return false;
      Shape out = s;
      std::vector<std::int64_t> ints;
      for (std::int64_t& size : out) {
        ints.push_back(random_.within(1, 2));
        size *= ints.back();
      }
      if (!fits(out)) return false;
      op(scope, "tile", {v}, {dtype(v), out}, f, ints);
      return true;
    }
    case 8: {
      if (n < 1) return false;
      const std::int64_t axis = random_.below(n), times = random_.within(1, 3);
      Shape out = s;
      out[static_cast<std::size_t>(axis)] *= times;
      if (!fits(out)) return false;
      op(scope, "repeat", {v}, {dtype(v), out}, f, {times, axis});
      return true;
    }
    case 9:
      if (n < 2) return false;
      op(scope, random_.percent(50) ? "tril" : "triu", {v}, type(v), f, {random_.within(-1, 1)});
      return true;
    default: {
      if (n < 2 || s[0] == 0 || s[1] == 0) return false;
      const std::int64_t offset = random_.within(-1, 1);
      Shape out(s.begin() + 2, s.end());
      const std::int64_t rows = offset < 0 ? s[0] + offset : s[0],
                         columns = offset > 0 ? s[1] - offset : s[1];
      out.push_back(std::max<std::int64_t>(0, std::min(rows, columns)));
      op(scope, "diagonal", {v}, {dtype(v), out}, f, {offset});
      return true;
    }
  }
}

bool Generator::join(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return rank(v) > 0; });
  if (!x) return false;
  const std::int64_t axis = random_.below(rank(*x));
  const bool stacked = random_.percent(30);
  std::vector<Value> all{*x};
  Fact f = moved(*x);
  for (std::int64_t more = random_.within(1, 2); more > 0; --more) {
    auto y = pick(scope, [&](Value v) {
      if (dtype(v) != dtype(*x) || rank(v) != rank(*x)) return false;
      for (std::size_t d = 0; d < shape(v).size(); ++d) {
        if (shape(v)[d] != shape(*x)[d] && (stacked || static_cast<std::int64_t>(d) != axis)) return false;
      }
      return true;
    });
    all.push_back(*y);
    f.bound = std::max(f.bound, fact(*y).bound);
    f.quantum = std::max(f.quantum, fact(*y).quantum);
  }
  Shape out = shape(*x);
  if (stacked) {
    out.insert(out.begin() + axis, static_cast<std::int64_t>(all.size()));
  } else {
    out[static_cast<std::size_t>(axis)] = 0;
    for (Value v : all) out[static_cast<std::size_t>(axis)] += shape(v)[static_cast<std::size_t>(axis)];
  }
  if (!fits(out)) return false;
  op(scope, stacked ? "stack" : "concatenate", all, {dtype(*x), out}, f, {axis});
  return true;
}

bool Generator::cut(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return rank(v) > 0; });
  if (!x) return false;
  const Value v = *x;
  const Shape& s = shape(v);
  Fact f = moved(v);
  switch (random_.below(5)) {
    case 0: {
      std::vector<std::int64_t> starts, limits, strides;
      Shape out;
      for (std::int64_t size : s) {
        starts.push_back(random_.below(size / 2 + 1));
        limits.push_back(random_.within(starts.back(), size));
        strides.push_back(random_.within(1, 2));
        out.push_back((limits.back() - starts.back() + strides.back() - 1) / strides.back());
      }
      starts.insert(starts.end(), limits.begin(), limits.end());
      starts.insert(starts.end(), strides.begin(), strides.end());
      op(scope, "slice", {v}, {dtype(v), out}, f, starts);
      return true;
    }
    case 1: {
      if (s[0] == 0) return false;
      op(scope, "index", {v}, {dtype(v), {s.begin() + 1, s.end()}}, f, {random_.within(-s[0], s[0] - 1)});
      return true;
    }
    case 2: {
      std::vector<std::int64_t> before, after;
      Shape out = s;
      for (std::int64_t& size : out) {
        before.push_back(random_.within(0, 2));
        after.push_back(random_.within(0, 2));
        size += before.back() + after.back();
      }
      if (!fits(out) || dtype(v) == DType::kBool) return false;
      before.insert(before.end(), after.begin(), after.end());
      op(scope, "pad", {v}, {dtype(v), out}, f, before, {static_cast<double>(random_.below(2))});
      return true;
    }
    case 3: {
      if (!is(v, kI | kF)) return false;
      const std::int64_t axis = random_.below(rank(v));
      Shape out = s;
      auto& size = out[static_cast<std::size_t>(axis)];
      if (size == 0) return false;
      --size;
      f.bound *= 2;
      tame(scope, op(scope, "diff", {v}, {dtype(v), out}, f, {axis}));
      return true;
    }
    default: {
      const std::int64_t start = random_.within(-2, 2), stop = random_.within(1, s[0] + 1),
                         step = random_.within(1, 2);
      const std::int64_t from = std::clamp<std::int64_t>(start < 0 ? start + s[0] : start, 0, s[0]);
      const std::int64_t to = std::clamp<std::int64_t>(stop, 0, s[0]);
      Shape out = s;
      out[0] = to > from ? (to - from + step - 1) / step : 0;
      op(scope, "part", {v}, {dtype(v), out}, f, {start, stop, step});
      return true;
    }
  }
}

bool Generator::indexed(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return rank(v) > 0 && !empty(shape(v)); });
  if (!x) return false;
  const Value v = *x;
  const Shape s = shape(v);
  Fact f = moved(v);
  auto whole = [&](std::int64_t most_dimensions) {
    auto i = pick(scope, [&](Value i) {
      return (dtype(i) == DType::kI32 || dtype(i) == DType::kI64 || dtype(i) == DType::kU8) &&
             rank(i) <= most_dimensions;
    });
    if (i && random_.percent(50)) return *i;
    if (decides_ && random_.percent(40)) return index(scope);
    return constant(
        scope,
        {DType::kI32, most_dimensions > 0 && random_.percent(60) ? Shape{random_.within(1, 4)} : Shape{}});
  };
  switch (random_.below(9)) {
    case 0: {
      std::vector<Value> operands{v};
      Shape out;
      for (std::int64_t size : s) {
        operands.push_back(whole(0));
        if (dtype(operands.back()) != DType::kI32)
          operands.back() = convert(scope, operands.back(), DType::kI32);
        out.push_back(random_.within(0, size));
      }
      op(scope, "dynamic_slice", operands, {dtype(v), out}, f);
      return true;
    }
    case 1: {
      Shape part;
      std::vector<Value> starts;
      for (std::int64_t size : s) {
        starts.push_back(whole(0));
        if (dtype(starts.back()) != DType::kI32) starts.back() = convert(scope, starts.back(), DType::kI32);
        part.push_back(random_.within(0, size));
      }
      const Value update = match(scope, {dtype(v), part});
      f.bound = std::max(f.bound, fact(update).bound);
      f.quantum = std::max(f.quantum, fact(update).quantum);
      std::vector<Value> operands{v, update};
      operands.insert(operands.end(), starts.begin(), starts.end());
      op(scope, "dynamic_update_slice", operands, type(v), f);
      return true;
    }
    case 2: {
      const Value i = whole(2);
      const std::int64_t axis = random_.below(rank(v));
      Shape out = s;
      out.erase(out.begin() + axis);
      out.insert(out.begin() + axis, shape(i).begin(), shape(i).end());
      if (!fits(out)) return false;
      op(scope, "take", {v, i}, {dtype(v), out}, f, {axis});
      return true;
    }
    case 3: {
      const Value i = whole(2);
      Shape out = shape(i);
      out.insert(out.end(), s.begin() + 1, s.end());
      if (!fits(out)) return false;
      op(scope, "gather", {v, i}, {dtype(v), out}, f);
      return true;
    }
    case 4: {
      if (!is(v, kI | kF)) return false;
      const std::int64_t axis = random_.below(rank(v));
      Shape indices = s;
      indices[static_cast<std::size_t>(axis)] = random_.within(1, 3);
      const Value i = constant(scope, {DType::kI32, indices});
      op(scope, "take_along_axis", {v, i}, {dtype(v), indices}, f, {axis});
      return true;
    }
    case 5: {  // of several values for one element which one stays is not said: one place
      const Value i = whole(0);
      const Value update = match(scope, {dtype(v), {s.begin() + 1, s.end()}});
      f.bound = std::max(f.bound, fact(update).bound);
      f.quantum = std::max(f.quantum, fact(update).quantum);
      op(scope, "set_at", {v, i, update}, type(v), f);
      return true;
    }
    case 6: {
      if (!is(v, kI | kU | kF)) return false;
      const Value i = whole(1);
      Shape rows = shape(i);
      rows.insert(rows.end(), s.begin() + 1, s.end());
      if (!fits(rows)) return false;
      const Value update = match(scope, {dtype(v), rows});
      f.bound += fact(update).bound * static_cast<double>(std::max<std::int64_t>(1, num_elements(shape(i))));
      f.quantum = std::max(f.quantum, fact(update).quantum);
      tame(scope, op(scope, "add_at", {v, i, update}, type(v), f));
      return true;
    }
    case 7: {
      if (!is(v, kF)) return false;
      const Value ids = constant(scope, {DType::kI32, {s[0]}});
      Shape out = s;
      out[0] = random_.within(1, 4);
      f.bound *= static_cast<double>(s[0]);
      tame(scope, op(scope, "segment_sum", {v, ids}, {dtype(v), out}, f, {out[0]}));
      return true;
    }
    default: {
      const std::int64_t last = s.back();
      if (!is(v, kF | kI) || !exact(v)) return false;
      const std::int64_t k = random_.within(1, last);
      Shape out = s;
      out.back() = k;
      op(scope, "top_k", {v}, {dtype(v), out}, f, {k});
      return true;
    }
  }
}

/// x with a part set to what is computed of another part of it: the classic stencil.
bool Generator::stencil(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return is(v, kF) && rank(v) > 0 && shape(v)[0] >= 2; });
  if (!x) return false;
  Value v = *x;
  if (random_.percent(50)) {
    v = op(scope, "cumsum", {v}, type(v),
           {fact(v).bound * static_cast<double>(shape(v)[0]), fact(v).quantum, {}}, {0, 0});
    v = tame(scope, v);
  }
  Shape part = shape(v);
  const std::int64_t n = part[0];
  part[0] = n - 1;
  Value from = op(scope, "part", {v}, {dtype(v), part}, moved(v), {0, n - 1, 1});
  from = limit(scope, from, 4);
  from = op(scope, random_.percent(50) ? "sin" : "square", {from}, type(from), {16, Fact::kInexact, {}});
  const bool set = random_.percent(60);
  tame(scope, op(scope, set ? "set_part" : "add_part", {v, from}, type(v),
                 {16 + fact(v).bound, Fact::kInexact, {}}, {1, n, 1}));
  return true;
}

bool Generator::product(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return is(v, kI | kF | kC) && rank(v) >= 1 && rank(v) <= 3; });
  if (!x) return false;
  Value a = is(*x, kF | kC) ? limit(scope, *x, 4) : *x;
  const std::int64_t k = shape(a).back();
  auto result = [&](const char* name, std::vector<Value> operands, Shape out, std::int64_t terms,
                    std::vector<std::int64_t> ints = {}, std::string text = {}) {
    if (!fits(out)) return false;
    Fact f{static_cast<double>(std::max<std::int64_t>(1, terms)), 0, {}};
    for (Value v : operands) {
      f.bound *= fact(v).bound;
      f.quantum = fact(v).quantum < Fact::kInexact && f.quantum < Fact::kInexact ? f.quantum + fact(v).quantum
                                                                                 : Fact::kInexact;
    }
    tame(scope,
         op(scope, name, operands, {dtype(operands[0]), out}, f, std::move(ints), {}, std::move(text)));
    return true;
  };
  auto fitting = [&](Shape wanted) {
    const Value v = match(scope, {dtype(a), std::move(wanted)});
    return is(v, kF | kC) ? limit(scope, v, 4) : v;
  };
  switch (random_.below(7)) {
    case 0: {  // a matrix on the right
      const std::int64_t n = random_.pick(sizes_);
      Shape out = shape(a);
      out.back() = n;
      return result("matmul", {a, fitting({k, n})}, out, k);
    }
    case 1: {
      Shape out(shape(a).begin(), shape(a).end() - 1);
      return result("dot", {a, fitting({k})}, out, k);
    }
    case 2: {  // batches
      if (rank(a) != 3) return false;
      const Shape s = shape(a);
      const std::int64_t n = random_.pick(sizes_);
      return result("einsum", {a, fitting({s[0], s[2], n})}, {s[0], n, s[1]}, s[2], {}, "bij,bjk->bki");
    }
    case 3: {
      if (rank(a) != 2) return false;
      const Shape s = shape(a);
      const std::int64_t n = random_.pick(sizes_);
      return result("einsum", {a, fitting({n, s[1]})}, {s[0], n}, s[1], {}, "ij,kj->ik");
    }
    case 4: {
      if (rank(a) != 2) return false;
      const Shape s = shape(a);
      return random_.percent(50) ? result("einsum", {a}, {s[1], s[0]}, 1, {}, "ij->ji")
                                 : result("einsum", {a, fitting(s)}, {s[1]}, s[0], {}, "ij,ij->j");
    }
    case 5: {
      if (rank(a) != 1) return false;
      auto y = pick(scope, [&](Value v) { return dtype(v) == dtype(a) && rank(v) == 1; });
      const Value b = is(*y, kF | kC) ? limit(scope, *y, 4) : *y;
      return result("outer", {a, b}, {shape(a)[0], shape(b)[0]}, 1);
    }
    default: {
      if (rank(a) < 2) return false;
      const Shape s = shape(a);
      Shape wanted(s.end() - 2, s.end());
      const std::int64_t terms = num_elements(wanted);
      const std::int64_t n = random_.pick(sizes_);
      wanted.push_back(n);
      Shape out(s.begin(), s.end() - 2);
      out.push_back(n);
      return result("tensordot", {a, fitting(wanted)}, out, terms, {2});
    }
  }
}

bool Generator::window(Scope& scope) {
  auto x = pick(scope, [&](Value v) {
    return dtype(v) == DType::kF32 && rank(v) == 3 && shape(v)[0] > 0 && shape(v)[1] >= 2 && shape(v)[2] > 0;
  });
  if (!x) return false;
  const Shape s = shape(*x);
  if (random_.percent(50)) {
    const Value kernel = limit(scope, match(scope, {DType::kF32, {2, s[2], 2}}), 4);
    const Value v = limit(scope, *x, 4);
    tame(scope, op(scope, "conv", {v, kernel}, {DType::kF32, {s[0], s[1], 2}},
                   {16.0 * 2 * static_cast<double>(s[2]), Fact::kInexact, {}}));
  } else if (exact(*x) && random_.percent(50)) {
    op(scope, "max_pool", {*x}, {DType::kF32, {s[0], s[1] - 1, s[2]}}, moved(*x), {2});
  } else {
    op(scope, "avg_pool", {*x}, {DType::kF32, {s[0], s[1] - 1, s[2]}}, {fact(*x).bound, Fact::kInexact, {}},
       {2});
  }
  return true;
}

/// Decomposes matrices that are symmetric and far from singular: x xᵀ / 4 + 2.
bool Generator::decomposition(Scope& scope) {
  auto x = pick(scope, [&](Value v) {
    return (dtype(v) == DType::kF32 || dtype(v) == DType::kF64) && rank(v) == 2 && shape(v)[0] > 0 &&
           shape(v)[0] <= 5 && shape(v)[1] > 0;
  });
  if (!x) return false;
  const Value v = limit(scope, *x, 2);
  const std::int64_t n = shape(v)[0], terms = shape(v)[1];
  const Type square{dtype(v), {n, n}};
  const Fact f{static_cast<double>(4 * terms), Fact::kInexact, {}};
  const Value turned = op(scope, "transpose", {v}, {dtype(v), {terms, n}}, moved(v), {1, 0});
  Value m = op(scope, "matmul", {v, turned}, square, f);
  m = op(scope, "scale", {m}, square, {f.bound / 4, Fact::kInexact, {}}, {}, {0.25});
  const Value eye = op(scope, "eye", {}, square, {1, 0, {}}, {n, n});
  const Value twice = op(scope, "scale", {eye}, square, {2, 0, {}}, {}, {2.0});
  m = op(scope, "add", {m, twice}, square, {f.bound / 4 + 2, Fact::kInexact, {}});
  switch (random_.below(4)) {
    case 0:
      op(scope, "cholesky", {m}, square, {f.bound, Fact::kInexact, {}});
      break;
    case 1:
      op(scope, "inv", {m}, square, {1, Fact::kInexact, {}});
      break;
    case 2: {
      const Value right = limit(scope, match(scope, {dtype(v), {n, 2}}), 2);
      op(scope, "solve", {m, right}, {dtype(v), {n, 2}}, {4, Fact::kInexact, {}});
      break;
    }
    default:
      settle(scope, op(scope, "det", {m}, {dtype(v), {}}, {1e6, Fact::kInexact, {}}), 1);
  }
  return true;
}

}  // namespace lockstep::fuzz
