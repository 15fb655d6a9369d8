// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tests/fuzz/generator.h"

// Values that decide: conditions of loops, predicates, numbers of branches and steps, indices, keys to sort
// by. They depend on values that devices have parts of, that were moved, padded or gathered, and that loops
// carry. All of them are exact, so that every order of computing decides alike.

namespace lockstep::fuzz {

/// An exact i32, f32 or f64 of any shape, that has no derivative.
std::optional<Value> Generator::decisive(Scope& scope) {
  auto fits = [&](Value v) { return exact(v) && fact(v).bound <= 1e6; };
  std::optional<Value> x;
  if (random_.percent(60))
    x = pick(scope, [&](Value v) { return fits(v) && is(v, kF) && placed_.contains(v) && !empty(shape(v)); });
  if (!x) x = pick(scope, fits);
  if (!x) return std::nullopt;
  Value v = *x;
  if (is(v, kC)) v = op(scope, "real", {v}, {DType::kF32, shape(v)}, moved(v));
  if (is(v, kF)) {
    if (size_of(dtype(v)) < 4) v = convert(scope, v, DType::kF32);
    return op(scope, "stop_gradient", {v}, Type(type(v)), moved(v));
  }
  return convert(scope, small_whole(scope, v), DType::kI32);
}

/// An exact v, its elements moved, or some of them combined.
Value Generator::shuffled(Scope& scope, Value v) {
  if (rank(v) == 0 || num_elements(shape(v)) == 0) return v;
  const std::int64_t axis = random_.below(rank(v));
  const auto d = static_cast<std::size_t>(axis);
  const std::int64_t size = shape(v)[d];
  Shape out = shape(v);
  Fact f = moved(v);
  switch (random_.below(8)) {
    case 0:
      return op(scope, "flip", {v}, type(v), f, {axis});
    case 1:
      return op(scope, "roll", {v}, type(v), f, {random_.within(1, size), axis});
    case 2: {
      std::vector<std::int64_t> widths(2 * out.size());
      widths[d] = random_.within(0, 2);
      widths[out.size() + d] = random_.within(0, 2);
      out[d] += widths[d] + widths[out.size() + d];
      if (!fits(out)) return v;
      return op(scope, "pad", {v}, {dtype(v), out}, f, widths, {1});
    }
    case 3: {
      const std::int64_t start = random_.below(out[0]);
      out[0] -= start;
      return op(scope, "part", {v}, {dtype(v), out}, f, {start, start + out[0], 1});
    }
    case 4:
      out[d] *= 2;
      if (!fits(out)) return v;
      return op(scope, "concatenate", {v, v}, {dtype(v), out}, f, {axis});
    case 5: {
      const Value places = op(scope, "iota", {}, {DType::kI32, {size}}, {9, 0, {}}, {size, size});
      const Value rows = op(scope, "flip", {places}, {DType::kI32, {size}}, {9, 0, {}}, {0});
      return op(scope, "take", {v, rows}, type(v), f, {axis});
    }
    case 6:
      return op(scope, "cummax", {v}, type(v), f, {axis, random_.below(2)});
    default: {
      out.erase(out.begin() + axis);
      f.bound *= static_cast<double>(size);
      const bool adds = f.quantum == 0 || f.bound * std::ldexp(1.0, f.quantum) <= std::ldexp(1.0, 24);
      if (!adds) f.bound = fact(v).bound;
      return op(scope, adds ? "sum" : "max", {v}, {dtype(v), out}, f, {0, axis});
    }
  }
}

/// An exact scalar of v.
Value Generator::whole_of(Scope& scope, Value v) {
  if (rank(v) == 0) return v;
  std::vector<std::int64_t> all{0};
  for (std::int64_t d = 0; d < rank(v); ++d) all.push_back(d);
  const std::int64_t count = num_elements(shape(v));
  Fact f = moved(v);
  f.bound *= static_cast<double>(count);
  const bool adds = f.bound * std::ldexp(1.0, f.quantum) <= std::ldexp(1.0, 24);
  if (count == 0 || (adds && random_.percent(60))) return op(scope, "sum", {v}, {dtype(v), {}}, f, all);
  return op(scope, random_.percent(70) ? "max" : "min", {v}, {dtype(v), {}}, moved(v), all);
}

/// An exact scalar of whatever there is.
Value Generator::decider(Scope& scope) {
  auto v = decisive(scope);
  if (!v) return constant(scope, {DType::kI32, {}});
  for (std::int64_t n = random_.below(3); n > 0; --n) v = shuffled(scope, *v);
  return whole_of(scope, *v);
}

/// A bool scalar.
Value Generator::predicate(Scope& scope) {
  const Value v = decider(scope);
  static const std::vector<std::string> ways{"less",          "less_equal", "greater",
                                             "greater_equal", "equal",      "not_equal"};
  const double most = std::min(fact(v).bound, 8.0);
  const double threshold =
      std::floor(most * static_cast<double>(random_.within(-4, 4)) / 4) + (is(v, kF) ? 0.5 : 0);
  const Value than = op(scope, "full", {}, type(v), {std::abs(threshold), 1, {}}, {}, {threshold});
  return op(scope, random_.pick(ways), {v, than}, {DType::kBool, {}}, {1, 0, {}});
}

/// An i32 scalar, of any size.
Value Generator::index(Scope& scope) {
  Value v = decider(scope);
  if (!is(v, kF)) return v;
  v = op(scope, "floor", {v}, type(v), {fact(v).bound + 1, 0, {}});
  return op(scope, "astype", {v}, {DType::kI32, {}}, moved(v));
}

/// An i32 scalar from 1 to 4.
Value Generator::count(Scope& scope) {
  return op(scope, "mask", {index(scope)}, {DType::kI32, {}}, {4, 0, {}}, {3});
}

/// Rows, or other parts along a dimension, in the order of a key.
bool Generator::sort_by(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return rank(v) > 0 && !empty(shape(v)); });
  auto key = decisive(scope);
  if (!x || !key || rank(*key) == 0 || empty(shape(*key))) return false;
  Value k = shuffled(scope, *key);
  while (rank(k) > 1) {
    const Value line =
        op(scope, "max", {k}, {dtype(k), {shape(k).begin() + 1, shape(k).end()}}, moved(k), {0, 0});
    k = line;
  }
  if (rank(k) != 1 || empty(shape(k))) return false;
  const Value order = op(scope, "argsort", {k}, {DType::kI32, shape(k)}, {9, 0, {}}, {0});
  Shape out = shape(*x);
  const std::int64_t axis = random_.below(rank(*x));
  out[static_cast<std::size_t>(axis)] = shape(k)[0];
  if (!fits(out)) return false;
  op(scope, "take", {*x, order}, {dtype(*x), out}, moved(*x), {axis});
  return true;
}

