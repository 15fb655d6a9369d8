// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/vmap.h"
#include "tests/fuzz/interpreter.h"

// Every one of Lockstep's templates is instantiated once, for functions of lists of arrays.

namespace lockstep::fuzz {
namespace {

Arrays joined(Arrays x, const Arrays& y) {
  x.insert(x.end(), y.begin(), y.end());
  return x;
}

std::pair<Arrays, Arrays> parted(const Arrays& all, std::size_t n) {
  const auto at = all.begin() + static_cast<std::ptrdiff_t>(n);
  return {Arrays(all.begin(), at), Arrays(at, all.end())};
}

}  // namespace

/// The loss counts once for each set of devices that have it in common; the gradient of what devices have in
/// common is the sum of theirs.
Arrays Interpreter::gradient(const Node& node) const {
  const std::size_t n = replicas();
  std::vector<Value> by, others;
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    (node.ints[i] != 0 ? by : others).push_back(node.operands[i]);
  const Function function(*this, node.bodies[0]);
  auto loss = [&](const Arrays& by, const Arrays& others) -> std::pair<Array, Arrays> {
    Arrays inputs;
    auto next_by = by.begin();
    auto next_other = others.begin();
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      auto& next = node.ints[i] != 0 ? next_by : next_other;
      inputs.insert(inputs.end(), next, next + static_cast<std::ptrdiff_t>(n));
      next += static_cast<std::ptrdiff_t>(n);
    }
    const Arrays losses = function(inputs);
    Array total = losses[0];
    std::vector<std::string> same;
    for (const std::string& axis : emulated_) {
      if (std::find(node.axes.begin(), node.axes.end(), axis) == node.axes.end()) same.push_back(axis);
    }
    for (std::size_t r = 1; r < n; ++r) {
      if (place(r, same) == 0) total = total + losses[r];
    }
    return {total, losses};
  };
  const auto [value, gradients] = value_and_grad(loss)(flat(by), flat(others));
  Arrays results = value.second;
  std::size_t k = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (node.ints[i] == 0) continue;
    const auto of_each = gradients.begin() + static_cast<std::ptrdiff_t>(n * k++);
    std::vector<std::string> same;
    for (const std::string& axis : emulated_) {
      const auto& varying = node.in_specs[i][0];
      if (std::find(varying.begin(), varying.end(), axis) == varying.end()) same.push_back(axis);
    }
    for (std::size_t r = 0; r < n; ++r) {
      if (n == 1 || same.empty()) {
        results.push_back(of_each[static_cast<std::ptrdiff_t>(r)]);
        continue;
      }
      Array sum;
      for (std::size_t member : group(r, same)) {
        const Array& each = of_each[static_cast<std::ptrdiff_t>(member)];
        sum = sum.valid() ? sum + each : each;
      }
      results.push_back(sum);
    }
  }
  return results;
}

Arrays Interpreter::choose(const Node& node) const {
  const std::vector<Value> arguments(node.operands.begin() + 1, node.operands.end());
  auto run = [&](const Interpreter& in) {
    const Array& which = in.at(node.operands[0], 0);
    const Arrays given = in.flat(arguments);
    if (node.op == "cond")
      return cond(which, Function(in, node.bodies[0]), Function(in, node.bodies[1]), given);
    std::vector<Function> functions;
    for (const Body& body : node.bodies) functions.emplace_back(in, body);
    return switch_(which, functions, given);
  };
  return node.ints[0] == 0 ? run(*this) : by_each(node, run);
}

Arrays Interpreter::by_each(const Node& node, const std::function<Arrays(const Interpreter&)>& run) const {
  if (emulated_.empty() || only_) return run(*this);
  std::vector<Arrays> of_each;
  for (std::size_t r = 0; r < replicas(); ++r) {
    Interpreter one = *this;
    one.only_ = r;
    of_each.push_back(run(one));
  }
  Arrays results;
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    for (const Arrays& each : of_each) results.push_back(each[i]);
  }
  return results;
}

/// Devices may leave it at different steps.
Arrays Interpreter::decided_loop(const Node& node) const {
  return by_each(node, [&](const Interpreter& in) -> Arrays {
    const Arrays all = in.flat(node.operands);
    const Function first(in, node.bodies[0]);
    if (node.op == "counted_loop") {
      auto step = [&](const Array& i, const Arrays& carry) { return first(joined({i}, carry)); };
      return fori_loop(all[0], all[1], step, parted(all, 2).second);
    }
    auto condition = [&](const Arrays& carry) -> Array { return first(carry)[0]; };
    return lockstep::while_loop(condition, Function(in, node.bodies[1]), all);
  });
}

