// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/manual_axes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/placement.h"

namespace lockstep::sharding {
namespace {

bool enters(const ir::Equation& equation) { return equation.primitive == &ir::to_local_p(); }
bool leaves(const ir::Equation& equation) { return equation.primitive == &ir::to_global_p(); }

/// The calls of shard_map in a program. A value between to_local and to_global belongs to one.
class Calls {
 public:
  explicit Calls(std::size_t num_variables)
      : parents_(num_variables), is_local_(num_variables), calls_(num_variables) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }

  struct Call {
    bool is_mapped = false;
    std::vector<std::string> used;
  };

  Call& of(ir::Var var) { return calls_[root(static_cast<std::size_t>(var))]; }

  /// Looks at the equation, which comes behind those that make its operands.
  void add(const ir::Program& program, const ir::Equation& equation) {
    std::vector<ir::Var> members;
    for (ir::Var var : equation.inputs) {
      if (is_local_[static_cast<std::size_t>(var)]) members.push_back(var);
    }
    if (!leaves(equation) && (enters(equation) || !members.empty()))
      members.insert(members.end(), equation.outputs.begin(), equation.outputs.end());
    if (members.empty()) return;
    for (ir::Var var : members) {
      is_local_[static_cast<std::size_t>(var)] = true;
      join(members.front(), var);
    }
    Call& call = of(members.front());
    const auto use = [&](const std::vector<std::string>& axes) {
      call.used.insert(call.used.end(), axes.begin(), axes.end());
    };
    for (ir::Var var : members) use(program.aval(var).varying);
    use(equation.primitive->exchange(equation.params).axes);
    if (!enters(equation) && !leaves(equation)) return;
    const auto& placement = equation.params.as<ir::PlacementParams>();
    for (const auto& axes : placement.spec) use(axes);
    call.is_mapped = call.is_mapped || placement.unconstrained.has_value();
  }

 private:
  std::size_t root(std::size_t var) {
    while (parents_[var] != var) var = parents_[var] = parents_[parents_[var]];
    return var;
  }

  void join(ir::Var a, ir::Var b) {
    const std::size_t to = root(static_cast<std::size_t>(a)), from = root(static_cast<std::size_t>(b));
    if (from == to) return;
    parents_[from] = to;
    Call call = std::exchange(calls_[from], {});
    calls_[to].is_mapped = calls_[to].is_mapped || call.is_mapped;
    calls_[to].used.insert(calls_[to].used.end(), call.used.begin(), call.used.end());
  }

  std::vector<std::size_t> parents_;
  std::vector<bool> is_local_;
  std::vector<Call> calls_;  // of roots
};

}  // namespace

std::vector<Axes> manual_axes(const ir::Program& program, const Grid& grid) {
  std::vector<Axes> manual(program.equations.size());
  Calls calls(program.variables.size());
  for (const ir::Equation& equation : program.equations) calls.add(program, equation);
  for (std::size_t e = 0; e < program.equations.size(); ++e) {
    const ir::Equation& equation = program.equations[e];
    if (!enters(equation) && !leaves(equation)) continue;
    std::vector<std::string> axes = equation.params.as<ir::PlacementParams>().manual;
    const Calls::Call& call = calls.of(leaves(equation) ? equation.inputs[0] : equation.outputs[0]);
    if (call.is_mapped)
      std::erase_if(axes, [&](const std::string& axis) {
        return std::ranges::find(call.used, axis) == call.used.end();
      });
    manual[e] = grid.axes(axes);
  }
  return manual;
}

}  // namespace lockstep::sharding