/// The term that a step of a loop adds to a carry, exact: a sum, a product or an element of it.
Value Generator::term(Scope& scope, Value v) {
  const auto fits_bits = [](double bound, int quantum) {
    return bound * std::ldexp(1.0, quantum) <= std::ldexp(1.0, 20);
  };
  Fact f = moved(v);
  if (is(v, kF) && random_.percent(60) && fits_bits(f.bound * f.bound, 2 * f.quantum)) {
    f = {f.bound * f.bound, 2 * f.quantum, {}};
    v = op(scope, "square", {v}, type(v), f);
  }
  if (rank(v) == 0 || num_elements(shape(v)) == 0) return v;
  std::vector<std::int64_t> ints{0};
  Shape out;
  double terms = 1;
  for (std::int64_t d = 0; d < rank(v); ++d) {
    const std::int64_t size = shape(v)[static_cast<std::size_t>(d)];
    if (random_.percent(70)) {
      ints.push_back(d);
      terms *= static_cast<double>(size);
    } else {
      out.push_back(size);
    }
  }
  if (ints.size() == 1) return v;
  f.bound *= terms;
  if (fits_bits(f.bound, f.quantum)) return op(scope, "sum", {v}, {dtype(v), out}, f, ints);
  return op(scope, "max", {v}, {dtype(v), out}, moved(v), ints);
}

