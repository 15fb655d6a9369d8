// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/fuzz/generator.h"

namespace lockstep::fuzz {

std::vector<std::string> Generator::axes_of(const std::vector<std::int64_t>& mesh) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < mesh.size(); ++i) names.push_back(axis_name(i));
  return names;
}

/// Some of the axes on some of the dimensions; even: only where they divide.
Spec Generator::random_spec(const Shape& shape, std::vector<std::string> axes, bool even) {
  Spec spec(shape.size());
  for (std::size_t i = axes.size(); i > 1; --i)
    std::swap(axes[i - 1], axes[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i)))]);
  for (const std::string& axis : axes) {
    if (shape.empty() || random_.percent(25)) continue;
    const auto d = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(shape.size())));
    spec[d].push_back(axis);
    if (even && shape[d] % cuts(program_, spec[d]) != 0) spec[d].pop_back();
  }
  while (!spec.empty() && spec.back().empty()) spec.pop_back();
  return spec;
}

/// in_specs for the operands, out_specs for the results; axes: the manual ones.
bool Generator::shard_map(Scope& scope) {
  if (!scope.manual.empty() || scope.depth > 1) return false;
  Node node;
  node.op = "shard_map";
  const std::vector<std::string> all = axes_of(program_.mesh);
  for (const std::string& axis : all) node.axes.push_back(axis);
  if (all.size() > 1 && random_.percent(35)) {
    node.axes.erase(node.axes.begin() + random_.below(static_cast<std::int64_t>(node.axes.size())));
    if (node.axes.size() > 1 && random_.percent(50)) node.axes.pop_back();
  }
  Scope s = inner(scope, random_.percent(20));
  s.depth = scope.depth;
  s.manual = node.axes;
  s.mapped.clear();
  for (std::int64_t n = random_.within(1, 3); n > 0; --n) {
    // Values that another shard_map or a constraint has laid one way go into this one in another.
    std::optional<Value> v;
    if (random_.percent(60))
      v = pick(scope, [&](Value each) { return placed_.contains(each) && rank(each) > 0; });
    if (!v) v = pick(scope, [](Value) { return true; });
    if (!v) return false;
    const Spec spec = random_spec(shape(*v), node.axes);
    Type t = type(*v);
    Fact f = fact(*v);
    for (std::size_t d = 0; d < spec.size(); ++d) {
      t.shape[d] /= cuts(program_, spec[d]);
      f.varying.insert(spec[d].begin(), spec[d].end());
    }
    node.operands.push_back(*v);
    node.in_specs.push_back(spec);
    add_input(s, t, f);
  }
  for (std::int64_t n = random_.within(1, 4); n > 0; --n) {
    if (random_.percent(45)) {
      collective(s);
    } else {
      grow(s, 1);
    }
  }
  std::vector<Value> outputs = choose_outputs(s, 2);
  std::vector<Type> types;
  std::vector<Fact> facts;
  std::vector<Value> given;
  for (Value v : outputs) {
    // Every axis along which it differs is named in the result's spec, or summed over.
    Spec spec(shape(v).size());
    std::vector<std::string> summed;
    Type t = type(v);
    std::vector<std::string> order = node.axes;
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i)))]);
    for (const std::string& axis : order) {
      const bool differs = fact(v).varying.contains(axis);
      if (!differs && !random_.percent(10)) continue;
      if (t.shape.empty() || (differs && is(v, kI | kU | kF | kC) && random_.percent(15))) {
        if (differs) summed.push_back(axis);
        continue;
      }
      const auto d = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(t.shape.size())));
      spec[d].push_back(axis);
      t.shape[d] *= program_.axis_size(axis);
    }
    if (!fits(t.shape)) continue;
    if (!summed.empty()) {
      if (is(v, kB)) continue;
      Node sum;
      sum.op = "psum";
      sum.axes = summed;
      sum.operands = {v};
      Fact f = moved(v);
      f.bound *= static_cast<double>(cuts(program_, summed));
      const std::set<std::string> before = fact(v).varying;
      v = make(s, std::move(sum), Type(type(v)), f);
      fact(v).varying = before;
      for (const std::string& axis : summed) fact(v).varying.erase(axis);
    }
    given.push_back(v);
    while (!spec.empty() && spec.back().empty()) spec.pop_back();
    node.out_specs.push_back(spec);
    types.push_back(t);
    facts.push_back(moved(v));
  }
  if (given.empty()) return false;
  node.bodies.push_back(finish(s, given));
  for (Value v : results(scope, std::move(node), types, facts)) {
    placed_.insert(v);
    tame(scope, v);
  }
  return true;
}

/// out_specs: how it shall lie; sizes need not be divided.
bool Generator::constraint(Scope& scope) {
  if (!scope.manual.empty()) return false;
  std::optional<Value> v;
  if (random_.percent(50))
    v = pick(scope, [&](Value each) { return placed_.contains(each) && rank(each) > 0; });
  if (!v) v = pick(scope, [&](Value each) { return rank(each) > 0; });
  if (!v) return false;
  Node node;
  node.op = "constraint";
  node.operands = {*v};
  node.out_specs = {random_spec(shape(*v), axes_of(program_.mesh), random_.percent(50))};
  placed_.insert(make(scope, std::move(node), Type(type(*v)), moved(*v)));
  return true;
}

