// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "tests/fuzz/generator.h"

namespace lockstep::fuzz {

/// A scope for a body within this one's. With captures, the body may use the values from outside.
Scope Generator::inner(Scope& scope, bool captures) {
  Scope s;
  if (captures) s.visible = scope.visible;
  s.manual = scope.manual;
  s.mapped = scope.mapped;
  s.depth = scope.depth + 1;
  s.forward_only = scope.forward_only;
  s.collectives = scope.collectives;
  return s;
}

Value Generator::add_input(Scope& scope, const Type& type, Fact fact) {
  const Value v = new_value(type, std::move(fact));
  scope.body.inputs.push_back(v);
  scope.visible.push_back(v);
  return v;
}

Body Generator::finish(Scope& scope, std::vector<Value> outputs) {
  scope.body.outputs = std::move(outputs);
  return std::move(scope.body);
}

std::vector<Value> Generator::results(Scope& scope, Node node, const std::vector<Type>& types,
                                      const std::vector<Fact>& facts) {
  std::vector<Value> made;
  for (std::size_t i = 0; i < types.size(); ++i) made.push_back(new_value(types[i], facts[i]));
  node.results = made;
  scope.body.nodes.push_back(std::move(node));
  scope.visible.insert(scope.visible.end(), made.begin(), made.end());
  return made;
}

/// The body once more, with values of its own.
Body Generator::clone(const Body& body) {
  std::map<Value, Value> names;
  auto fresh = [&](Value v) { return names[v] = new_value(Type(type(v)), Fact(fact(v))); };
  auto renamed = [&](std::vector<Value>& values) {
    for (Value& v : values) {
      if (names.contains(v)) v = names[v];
    }
  };
  std::function<Body(const Body&)> copy = [&](const Body& from) {
    Body to = from;
    for (Value& v : to.inputs) v = fresh(v);
    for (Node& node : to.nodes) {
      renamed(node.operands);
      for (Body& each : node.bodies) each = copy(each);
      for (Value& v : node.results) v = fresh(v);
    }
    renamed(to.outputs);
    return to;
  };
  return copy(body);
}

/// v as a value that may differ along these axes.
Value Generator::vary(Scope& scope, Value v, const std::vector<std::string>& axes) {
  Node node;
  node.op = "pvary";
  for (const std::string& axis : axes) {
    if (!fact(v).varying.contains(axis)) node.axes.push_back(axis);
  }
  if (node.axes.empty()) return v;
  node.operands = {v};
  Fact f = moved(v);
  f.varying.insert(axes.begin(), axes.end());
  return make(scope, std::move(node), Type(type(v)), f);
}

/// A floating v within ±bound, whatever is known of it.
Value Generator::settle(Scope& scope, Value v, double bound) {
  if (!is(v, kF | kC) || fact(v).bound <= bound) return v;
  if (is(v, kC)) return limit(scope, v, bound);
  return op(scope, "tanh", {v}, Type(type(v)), {1, Fact::kInexact, {}});
}

/// A value of this type within ±bound, that differs along all manual axes: what every branch and step gives.
Value Generator::fix(Scope& scope, const Type& type, double bound) {
  Value v = match(scope, type);
  v = settle(scope, v, bound);
  return vary(scope, v, scope.manual);
}

/// jit, checkpoint, and map: functions of some values. out_specs: of a jit, where all of its results shall
/// lie, or nothing.
bool Generator::call(Scope& scope) {
  std::vector<Value> operands;
  for (std::int64_t n = random_.within(1, 3); n > 0; --n) {
    if (auto v = pick(scope, [](Value) { return true; })) operands.push_back(*v);
  }
  if (operands.empty()) return false;
  Node node;
  node.op = random_.percent(50) ? "jit" : "checkpoint";
  std::int64_t length = -1;
  if (random_.percent(25)) {
    length = operands[0] >= 0 && rank(operands[0]) > 0 ? shape(operands[0])[0] : -1;
    std::erase_if(operands, [&](Value v) { return rank(v) == 0 || shape(v)[0] != length; });
    if (operands.empty() || length < 0) return false;
    node.op = "map";
  }
  Scope s = inner(scope, random_.percent(60));
  for (Value v : operands) {
    Type t = type(v);
    if (length >= 0) t.shape.erase(t.shape.begin());
    Fact f = fact(v);
    add_input(s, t, f);
  }
  grow(s, static_cast<int>(random_.within(2, 5)));
  std::vector<Value> outputs = choose_outputs(s, 2);
  if (outputs.empty()) return false;
  if (node.op == "map") {
    for (Value& v : outputs) v = vary(s, v, s.manual);
  }
  node.operands = operands;
  std::vector<Type> types;
  std::vector<Fact> facts;
  for (Value v : outputs) {
    Type t = type(v);
    if (length >= 0) t.shape.insert(t.shape.begin(), length);
    if (!fits(t.shape)) return false;
    types.push_back(t);
    facts.push_back(fact(v));
  }
  // An inner jit may say where its results shall lie.
  if (node.op == "jit" && scope.manual.empty() && scope.mapped.empty() && random_.percent(50)) {
    Spec spec = random_spec(types[0].shape, axes_of(program_.mesh));
    for (const Type& t : types) {
      while (!spec.empty() && !divides(program_, spec, t.shape)) spec.pop_back();
    }
    node.out_specs = {spec};
  }
  node.bodies.push_back(finish(s, outputs));
  results(scope, std::move(node), types, facts);
  return true;
}

/// ints: for each operand the mapped dimension, or -1; then that of the results.
bool Generator::map_examples(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return rank(v) > 0; });
  if (!x) return false;
  Node node;
  node.op = "vmap";
  const std::int64_t axis = random_.below(std::min<std::int64_t>(2, rank(*x)));
  const std::int64_t size = shape(*x)[static_cast<std::size_t>(axis)];
  if (size == 0) return false;
  node.operands = {*x};
  node.ints = {axis};
  for (std::int64_t more = random_.below(3); more > 0; --more) {
    auto y = pick(scope, [](Value) { return true; });
    std::vector<std::int64_t> axes{-1};
    for (std::int64_t d = 0; d < std::min<std::int64_t>(2, rank(*y)); ++d) {
      if (shape(*y)[static_cast<std::size_t>(d)] == size) axes.push_back(d);
    }
    node.operands.push_back(*y);
    node.ints.push_back(axes.back() >= 0 && random_.percent(70) ? random_.pick(axes) : -1);
  }
  Scope s = inner(scope, random_.percent(60));
  if (random_.percent(60)) {
    node.text = "m" + std::to_string(program_.types.size());
    s.mapped.emplace_back(node.text, size);
  }
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    Type t = type(node.operands[i]);
    if (node.ints[i] >= 0) t.shape.erase(t.shape.begin() + node.ints[i]);
    add_input(s, t, Fact(fact(node.operands[i])));
  }
  grow(s, static_cast<int>(random_.within(2, 5)));
  const std::vector<Value> outputs = choose_outputs(s, 2);
  if (outputs.empty()) return false;
  std::int64_t lowest = 4;
  for (Value v : outputs) lowest = std::min(lowest, rank(v));
  const std::int64_t out_axis = random_.percent(30) ? random_.below(lowest + 1) : 0;
  node.ints.push_back(out_axis);
  std::vector<Type> types;
  std::vector<Fact> facts;
  for (Value v : outputs) {
    Type t = type(v);
    t.shape.insert(t.shape.begin() + out_axis, size);
    if (!fits(t.shape)) return false;
    types.push_back(t);
    facts.push_back(fact(v));
  }
  node.bodies.push_back(finish(s, outputs));
  results(scope, std::move(node), types, facts);
  return true;
}