/// A loop of as many steps as a condition or its bounds say. Its first carries are sums that each step adds
/// to, the last is any value. while_loop: bodies for the condition and the step; the first operand is a
/// number that is counted up. counted_loop: the bounds, then the carries; the step's first input is its
/// number.
bool Generator::decided_loop(Scope& scope) {
  if (scope.depth > 1) return false;
  const bool counted = random_.percent(30);
  constexpr std::int64_t kSteps = 6;
  Node node;
  node.op = counted ? "counted_loop" : "while_loop";
  Scope step = inner(scope, false), condition = inner(scope, false);
  condition.collectives = step.collectives = false;
  // Values from outside have no derivative here: a loop of unknown length has none backwards.
  for (std::int64_t n = random_.within(1, 2); n > 0; --n) {
    auto v = decisive(scope);
    if (!v) continue;
    step.visible.push_back(*v);
    if (random_.percent(40)) condition.visible.push_back(*v);
  }
  const std::vector<Value> outside = step.visible;
  if (counted) {
    node.operands = {constant(scope, {DType::kI32, {}}), count(scope)};
    for (Value& v : node.operands) v = vary(scope, v, scope.manual);
    add_input(step, {DType::kI32, {}}, fact(node.operands[1]));
  }
  std::vector<Value> carries;
  std::vector<Type> types;
  std::vector<Fact> facts;
  auto carry = [&](Value start, double bound, int quantum) {
    start = vary(scope, start, scope.manual);
    Fact f{bound, quantum, {scope.manual.begin(), scope.manual.end()}};
    carries.push_back(start);
    types.push_back(type(start));
    facts.push_back(f);
    if (!counted) add_input(condition, types.back(), f);
    return add_input(step, types.back(), f);
  };
  std::vector<Value> outputs;
  if (!counted) {
    const Value number = carry(op(scope, "full", {}, {DType::kI32, {}}, {9, 0, {}}, {}, {0}), 9, 0);
    const Value one = op(step, "full", {}, {DType::kI32, {}}, {1, 0, {}}, {}, {1});
    outputs.push_back(op(step, "add", {number, one}, {DType::kI32, {}}, {9, 0, {}}));
  }
  std::vector<Value> sums;
  for (Value v : outside) {
    if (random_.percent(20)) continue;
    const Value more = term(step, v);
    const double start = static_cast<double>(random_.within(0, 3));
    const double bound = start + (kSteps + 4) * fact(more).bound;
    if (is(more, kF) && bound * std::ldexp(1.0, fact(more).quantum) > std::ldexp(1.0, 24)) continue;
    const Value sum = carry(op(scope, "full", {}, Type(type(more)), {start, 0, {}}, {}, {start}), bound,
                            fact(more).quantum);
    std::vector<Value> both{sum, more};
    if (random_.percent(30)) std::swap(both[0], both[1]);
    outputs.push_back(
        vary(step, op(step, "add", both, Type(type(more)), {bound, fact(more).quantum, {}}), scope.manual));
    if (!counted) sums.push_back(condition.body.inputs.back());
  }
  if (auto v = pick(scope, [](Value) { return true; }); v && random_.percent(60)) {
    Value x = settle(scope, *v, 8);
    if (is(x, kF | kC)) x = op(scope, "stop_gradient", {x}, Type(type(x)), moved(x));
    const bool inexact = is(x, kF | kC);
    carry(x, inexact ? 8 : 1e30, inexact ? Fact::kInexact : 0);
    grow(step, static_cast<int>(random_.within(1, 3)));
    const Value last = fix(step, types.back(), 8);
    if (fact(last).bound > 8 && inexact) return false;
    outputs.push_back(last);
  }
  if (carries.empty()) return false;
  if (!counted) {
    const Value end =
        op(condition, "full", {}, types[0], {9, 0, {}}, {}, {static_cast<double>(random_.within(1, kSteps))});
    Value go_on = op(condition, "less", {condition.body.inputs[0], end}, {DType::kBool, {}}, {1, 0, {}});
    if (!sums.empty() && random_.percent(80)) {
      // Some of the sums pass such a number after a few steps.
      const Value s = whole_of(condition, random_.pick(sums));
      const double most = std::max(1.0, fact(s).bound / (kSteps + 4));
      const double threshold =
          std::max(1.0, std::floor(most * static_cast<double>(random_.within(1, 8)) / 8));
      const Value than = op(condition, "full", {}, Type(type(s)), {threshold, 0, {}}, {}, {threshold});
      const Value below = op(condition, "less", {s, than}, {DType::kBool, {}}, {1, 0, {}});
      go_on = op(condition, "logical_and", {go_on, below}, {DType::kBool, {}}, {1, 0, {}});
    } else if (random_.percent(30)) {
      go_on = op(condition, "logical_and", {go_on, predicate(condition)}, {DType::kBool, {}}, {1, 0, {}});
    }
    node.bodies.push_back(finish(condition, {go_on}));
  }
  node.bodies.push_back(finish(step, outputs));
  node.operands.insert(node.operands.end(), carries.begin(), carries.end());
  results(scope, std::move(node), types, facts);
  return true;
}