Arrays Interpreter::run_nested(const Node& node) const {
  const std::string& op = node.op;
  const Function function(*this, node.bodies[0]);
  const Arrays all = flat(node.operands);
  const std::size_t n = replicas();
  if (op == "jit") {
    JitOptions options;
    if (mesh_ && !node.out_specs.empty())
      options.out_shardings = {NamedSharding(*mesh_, partition_spec(node.out_specs[0]))};
    return jit(function, options)(all);
  }
  if (op == "checkpoint") return remat(function)(all);
  if (op == "map") return lockstep::map(function, all);
  if (op == "grad") return gradient(node);
  if (op == "cond" || op == "switch") return choose(node);
  if (op == "while_loop" || op == "counted_loop") return decided_loop(node);
  if (op == "vmap") {
    // One argument for each dimension that is mapped, and one for what is not.
    std::vector<Value> groups[3];
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      groups[node.ints[i] < 0 ? 2 : static_cast<std::size_t>(node.ints[i])].push_back(node.operands[i]);
    auto body = [&](const Arrays& first, const Arrays& second, const Arrays& same) {
      const Arrays* of[] = {&first, &second, &same};
      std::size_t next[] = {0, 0, 0};
      Arrays inputs;
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const std::size_t g = node.ints[i] < 0 ? 2 : static_cast<std::size_t>(node.ints[i]);
        for (std::size_t r = 0; r < n; ++r) inputs.push_back((*of[g])[next[g]++]);
      }
      return function(inputs);
    };
    VmapOptions options{{0, 1, std::nullopt}, static_cast<int>(node.ints.back()), node.text};
    return vmap(body, options)(flat(groups[0]), flat(groups[1]), flat(groups[2]));
  }
  if (op == "scan") {
    const std::size_t carries = static_cast<std::size_t>(node.ints[0]) * n;
    const auto [init, xs] = parted(all, carries);
    auto step = [&](const Arrays& carry, const Arrays& x) {
      return parted(function(joined(carry, x)), carries);
    };
    const auto [last, ys] =
        lockstep::scan(step, init, xs, {.length = node.ints[1], .reverse = node.ints[2] != 0});
    return joined(last, ys);
  }
  if (op == "fori_loop") {
    auto step = [&](const Array& i, const Arrays& carry) { return function(joined(Arrays(n, i), carry)); };
    return fori_loop(node.ints[0], node.ints[1], step, all);
  }
  if (op == "jvp" || op == "linearize") {
    const auto [primals, tangents] = parted(all, all.size() / 2);
    if (op == "jvp") {
      const auto [value, tangent] = jvp(function, std::tuple(primals), std::tuple(tangents));
      return joined(value, tangent);
    }
    const auto [value, push] = linearize(function, primals);
    return joined(value, push(std::tuple(tangents)));
  }
  if (op == "vjp") {
    const auto [arguments, cotangents] = parted(all, static_cast<std::size_t>(node.ints[0]) * n);
    const auto [value, pull] = vjp(function, arguments);
    return joined(value, std::get<0>(pull(cotangents)));
  }
  auto of_one = [&](const Array& x) -> Array { return function({x})[0]; };
  if (op == "jacfwd") return {jacfwd(of_one)(all[0])};
  if (op == "jacrev") return {jacrev(of_one)(all[0])};
  if (op == "hessian") return {hessian(of_one)(all[0])};
  const Function second(*this, node.bodies[1]);
  if (op == "custom_jvp") {
    auto rule = [&](const std::tuple<Arrays>& x, const std::tuple<Arrays>& t) {
      return parted(second(joined(std::get<0>(x), std::get<0>(t))), n);
    };
    return custom_jvp(function, rule)(all);
  }
  if (op == "custom_vjp") {
    const Function third(*this, node.bodies[2]);
    auto forward = [&](const Arrays& x) { return parted(second(x), n); };
    auto backward = [&](const Arrays& residuals, const Arrays& cotangents) {
      return std::tuple(third(joined(residuals, cotangents)));
    };
    return custom_vjp(function, forward, backward)(all);
  }
  throw std::logic_error("no operation is called " + op);
}

}  // namespace lockstep::fuzz