/// scan, ints: carries, length, reverse. fori_loop, ints: lower, upper; the body's first input is the number.
bool Generator::scan(Scope& scope) {
  Node node;
  const bool numbered = random_.percent(30);
  node.op = numbered ? "fori_loop" : "scan";
  std::vector<Value> carries, xs;
  for (std::int64_t n = random_.within(1, 2); n > 0; --n) {
    if (auto v = pick(scope, [](Value) { return true; })) carries.push_back(*v);
  }
  if (carries.empty()) return false;
  std::int64_t length = random_.within(0, 4);
  if (!numbered) {
    auto x = pick(scope, [&](Value v) { return rank(v) > 0; });
    if (x && random_.percent(80)) {
      length = shape(*x)[0];
      xs.push_back(*x);
      auto y = pick(scope, [&](Value v) { return rank(v) > 0 && shape(v)[0] == length; });
      if (random_.percent(30)) xs.push_back(*y);
    }
  }
  Scope s = inner(scope, random_.percent(60));
  if (numbered) add_input(s, {DType::kI32, {}}, {9, 0, {}});
  std::vector<Type> types;
  std::vector<Fact> facts;
  auto varied = [&](double bound, int quantum) {
    Fact f{bound, quantum, {}};
    f.varying.insert(scope.manual.begin(), scope.manual.end());
    return f;
  };
  for (Value& v : carries) {
    v = vary(scope, settle(scope, v, 8), scope.manual);
    types.push_back(type(v));
    facts.push_back(varied(is(v, kF | kC) ? 8 : 1e30, is(v, kF | kC) ? Fact::kInexact : 0));
    add_input(s, types.back(), facts.back());
  }
  for (Value v : xs) {
    Type t = type(v);
    t.shape.erase(t.shape.begin());
    add_input(s, t, Fact(fact(v)));
  }
  grow(s, static_cast<int>(random_.within(2, 5)));
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < carries.size(); ++i) {
    Value next = match(s, types[i]);
    outputs.push_back(vary(s, settle(s, next, 8), s.manual));
    if (fact(outputs.back()).bound > 8 && is(outputs.back(), kF | kC)) return false;
  }
  if (!numbered) {
    for (Value v : choose_outputs(s, 2)) {
      v = vary(s, v, s.manual);
      Type t = type(v);
      t.shape.insert(t.shape.begin(), length);
      if (!fits(t.shape)) continue;
      outputs.push_back(v);
      types.push_back(t);
      facts.push_back(fact(v));
    }
  }
  node.operands = carries;
  node.operands.insert(node.operands.end(), xs.begin(), xs.end());
  if (numbered) {
    const std::int64_t lower = random_.within(-1, 2);
    node.ints = {lower, lower + length};
  } else {
    node.ints = {static_cast<std::int64_t>(carries.size()), length, random_.below(2)};
  }
  node.bodies.push_back(finish(s, outputs));
  results(scope, std::move(node), types, facts);
  return true;
}