/// A loop of a known number of steps, for the first seeds. bodies: the condition, and the step; the first
/// operand is a number that is counted up.
bool Generator::while_loop(Scope& scope) {
  if (scope.depth > 1) return false;
  Node node;
  node.op = "while_loop";
  std::vector<Value> carries{op(scope, "full", {}, {DType::kI32, {}}, {9, 0, {}}, {}, {0})};
  auto v = pick(scope, [](Value) { return true; });
  if (!v) return false;
  Value x = settle(scope, *v, 8);
  if (is(x, kF | kC)) x = op(scope, "stop_gradient", {x}, Type(type(x)), moved(x));
  carries.push_back(x);
  std::vector<Type> types;
  std::vector<Fact> facts;
  Scope condition = inner(scope, false), step = inner(scope, false);
  condition.collectives = step.collectives = false;
  for (Value& c : carries) {
    c = vary(scope, c, scope.manual);
    Fact f{is(c, kF | kC) ? 8 : 1e30, is(c, kF | kC) ? Fact::kInexact : 0, {}};
    f.varying.insert(scope.manual.begin(), scope.manual.end());
    types.push_back(type(c));
    facts.push_back(f);
    add_input(condition, types.back(), f);
    add_input(step, types.back(), f);
  }
  const Value end =
      op(condition, "full", {}, types[0], {9, 0, {}}, {}, {static_cast<double>(random_.within(0, 4))});
  const Value go_on = op(condition, "less", {condition.body.inputs[0], end}, {DType::kBool, {}}, {1, 0, {}});
  node.bodies.push_back(finish(condition, {go_on}));
  const Value one = op(step, "full", {}, types[0], {1, 0, {}}, {}, {1});
  const Value next = op(step, "add", {step.body.inputs[0], one}, types[0], {9, 0, {}});
  grow(step, static_cast<int>(random_.within(1, 3)));
  Value last = fix(step, types[1], 8);
  if (fact(last).bound > 8 && is(last, kF | kC)) return false;
  node.bodies.push_back(finish(step, {next, last}));
  node.operands = carries;
  results(scope, std::move(node), types, facts);
  return true;
}