/// Between the devices of a shard_map. ints: axis and tiled, dimensions, pairs.
bool Generator::collective(Scope& scope) {
  if (scope.manual.empty() || !scope.collectives) return false;
  Node node;
  std::vector<std::string> axes;
  for (const std::string& axis : scope.manual) {
    if (random_.percent(50)) axes.push_back(axis);
  }
  if (axes.empty()) axes.push_back(random_.pick(scope.manual));
  const std::int64_t n = cuts(program_, axes);
  node.axes = axes;
  const std::int64_t kind = random_.below(9);
  if (kind == 0) {
    node.op = "axis_index";
    node.axes = axes;
    const Value v = make(scope, std::move(node), {DType::kI32, {}}, {8, 0, {}});
    fact(v).varying.insert(axes.begin(), axes.end());
    return true;
  }
  auto x = pick(scope, [&](Value v) {
    return is(v, kI | kU | kF) && (kind < 4 || rank(v) > 0) && (kind != 3 || exact(v));
  });
  if (!x) return false;
  Value v = vary(scope, *x, axes);
  Type t = type(v);
  Fact f = moved(v);
  std::set<std::string> varying = fact(v).varying;
  auto same_after = [&] {
    for (const std::string& axis : axes) varying.erase(axis);
  };
  const std::int64_t d = rank(v) > 0 ? random_.below(rank(v)) : 0;
  switch (kind) {
    case 1:
      node.op = "psum";
      f.bound *= static_cast<double>(n);
      same_after();
      break;
    case 2:
      if (!is(v, kF)) return false;
      node.op = "pmean";
      f.quantum = f.quantum < Fact::kInexact ? f.quantum + 3 : f.quantum;
      same_after();
      break;
    case 3:
      node.op = random_.percent(50) ? "pmax" : "pmin";
      if (is(v, kF)) v = op(scope, "stop_gradient", {v}, t, moved(v));
      same_after();
      break;
    case 4: {
      node.op = "all_gather";
      const bool tiled = random_.percent(60);
      node.ints = {d, tiled ? 1 : 0};
      if (tiled) {
        t.shape[static_cast<std::size_t>(d)] *= n;
      } else {
        t.shape.insert(t.shape.begin() + d, n);
      }
      break;
    }
    case 5: {
      node.op = "psum_scatter";
      auto& size = t.shape[static_cast<std::size_t>(d)];
      if (size % n != 0) return false;
      size /= n;
      node.ints = {d, 1};
      f.bound *= static_cast<double>(n);
      break;
    }
    case 6:
    case 7: {
      node.op = kind == 6 ? "ppermute" : "pshuffle";
      const std::int64_t by = random_.within(1, 3);
      for (std::int64_t i = 0; i < n; ++i) {
        if (kind == 7) {
          node.ints.push_back((i + by) % n);
        } else if (i + 1 < n || random_.percent(50)) {
          node.ints.push_back(i);
          node.ints.push_back((i + by) % n);
        }
      }
      break;
    }
    default: {
      node.op = "all_to_all";
      const std::int64_t to = random_.below(rank(v));
      if (t.shape[static_cast<std::size_t>(d)] % n != 0) return false;
      t.shape[static_cast<std::size_t>(d)] /= n;
      t.shape[static_cast<std::size_t>(to)] *= n;
      node.ints = {d, to};
      break;
    }
  }
  if (!fits(t.shape)) return false;
  node.operands = {v};
  v = make(scope, std::move(node), t, f);
  fact(v).varying = varying;
  tame(scope, v);
  return true;
}

/// Between the examples of a vmap that has a name, which is `text`.
bool Generator::mapped_collective(Scope& scope) {
  if (scope.mapped.empty() || !scope.collectives) return false;
  const auto [name, n] = random_.pick(scope.mapped);
  Node node;
  node.text = name;
  const std::int64_t kind = random_.below(5);
  if (kind == 0) {
    node.op = "axis_index";
    make(scope, std::move(node), {DType::kI32, {}}, {static_cast<double>(n), 0, {}});
    return true;
  }
  auto x = pick(scope, [&](Value v) { return is(v, kI | kU | kF) && (kind != 3 || exact(v)); });
  if (!x) return false;
  Value v = *x;
  Type t = type(v);
  Fact f = moved(v);
  switch (kind) {
    case 1:
      node.op = "psum";
      f.bound *= static_cast<double>(n);
      break;
    case 2:
      if (!is(v, kF)) return false;
      node.op = "pmean";
      f.quantum = Fact::kInexact;
      break;
    case 3:
      node.op = "pmax";
      if (is(v, kF)) v = op(scope, "stop_gradient", {v}, t, moved(v));
      break;
    default:
      node.op = "all_gather";
      node.ints = {0, 0};
      t.shape.insert(t.shape.begin(), n);
      if (!fits(t.shape)) return false;
      break;
  }
  node.operands = {v};
  tame(scope, make(scope, std::move(node), t, f));
  return true;
}

}  // namespace lockstep::fuzz