/// A floating scalar of what the scope has made: the loss of a function to differentiate.
std::optional<Value> Generator::scalar_loss(Scope& scope) {
  const std::set<Value> own = [&] {
    std::set<Value> values(scope.body.inputs.begin(), scope.body.inputs.end());
    for (const Node& node : scope.body.nodes) values.insert(node.results.begin(), node.results.end());
    return values;
  }();
  auto x =
      pick(scope, [&](Value v) { return own.contains(v) && is(v, kF | kC) && !scope.body.nodes.empty(); });
  if (!x) return std::nullopt;
  Value v = *x;
  if (is(v, kC)) v = op(scope, "real", {v}, {DType::kF32, shape(v)}, moved(v));
  if (size_of(dtype(v)) < 4) v = op(scope, "astype", {v}, {DType::kF32, shape(v)}, moved(v));
  std::vector<std::int64_t> ints{0};
  for (std::int64_t d = 0; d < rank(v); ++d) ints.push_back(d);
  return op(scope, "sum", {v}, {dtype(v), {}},
            {fact(v).bound * static_cast<double>(num_elements(shape(v))), Fact::kInexact, {}}, ints);
}

/// ints: for each operand whether it is differentiated. axes: those along which the loss differs; in_specs, a
/// list for each operand: those along which that does. Results: the loss, and the gradients.
bool Generator::gradient(Scope& scope) {
  if (scope.depth > 2) return false;
  Node node;
  node.op = "grad";
  auto x = pick(scope, [&](Value v) { return is(v, kF); });
  if (!x) return false;
  node.operands = {*x};
  node.ints = {1};
  for (std::int64_t more = random_.below(3); more > 0; --more) {
    auto y = pick(scope, [](Value) { return true; });
    node.operands.push_back(*y);
    node.ints.push_back(is(*y, kF) && random_.percent(60) ? 1 : 0);
  }
  Scope s = inner(scope, random_.percent(60));
  for (Value v : node.operands) add_input(s, Type(type(v)), Fact(fact(v)));
  grow(s, static_cast<int>(random_.within(2, 5)));
  auto loss = scalar_loss(s);
  if (!loss) return false;
  std::vector<Type> types{type(*loss)};
  std::vector<Fact> facts{fact(*loss)};
  node.axes.assign(fact(*loss).varying.begin(), fact(*loss).varying.end());
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const auto& varying = fact(node.operands[i]).varying;
    node.in_specs.push_back({std::vector<std::string>(varying.begin(), varying.end())});
    if (node.ints[i] == 0) continue;
    types.push_back(type(node.operands[i]));
    facts.push_back({1e6, Fact::kInexact, varying});
  }
  node.bodies.push_back(finish(s, {*loss}));
  for (Value v : results(scope, std::move(node), types, facts)) {
    if (fact(v).bound > 1e5) settle(scope, v, 8);
  }
  return true;
}