/// vmap of a cond, one of whose branches has a pole at examples that do not take it.
bool Generator::pole(Scope& scope) {
  auto x = pick(scope, [&](Value v) {
    return dtype(v) == DType::kF32 && rank(v) > 0 && rank(v) <= 2 && shape(v)[0] > 0 && exact(v) &&
           fact(v).quantum <= 2 && fact(v).bound <= 8;
  });
  if (!x) return false;
  Node vmap, cond;
  vmap.op = "vmap";
  vmap.operands = {*x};
  vmap.ints = {0, 0};
  Type t = type(*x);
  t.shape.erase(t.shape.begin());
  Scope s = inner(scope, false);
  const Value v = add_input(s, t, Fact(fact(*x)));
  std::vector<std::int64_t> all{0};
  for (std::int64_t d = 0; d < rank(v); ++d) all.push_back(d);
  const Value least = rank(v) > 0 && !empty(t.shape) ? op(s, "min", {v}, {dtype(v), {}}, moved(v), all) : v;
  if (rank(least) > 0) return false;
  const Value zero = op(s, "full", {}, {dtype(v), {}}, {0, 0, {}}, {}, {0});
  cond.op = "cond";
  cond.operands = {op(s, "greater", {least, zero}, {DType::kBool, {}}, {1, 0, {}}), v};
  cond.ints = {fact(*x).varying.empty() ? 0 : 1};
  static const std::vector<std::string> poles{"sqrt", "log", "reciprocal", "rsqrt", "cbrt"};
  const Fact f{8, Fact::kInexact, fact(*x).varying};
  for (bool taken : {true, false}) {
    Scope branch = inner(s, false);
    const Value y = add_input(branch, t, Fact(fact(v)));
    const Value z = taken ? op(branch, random_.pick(poles), {y}, t, f)
                          : op(branch, "scale", {y}, t, {16, 4, {}}, {}, {2});
    cond.bodies.push_back(finish(branch, {z}));
  }
  const Value chosen = results(s, std::move(cond), {t}, {{16, Fact::kInexact, fact(*x).varying}})[0];
  vmap.bodies.push_back(finish(s, {chosen}));
  for (Value made : results(scope, std::move(vmap), {type(*x)}, {{16, Fact::kInexact, fact(*x).varying}}))
    limit(scope, made, 4);
  return true;
}

/// cond: the predicate and the arguments; bodies for true and false. switch: the index and the arguments.
/// ints: whether devices may go different ways.
bool Generator::branches(Scope& scope) {
  const bool two = random_.percent(60);
  auto selector = pick(scope, [&](Value v) {
    return rank(v) == 0 && (two ? dtype(v) == DType::kBool : dtype(v) == DType::kI32);
  });
  if (decides_ && (!selector || random_.percent(70))) selector = two ? predicate(scope) : index(scope);
  if (!selector) {
    auto of = pick(scope, [&](Value v) { return exact(v) && !is(v, kC); });
    if (!of) return false;
    Value v = *of;
    std::vector<std::int64_t> all{0};
    for (std::int64_t d = 0; d < rank(v); ++d) all.push_back(d);
    v = two ? op(scope, random_.percent(50) ? "any" : "all", {v}, {DType::kBool, {}}, {1, 0, {}}, all)
            : op(scope, "count_nonzero", {v}, {DType::kI32, {}}, {9, 0, {}}, all);
    selector = v;
  }
  Node node;
  node.op = two ? "cond" : "switch";
  node.operands = {*selector};
  std::vector<Value> arguments;
  for (std::int64_t n = random_.within(1, 2); n > 0; --n)
    arguments.push_back(*pick(scope, [](Value) { return true; }));
  node.operands.insert(node.operands.end(), arguments.begin(), arguments.end());
  const bool differs = !fact(*selector).varying.empty();
  node.ints = {differs ? 1 : 0};
  std::vector<Type> types;
  std::vector<Fact> facts;
  for (std::int64_t n = two ? 2 : random_.within(2, 3), i = 0; i < n; ++i) {
    Scope s = inner(scope, random_.percent(50));
    if (differs || !scope.mapped.empty()) s.collectives = false;
    for (Value v : arguments) add_input(s, Type(type(v)), Fact(fact(v)));
    grow(s, static_cast<int>(random_.within(1, 4)));
    std::vector<Value> outputs;
    if (i == 0) {
      for (Value v : choose_outputs(s, 2)) {
        v = vary(s, v, s.manual);
        outputs.push_back(v);
        types.push_back(type(v));
        facts.push_back(fact(v));
      }
      if (outputs.empty()) return false;
    } else {
      for (std::size_t o = 0; o < types.size(); ++o) {
        const Value v = vary(s, match(s, types[o]), s.manual);
        facts[o].bound = std::max(facts[o].bound, fact(v).bound);
        facts[o].quantum = std::max(facts[o].quantum, fact(v).quantum);
        outputs.push_back(v);
      }
    }
    node.bodies.push_back(finish(s, outputs));
  }
  results(scope, std::move(node), types, facts);
  return true;
}

}  // namespace lockstep::fuzz
