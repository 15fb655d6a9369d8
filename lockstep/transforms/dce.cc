// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/dce.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/program/primitive.h"
#include "lockstep/program/rewriter.h"

namespace lockstep::transforms {
namespace {

void keep(std::vector<ir::Var>& vars, const std::vector<bool>& kept) {
  std::size_t next = 0;
  std::erase_if(vars, [&](ir::Var) { return !kept[next++]; });
}

ir::Equation pruned(ir::Equation equation, const std::vector<bool>& used) {
  std::vector<bool> results;
  for (ir::Var var : equation.outputs) results.push_back(used[static_cast<std::size_t>(var)]);
  ir::PrunedEquation pruned = equation.primitive->nested->prune(equation.params, results);
  equation.params = std::move(pruned.params);
  keep(equation.inputs, pruned.operands);
  keep(equation.outputs, pruned.results);
  return equation;
}

std::optional<ir::Program> without_dead_code(const ir::Program& program) {
  std::vector<bool> used(program.variables.size());
  auto is_used = [&](ir::Var var) { return used[static_cast<std::size_t>(var)]; };
  auto use = [&](ir::Var var) { used[static_cast<std::size_t>(var)] = true; };
  for (ir::Var var : program.outputs) use(var);
  std::vector<bool> alive(program.equations.size());
  std::map<std::size_t, ir::Equation> changed;
  for (std::size_t i = program.equations.size(); i-- > 0;) {
    const ir::Equation& equation = program.equations[i];
    alive[i] = std::ranges::any_of(equation.outputs, is_used) || ir::has_effect(equation);
    if (!alive[i]) continue;
    const bool is_nested = equation.primitive->nested.has_value();
    const ir::Equation& now = is_nested ? changed[i] = pruned(equation, used) : equation;
    std::ranges::for_each(now.inputs, use);
  }
  ir::Rewriter rewriter(program);
  for (std::size_t i = 0; i < program.equations.size(); ++i) {
    if (!alive[i]) continue;
    if (const auto found = changed.find(i); found != changed.end())
      rewriter.keep_as(found->second);
    else
      rewriter.keep(i);
  }
  return rewriter.finish();
}

}  // namespace

ir::Program eliminate_dead_code(ir::Program program) {
  return rewritten(std::move(program), without_dead_code);
}

ir::Program part_of(const ir::Program& program, std::vector<ir::Var> inputs, std::vector<ir::Var> outputs,
                    const std::vector<bool>& equations) {
  ir::Program out{program.name, program.variables, std::move(inputs), std::move(outputs), {}, program.axes};
  for (std::size_t i = 0; i < equations.size(); ++i) {
    if (equations[i]) out.equations.push_back(program.equations[i]);
  }
  return eliminate_dead_code(std::move(out));
}

}  // namespace lockstep::transforms