/// jvp and linearize: primals, then tangents; results, then their tangents.
bool Generator::forward(Scope& scope) {
  if (scope.depth > 2) return false;
  Node node;
  node.op = random_.percent(60) ? "jvp" : "linearize";
  std::vector<Value> primals, tangents;
  for (std::int64_t n = random_.within(1, 2); n > 0; --n) {
    if (auto v = pick(scope, [&](Value v) { return is(v, kF); })) primals.push_back(*v);
  }
  if (primals.empty()) return false;
  Scope s = inner(scope, random_.percent(60));
  s.forward_only = true;
  for (Value& v : primals) {
    const Value t = match(scope, Type(type(v)));
    v = vary(scope, v, scope.manual);
    tangents.push_back(vary(scope, t, scope.manual));
    add_input(s, Type(type(v)), Fact(fact(v)));
  }
  grow(s, static_cast<int>(random_.within(2, 5)));
  std::vector<Value> outputs = choose_outputs(s, 2);
  std::erase_if(outputs, [&](Value v) { return !is(v, kF); });
  if (outputs.empty()) return false;
  for (Value& v : outputs) v = vary(s, v, s.manual);
  std::vector<Type> types;
  std::vector<Fact> facts;
  for (Value v : outputs) {
    types.push_back(type(v));
    facts.push_back(fact(v));
  }
  for (Value v : outputs) {
    types.push_back(type(v));
    facts.push_back({1e6, Fact::kInexact, fact(v).varying});
  }
  node.operands = primals;
  node.operands.insert(node.operands.end(), tangents.begin(), tangents.end());
  node.bodies.push_back(finish(s, outputs));
  for (Value v : results(scope, std::move(node), types, facts)) {
    if (fact(v).bound > 1e5) settle(scope, v, 8);
  }
  return true;
}

/// vjp: the arguments, then the cotangents; results, then the arguments' cotangents. ints: how many
/// arguments.
bool Generator::backward(Scope& scope) {
  if (scope.depth > 2 || !scope.manual.empty()) return false;
  Node node;
  node.op = "vjp";
  for (std::int64_t n = random_.within(1, 2); n > 0; --n) {
    if (auto v = pick(scope, [&](Value v) { return is(v, kF); })) node.operands.push_back(*v);
  }
  if (node.operands.empty()) return false;
  node.ints = {static_cast<std::int64_t>(node.operands.size())};
  Scope s = inner(scope, random_.percent(60));
  for (Value v : node.operands) add_input(s, Type(type(v)), Fact(fact(v)));
  grow(s, static_cast<int>(random_.within(2, 5)));
  std::vector<Value> outputs = choose_outputs(s, 2);
  std::erase_if(outputs, [&](Value v) { return !is(v, kF); });
  if (outputs.empty()) return false;
  std::vector<Type> types;
  std::vector<Fact> facts;
  for (Value v : outputs) {
    types.push_back(type(v));
    facts.push_back(fact(v));
  }
  for (Value v : node.operands) {
    types.push_back(type(v));
    facts.push_back({1e6, Fact::kInexact, {}});
  }
  for (Value v : outputs) node.operands.push_back(match(scope, Type(type(v))));
  node.bodies.push_back(finish(s, outputs));
  for (Value v : results(scope, std::move(node), types, facts)) {
    if (fact(v).bound > 1e5) settle(scope, v, 8);
  }
  return true;
}

/// jacfwd, jacrev and hessian of one array by one.
bool Generator::jacobian(Scope& scope) {
  if (scope.depth > 1 || !scope.manual.empty()) return false;
  Node node;
  const std::int64_t kind = random_.below(3);
  node.op = kind == 0 ? "jacfwd" : kind == 1 ? "jacrev" : "hessian";
  auto x = pick(scope, [&](Value v) { return is(v, kF) && num_elements(shape(v)) <= 8 && rank(v) <= 2; });
  if (!x) return false;
  node.operands = {*x};
  Scope s = inner(scope, random_.percent(60));
  s.forward_only = kind != 1;
  add_input(s, Type(type(*x)), Fact(fact(*x)));
  grow(s, static_cast<int>(random_.within(2, 4)));
  std::optional<Value> y;
  if (kind == 2) {
    y = scalar_loss(s);
  } else {
    y = pick(s, [&](Value v) { return is(v, kF) && num_elements(shape(v)) <= 8 && rank(v) <= 2; });
  }
  if (!y) return false;
  Shape out = shape(*y);
  for (int times = kind == 2 ? 2 : 1; times > 0; --times)
    out.insert(out.end(), shape(*x).begin(), shape(*x).end());
  if (!fits(out)) return false;
  const DType of = dtype(kind == 2 ? *x : *y);
  if (dtype(*x) != dtype(*y)) return false;
  node.bodies.push_back(finish(s, {*y}));
  for (Value v : results(scope, std::move(node), {{of, out}}, {{1e6, Fact::kInexact, {}}}))
    settle(scope, v, 8);
  return true;
}

