// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/cost.h"

#include <algorithm>

#include "lockstep/program/primitive.h"
#include "lockstep/program/uses.h"

namespace lockstep::ir {
namespace {

/// Counts equation after equation in memory that it keeps.
class FlopCounter {
 public:
  double operator()(const Program& program, const Equation& equation) {
    collect(program, equation.inputs, inputs_);
    collect(program, equation.outputs, outputs_);
    return equation.primitive->flops(inputs_, outputs_, equation.params);
  }

 private:
  template <class Vars>
  static void collect(const Program& program, const Vars& vars, std::vector<Aval>& avals) {
    avals.resize(vars.size());
    for (std::size_t i = 0; i < vars.size(); ++i) avals[i] = program.aval(vars[i]);
  }

  std::vector<Aval> inputs_, outputs_;
};

ProgramCost cost_with(FlopCounter& flops_of, const Program& program, const Equation& equation) {
  ProgramCost cost;
  if (!equation.primitive->nested) {
    cost.flops = flops_of(program, equation);
    for (Var var : equation.inputs) cost.bytes_accessed += static_cast<double>(program.aval(var).bytes());
    for (Var var : equation.outputs) cost.bytes_accessed += static_cast<double>(program.aval(var).bytes());
    return cost;
  }
  // The dearest branch counts, as only one of them runs.
  for (const NestedProgram& nested : programs_of(equation)) {
    const ProgramCost once = cost_of(*nested.program);
    const auto times = static_cast<double>(nested.times.value_or(1));
    const ProgramCost all{once.flops * times, once.bytes_accessed * times};
    if (nested.alternative) {
      cost.flops = std::max(cost.flops, all.flops);
      cost.bytes_accessed = std::max(cost.bytes_accessed, all.bytes_accessed);
    } else {
      cost.flops += all.flops;
      cost.bytes_accessed += all.bytes_accessed;
    }
  }
  return cost;
}

}  // namespace

ProgramCost cost_of(const Program& program, const Equation& equation) {
  FlopCounter flops_of;
  return cost_with(flops_of, program, equation);
}

ProgramCost cost_of(const Program& program) {
  ProgramCost cost;
  FlopCounter flops_of;
  for (const Equation& equation : program.equations) {
    const ProgramCost each = cost_with(flops_of, program, equation);
    cost.flops += each.flops;
    cost.bytes_accessed += each.bytes_accessed;
  }
  return cost;
}

bool is_light(const Program& program, const Equation& equation) {
  if (equation.primitive->nested || has_effect(equation) ||
      !equation.primitive->exchange(equation.params).kind.empty())
    return false;
  double elements = 0;
  for (Var var : equation.outputs) elements += static_cast<double>(program.aval(var).num_elements());
  return cost_of(program, equation).flops <= elements;
}

std::int64_t peak_bytes(const Program& program) {
  const std::size_t num_equations = program.equations.size();
  const Uses uses(program);
  std::vector<bool> stays(program.variables.size(), false);
  std::int64_t live = 0;
  for (Var var : program.inputs) {
    stays[static_cast<std::size_t>(var)] = true;
    live += program.aval(var).bytes();
  }
  for (Var var : program.outputs) stays[static_cast<std::size_t>(var)] = true;
  std::int64_t peak = live;
  for (std::size_t e = 0; e < num_equations; ++e) {
    const Equation& equation = program.equations[e];
    for (Var var : equation.outputs) live += program.aval(var).bytes();
    std::int64_t within = 0;
    if (equation.primitive->nested) {
      for (const NestedProgram& nested : programs_of(equation)) {
        std::int64_t of_nested = peak_bytes(*nested.program);
        for (Var var : nested.program->inputs) of_nested -= nested.program->aval(var).bytes();
        within = std::max(within, of_nested);
      }
    }
    peak = std::max(peak, live + within);
    auto end = [&](Var var) {
      if (stays[static_cast<std::size_t>(var)] || uses.last(var).value_or(0) > e) return;
      stays[static_cast<std::size_t>(var)] = true;  // it is counted out once
      live -= program.aval(var).bytes();
    };
    std::ranges::for_each(equation.inputs, end);
    std::ranges::for_each(equation.outputs, end);
  }
  return peak;
}

}  // namespace lockstep::ir
