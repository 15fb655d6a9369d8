// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/dce.h"

#include <algorithm>
#include <utility>

#include "lockstep/program/primitive.h"

namespace lockstep::transforms {
namespace {

void keep(std::vector<ir::Var>& vars, const std::vector<bool>& kept) {
  std::size_t next = 0;
  std::erase_if(vars, [&](ir::Var) { return !kept[next++]; });
}

void prune(ir::Equation& equation, const std::vector<bool>& used) {
  std::vector<bool> results;
  for (ir::Var var : equation.outputs) results.push_back(used[static_cast<std::size_t>(var)]);
  ir::PrunedEquation pruned = equation.primitive->nested->prune(equation.params, results);
  equation.params = std::move(pruned.params);
  keep(equation.inputs, pruned.operands);
  keep(equation.outputs, pruned.results);
}

}  // namespace

ir::Program eliminate_dead_code(ir::Program program) {
  std::vector<bool> used(program.variables.size());
  auto is_used = [&](ir::Var var) { return used[static_cast<std::size_t>(var)]; };
  auto use = [&](ir::Var var) { used[static_cast<std::size_t>(var)] = true; };
  for (ir::Var var : program.outputs) use(var);
  std::vector<bool> alive(program.equations.size());
  for (std::size_t i = program.equations.size(); i-- > 0;) {
    ir::Equation& equation = program.equations[i];
    alive[i] = std::ranges::any_of(equation.outputs, is_used) || ir::has_effect(equation);
    if (alive[i] && equation.primitive->nested) prune(equation, used);
    if (alive[i]) std::ranges::for_each(equation.inputs, use);
  }

  ir::Program out;
  out.name = std::move(program.name);
  out.axes = std::move(program.axes);
  std::vector<ir::Var> renamed(program.variables.size(), -1);
  auto define = [&](ir::Var& var) {
    ir::Var fresh = static_cast<ir::Var>(out.variables.size());
    out.variables.push_back(std::move(program.variables[static_cast<std::size_t>(var)]));
    renamed[static_cast<std::size_t>(var)] = fresh;
    var = fresh;
  };
  auto rename = [&](ir::Var& var) { var = renamed[static_cast<std::size_t>(var)]; };
  std::ranges::for_each(program.inputs, define);
  for (std::size_t i = 0; i < program.equations.size(); ++i) {
    if (!alive[i]) continue;
    ir::Equation& equation = program.equations[i];
    std::ranges::for_each(equation.inputs, rename);
    std::ranges::for_each(equation.outputs, define);
    out.equations.push_back(std::move(equation));
  }
  std::ranges::for_each(program.outputs, rename);
  out.inputs = std::move(program.inputs);
  out.outputs = std::move(program.outputs);
  return out;
}

}  // namespace lockstep::transforms