/// custom_jvp; bodies: the function, and the rule (arguments and tangents to result and tangent). custom_vjp;
/// bodies: the function, forward (result and residual), backward (residual and cotangent to the argument's).
/// Each of one array; the function may have a derivative of zero, as what quantizes has.
bool Generator::own_derivative(Scope& scope) {
  auto x = pick(scope, [&](Value v) { return is(v, kF); });
  if (!x) return false;
  const bool forwards = scope.forward_only || random_.percent(60);
  Node node;
  node.op = forwards ? "custom_jvp" : "custom_vjp";
  node.operands = {*x};
  Scope s = inner(scope, false);
  const Value input = add_input(s, Type(type(*x)), Fact(fact(*x)));
  Value out = input;
  const bool steps = exact(input) && random_.percent(60);
  if (steps) {
    const char* name = random_.pick(std::vector<const char*>{"round", "floor", "sign", "ceil"});
    out = op(s, name, {input}, Type(type(input)), {fact(input).bound + 1, 0, {}});
  } else {
    out = limit(s, out, 4);
    out = op(s, random_.pick(std::vector<const char*>{"sin", "tanh", "arctan"}), {out}, Type(type(input)),
             {2, Fact::kInexact, {}});
  }
  // With a mean over the examples of a vmap that has a name, and the derivative's likewise.
  const bool mean = !scope.mapped.empty() && scope.collectives && random_.percent(40);
  auto mean_of = [&](Scope& of, Value v) {
    Node pmean;
    pmean.op = "pmean";
    pmean.text = scope.mapped.back().first;
    pmean.operands = {v};
    return make(of, std::move(pmean), Type(type(v)), {fact(v).bound, Fact::kInexact, {}});
  };
  if (mean) {
    out = mean_of(s, out);
  } else if (random_.percent(30)) {
    out = limit(s, out, 4);
    out = op(s, "multiply", {out, out}, Type(type(input)),
             {16, fact(out).quantum < 8 ? 2 * fact(out).quantum : Fact::kInexact, {}});
  }
  const Fact out_fact = fact(out);
  const Type t = type(input);
  const Body function = finish(s, {out});
  // The factor of the derivative: of the argument, or 1.
  auto factor_times = [&](Scope& of, Value argument, Value derivative) {
    if (random_.percent(40)) return op(of, "scale", {derivative}, t, {64, Fact::kInexact, {}}, {}, {1.5});
    const Value factor = op(of, "cos", {limit(of, argument, 4)}, t, {1, Fact::kInexact, {}});
    return op(of, "multiply", {factor, derivative}, t, {64, Fact::kInexact, {}});
  };
  node.bodies.push_back(function);
  Body again = clone(function);
  Scope rule = inner(scope, false);
  rule.body = std::move(again);
  const Value argument = rule.body.inputs[0], value = rule.body.outputs[0];
  if (forwards) {
    const Value tangent = new_value(Type(t), {4, Fact::kInexact, fact(*x).varying});
    rule.body.inputs.push_back(tangent);
    Value product = factor_times(rule, argument, tangent);
    if (mean) product = mean_of(rule, product);
    node.bodies.push_back(finish(rule, {value, product}));
  } else {
    Scope back = inner(scope, false);
    const Value residual = add_input(back, t, Fact(fact(*x)));
    const Value cotangent = add_input(back, t, {4, Fact::kInexact, fact(*x).varying});
    node.bodies.push_back(finish(rule, {value, argument}));
    Value product = factor_times(back, residual, cotangent);
    if (mean) product = mean_of(back, product);
    node.bodies.push_back(finish(back, {product}));
  }
  results(scope, std::move(node), {t}, {out_fact});
  return true;
}

}  // namespace lockstep::fuzz
